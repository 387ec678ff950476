package spec

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling/option"
)

// pack copies the options of a struct into the fields of a message. A field has the name of its
// option, or the name in the option's `proto` tag. Options that are not set, and options without a
// field, are left out.
func pack(m proto.Message, of any) {
	to := m.ProtoReflect()
	option.Each(of, func(name string, tag reflect.StructTag, field reflect.Value) {
		if fd := fieldOf(to, name, tag); fd != nil && !field.IsNil() {
			packField(to, fd, field)
		}
	})
}

// unpack copies the fields of a message into the options of a struct. A zero field leaves its
// option unset, unless the option has a default.
func unpack(m proto.Message, of any) {
	from := m.ProtoReflect()
	option.Each(of, func(name string, tag reflect.StructTag, field reflect.Value) {
		fd := fieldOf(from, name, tag)
		if fd == nil || !from.Has(fd) && (fd.HasPresence() || fd.IsList() || fd.IsMap() || tag.Get("default") == "") {
			return
		}
		unpackField(from, fd, field)
	})
}

// hundredths is the suffix of fields that hold their option's value in hundredths.
const hundredths = "_hundredths"

func fieldOf(m protoreflect.Message, name string, tag reflect.StructTag) protoreflect.FieldDescriptor {
	if other, ok := tag.Lookup("proto"); ok {
		name = other
	}
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func packField(to protoreflect.Message, fd protoreflect.FieldDescriptor, field reflect.Value) {
	switch {
	case fd.IsMap():
		entries := to.Mutable(fd).Map()
		for it := field.Elem().MapRange(); it.Next(); {
			entries.Set(protoreflect.ValueOfString(it.Key().String()).MapKey(), protoreflect.ValueOfString(it.Value().String()))
		}
	case fd.IsList():
		items := to.Mutable(fd).List()
		of := reflect.Indirect(field)
		for i := range of.Len() {
			if fd.Message() == nil {
				items.Append(protoreflect.ValueOfString(of.Index(i).String()))
				continue
			}
			item := items.NewElement()
			pack(item.Message().Interface(), of.Index(i).Interface())
			items.Append(item)
		}
	case fd.Message() == nil:
		to.Set(fd, scalarOf(fd, field.Elem()))
	default:
		if d, ok := field.Interface().(*time.Duration); ok {
			to.Set(fd, protoreflect.ValueOfMessage(durationpb.New(*d).ProtoReflect()))
			return
		}
		pack(to.Mutable(fd).Message().Interface(), field.Interface())
	}
}

func scalarOf(fd protoreflect.FieldDescriptor, v reflect.Value) protoreflect.Value {
	switch kind := fd.Kind(); {
	case strings.HasSuffix(string(fd.Name()), hundredths):
		return protoreflect.ValueOfInt64(int64(math.Round(v.Float() * 100)))
	case kind == protoreflect.BoolKind:
		return protoreflect.ValueOfBool(v.Bool())
	case kind == protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(v.Int()))
	case kind == protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(v.Int())
	default:
		return protoreflect.ValueOfString(v.String())
	}
}

func unpackField(from protoreflect.Message, fd protoreflect.FieldDescriptor, field reflect.Value) {
	to := reflect.New(field.Type()).Elem()
	of := to
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(field.Type().Elem()))
		of = to.Elem()
	}
	value := from.Get(fd)
	switch {
	case fd.IsMap():
		of.Set(reflect.MakeMap(of.Type()))
		value.Map().Range(func(name protoreflect.MapKey, v protoreflect.Value) bool {
			of.SetMapIndex(reflect.ValueOf(name.String()), reflect.ValueOf(v.String()))
			return true
		})
	case fd.IsList():
		for i := range value.List().Len() {
			item := value.List().Get(i)
			if fd.Message() == nil {
				of.Set(reflect.Append(of, reflect.ValueOf(item.String()).Convert(of.Type().Elem())))
				continue
			}
			group := reflect.New(of.Type().Elem().Elem())
			unpack(item.Message().Interface(), group.Interface())
			of.Set(reflect.Append(of, group))
		}
	case fd.Message() != nil:
		if d, ok := value.Message().Interface().(*durationpb.Duration); ok {
			of.SetInt(int64(d.AsDuration()))
		} else {
			unpack(value.Message().Interface(), to.Interface())
		}
	case strings.HasSuffix(string(fd.Name()), hundredths):
		of.SetFloat(float64(value.Int()) / 100)
	default:
		of.Set(reflect.ValueOf(value.Interface()).Convert(of.Type()))
	}
	field.Set(to)
}

// operationOf returns the options of an operation, without its tasks.
func operationOf(op *statepb.OperationSpec) (*Operation, error) {
	o := &Operation{}
	unpack(op, o)
	annotations, err := Annotations(op)
	if err != nil {
		return nil, err
	}
	if annotations != nil {
		o.Annotations = option.Of(annotations)
	}
	if names := op.GetVault().GetNames(); len(names) > 0 {
		o.Vault = ptr(secrets(names))
	}
	if err := option.Read(&o.OperationOptions, op.GetOptions().AsMap()); err != nil {
		return nil, fmt.Errorf("read options: %w", err)
	}
	for name, s := range op.GetOptionsPerTree() {
		own := &inTree{}
		if err := option.Read(own, s.AsMap()); err != nil {
			return nil, fmt.Errorf("read options in tree %q: %w", name, err)
		}
		if o.PerTree == nil {
			o.PerTree = make(map[string]*inTree)
		}
		o.PerTree[name] = own
	}
	return o, nil
}

// taskOf returns the options of a task. Options that would have no effect are not set.
func taskOf(of *statepb.TaskSpec) *Task {
	t := &Task{}
	unpack(of, t)
	if t.Command = (&command{argv: of.GetArgv(), line: of.GetShell()}); of.GetShell() != "" {
		t.Shell = ptr(true)
	}
	if t.Signal == nil {
		t.RootOnly, t.RestartCode = nil, nil
	}
	t.MaxSurge = nil
	if t.Signal != nil && or(t.RestartCompleted, false) {
		t.MaxSurge = ptr(int64(of.GetMaxSurge()))
	}
	if t.Spread = nil; t.Gang == nil {
		t.Spread = ptr(of.GetSpread())
	}
	if r := t.Readiness; r != nil {
		if r.HTTP == nil && r.TCP == nil {
			r.Port = nil
		}
		if r.Socket != nil {
			r.Failures = nil
		}
	}
	if len(of.GetCookies()) > 0 {
		t.Cookies = &cookieSet{of.GetCookies()}
	}
	m := of.GetMemory()
	if m == nil {
		return t
	}
	t.DigestDefault, t.DigestLower = ptr(m.GetDigestDefaultValue()), ptr(m.GetDigestLowerBound())
	t.ProxyDigest = &proxyDigest{Default: ptr(m.GetProxyDefaultValue()), Lower: ptr(m.GetProxyLowerBound()), Upper: ptr(m.GetProxyUpperBound())}
	t.UserMultiplier, t.ProxyMultiplier = above0(m.GetUserOverdraftMultiplier()), above0(m.GetProxyOverdraftMultiplier())
	t.MemoryProfile = above0(profileName(m.GetProfile()))
	return t
}

// setPerTree sets the options of an operation in a tree.
func setPerTree(op *statepb.OperationSpec, tree string, options *structpb.Struct) {
	if op.OptionsPerTree == nil {
		op.OptionsPerTree = make(map[string]*structpb.Struct)
	}
	op.OptionsPerTree[tree] = options
}

// structOf returns options as a Struct; nil if there are none.
func structOf(document map[string]any) *structpb.Struct {
	if len(document) == 0 {
		return nil
	}
	s, err := structpb.NewStruct(document)
	if err != nil {
		panic(fmt.Sprintf("write options: %v: they were read before", err))
	}
	return s
}

func ptr[T any](v T) *T { return &v }

// above0 returns a pointer to v, or nil if v is zero.
func above0[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func or[T any](set *T, missing T) T {
	if set == nil {
		return missing
	}
	return *set
}

// text returns the value of a text option; empty if it is not set.
func text[T ~string](set *T) string { return string(or(set, "")) }

func quoted[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(out, ", ")
}

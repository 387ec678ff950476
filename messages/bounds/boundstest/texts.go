// Package boundstest makes messages with texts that are too large, for tests of what bounds them.
package boundstest

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// Bytes is the size of the texts: more than any bound.
const Bytes = 3 << 20

// Oversized yields copies of the empty message of msg's type. Each has one text, list of texts, map
// or object of Bytes bytes, at the path that is given with it.
func Oversized(msg proto.Message, yield func(path string, msg proto.Message)) {
	each(msg.ProtoReflect().Descriptor(), "", nil, func(path string, set func(protoreflect.Message)) {
		m := msg.ProtoReflect().New()
		set(m)
		yield(path, m.Interface())
	})
}

// maxDepth bounds how deep messages are filled in: errors have errors inside.
const maxDepth = 6

func each(of protoreflect.MessageDescriptor, path string, within []protoreflect.MessageDescriptor, yield func(string, func(protoreflect.Message))) {
	if len(within) == maxDepth {
		return
	}
	within = append(within, of)
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		at := strings.TrimPrefix(path+"."+string(field.Name()), ".")
		switch {
		case field.IsMap():
			yield(at, func(m protoreflect.Message) { fillMap(m, field) })
		case field.Message() != nil && field.Message().FullName() == "google.protobuf.Struct":
			yield(at, func(m protoreflect.Message) { m.Set(field, protoreflect.ValueOfMessage(large().ProtoReflect())) })
		case field.Message() != nil && strings.HasPrefix(string(field.Message().FullName()), "weir."):
			each(field.Message(), at, within, func(path string, set func(protoreflect.Message)) {
				yield(path, func(m protoreflect.Message) {
					if field.IsList() {
						set(m.Mutable(field).List().AppendMutable().Message())
					} else {
						set(m.Mutable(field).Message())
					}
				})
			})
		case field.Kind() == protoreflect.StringKind && field.IsList():
			yield(at, func(m protoreflect.Message) { m.Mutable(field).List().Append(protoreflect.ValueOfString(text())) })
		case field.Kind() == protoreflect.StringKind:
			yield(at, func(m protoreflect.Message) { m.Set(field, protoreflect.ValueOfString(text())) })
		case field.Kind() == protoreflect.BytesKind && !field.IsList():
			yield(at, func(m protoreflect.Message) { m.Set(field, protoreflect.ValueOfBytes([]byte(text()))) })
		}
	}
}

func fillMap(m protoreflect.Message, field protoreflect.FieldDescriptor) {
	key := protoreflect.ValueOfString(text()).MapKey()
	if field.MapKey().Kind() != protoreflect.StringKind {
		return
	}
	values := m.Mutable(field).Map()
	values.Set(key, values.NewValue())
}

func text() string { return strings.Repeat("x", Bytes) }

func large() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewStringValue(text())}}
}

package option

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Reader is an option that reads itself from a value of a document. The paths in an *Error
// that it returns are relative to the value.
type Reader interface{ ReadOption(value *Value) error }

// Writer is an option that writes itself as a value of a document.
type Writer interface{ WriteOption() any }

// Elsewhere is the type of a field for a name that users may expect here, but that is an
// option of another object. Setting it is a fault, whose text is the tag `elsewhere`.
type Elsewhere struct{}

// Field describes an option.
type Field struct {
	// Path is the full name: the groups that contain the option, then its own name,
	// separated by slashes.
	Path string
	// Aliases are other names for the option.
	Aliases []string
	// Kind is the kind of its value. It is the kind in the tag `kind`, or bool, integer, number, text,
	// duration, list, texts by name, options, list of options, options by name, or object.
	Kind string
	// Values is the fixed set of its values. It is nil if any value is allowed.
	Values []string
	// Min and Max are the bounds, as written in the tags, of a number, a size, a time, the
	// bytes of a text, or the length of a list. Above is a bound that the value has to exceed.
	Min, Max, Above string
	// Unit is what the value counts. It is empty if the value has its own unit, or no unit.
	Unit string
	// Default is the value if the option is not set. It is empty if there is no default, or if
	// Help states the default.
	Default string
	// Required says what to do when the option is missing. It is empty if the option is optional.
	Required string
	// Inherit says how the option is inherited. It is empty if the option is not inherited.
	Inherit string
	// Help says in a few words what the option does.
	Help string
	// Rule is the section that defines the option, such as F.11 or J.5.
	Rule string
}

// Fields returns the options of a struct, given as a value or a pointer, in the order of its
// fields. A group is replaced by its options.
func Fields(of any) []Field {
	return slices.DeleteFunc(Table(of), func(f Field) bool { return f.Kind == kindGroup || strings.Contains(f.Path, inEach) })
}

// inEach is the part of a path that stands for each item of a list of groups, or each name of
// groups by name.
const inEach = "*"

// Table returns the same options as Fields, and also the groups themselves, and the options in lists
// of groups and in groups by name. An option in such a list or group has a * in its path, in place of
// the index or name.
func Table(of any) []Field {
	var out []Field
	for _, s := range tableOf(structOf(of)).own {
		out = append(out, s.field)
		inner, below := s.typ, s.name+"/"
		switch s.field.Kind {
		case kindGroup:
		case kindGroups, kindGroupsByName:
			inner, below = s.typ.Elem(), s.name+"/"+inEach+"/"
		default:
			continue
		}
		for _, f := range Table(reflect.New(inner.Elem()).Interface()) {
			f.Path = below + f.Path
			out = append(out, f)
		}
	}
	return out
}

func structOf(of any) reflect.Type {
	t := reflect.TypeOf(of)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// The kinds of options that hold others.
const (
	kindGroup        = "options"
	kindGroups       = "list of options"
	kindGroupsByName = "options by name"
	kindTextsByName  = "texts by name"
	kindAny          = "object"
)

// setting is a tagged field of a struct.
type setting struct {
	field
	name string
	// elsewhere says where the option belongs, for a field of type Elsewhere.
	elsewhere string
	// short is the option that a text in place of the group sets.
	short string
	// empty says that null stands for a group without options.
	empty bool
	// index is the index of the field, through embedded structs.
	index []int
	typ   reflect.Type
	tag   reflect.StructTag
}

type field = Field

var (
	readerType   = reflect.TypeFor[Reader]()
	durationType = reflect.TypeFor[time.Duration]()
	valueType    = reflect.TypeFor[*Value]()
)

func settingsOf(t reflect.Type) []setting {
	out := make([]setting, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := f.Tag.Lookup("option")
		if !ok {
			if f.Anonymous {
				for _, s := range settingsOf(f.Type) {
					s.index = append([]int{i}, s.index...)
					out = append(out, s)
				}
			}
			continue
		}
		tag := f.Tag.Get
		s := setting{
			name: name, elsewhere: tag("elsewhere"), short: tag("short"), empty: tag("null") == "empty", index: []int{i}, typ: f.Type, tag: f.Tag,
			field: Field{
				Path: name, Aliases: list(tag("alias")), Values: list(tag("values")), Min: tag("min"), Max: tag("max"), Above: tag("above"),
				Unit: tag("unit"), Default: tag("default"), Required: tag("required"), Inherit: tag("inherit"), Help: tag("help"), Rule: tag("rule"),
			},
		}
		if s.elsewhere == "" {
			s.Kind = kindOf(f.Type, tag("kind"))
		}
		out = append(out, s)
	}
	return out
}

// known returns the setting with a name. If there is none, or the option belongs elsewhere, the
// result problem is the text of the fault.
func (tb *table) known(name string) (s setting, problem string) {
	s, ok := tb.find(name)
	if ok {
		return s, s.elsewhere
	}
	var all []string
	for _, s := range tb.own {
		all = append(all, s.name)
	}
	if closest := Closest(Canonical(name), all); closest != "" {
		return s, fmt.Sprintf("unknown option; did you mean %s?", closest)
	}
	return s, "unknown option: use one of " + strings.Join(all, ", ")
}

// kindOf returns the kind of an option: the one that its tag names, or else the kind of its type.
func kindOf(t reflect.Type, named string) string {
	switch {
	case t == valueType:
		return kindAny
	case named != "":
		return named
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "list"
	case t.Kind() == reflect.Slice:
		return kindGroups
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		return kindTextsByName
	case t.Kind() == reflect.Map:
		return kindGroupsByName
	case t.Elem() == durationType:
		return "duration"
	}
	switch t.Elem().Kind() {
	case reflect.Struct:
		return kindGroup
	case reflect.Bool:
		return "bool"
	case reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	default:
		panic(fmt.Sprintf("a field of type %s cannot be an option", t))
	}
}

func list(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

// Has reports whether a struct has an option of this name.
func Has(of any, name string) bool {
	_, ok := tableOf(structOf(of)).find(name)
	return ok
}

// Named reports whether the names directly below a path are names of options, where - and _ are
// equivalent, rather than names that users choose. The parameter `of` is the struct at the start of
// the path.
func Named(of any, path []string) bool {
	t := structOf(of)
	for i := 0; i < len(path); i++ {
		s, ok := tableOf(t).find(path[i])
		if !ok {
			return false
		}
		switch s.Kind {
		case kindGroup:
			t = s.typ.Elem()
		case kindGroups, kindGroupsByName:
			if i++; i == len(path) {
				return false
			}
			t = s.typ.Elem().Elem()
		default:
			return false
		}
	}
	return true
}

// Each calls visit for each option of the struct *of, with its name, its tag and its field.
func Each(of any, visit func(name string, tag reflect.StructTag, field reflect.Value)) {
	v := reflect.ValueOf(of).Elem()
	for _, s := range tableOf(v.Type()).own {
		visit(s.name, s.tag, v.FieldByIndex(s.index))
	}
}

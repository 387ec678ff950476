package option

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Reader is an option that reads itself from a value of a document. The paths and the
// places of an *Error that it returns are those of what is in the value.
type Reader interface{ ReadOption(value *Value) error }

// Writer is an option that writes itself as a value of a document.
type Writer interface{ WriteOption() any }

// Elsewhere is the type of a field for a name that people look for here and that is
// another's: its tag `elsewhere` says whose, to who gives it. It is no option.
type Elsewhere struct{}

// Field describes an option.
type Field struct {
	// Path is the name, with the names of the groups that it is in before it and
	// slashes between.
	Path string
	// Aliases are other names that are taken in its place.
	Aliases []string
	// Kind is what a value is: bool, integer, number, text, size, duration, list, texts
	// by name, options, a list of options, options by name, or what its tag `kind` says.
	Kind string
	// Values is the fixed set that values are out of; nil: there is none.
	Values []string
	// Min and Max are the bounds that a value may have, as they are written: of a number,
	// a size, a time, the bytes of a text, or how many a list has. Above is one that it
	// has to exceed.
	Min, Max, Above string
	// Unit is what the value counts; empty: it says it itself, or counts nothing.
	Unit string
	// Default is what holds when nothing is set; empty: nothing does, or Help says it.
	Default string
	// Required says what to do when the option is missing; empty: it may be.
	Required string
	// Inherit says how the option is handed down; empty: it is not.
	Inherit string
	// Help says in a few words what the option does.
	Help string
	// Rule is the section that says it exactly, such as F.11 or J.5.
	Rule string
}

// Fields returns the options of a struct, given as a value or a pointer, in their order;
// those of a group follow each other, without the group.
func Fields(of any) []Field {
	return slices.DeleteFunc(Table(of), func(f Field) bool { return f.Kind == kindGroup || strings.Contains(f.Path, inEach) })
}

// inEach stands in a path behind what a list, or an object by name, has several of.
const inEach = "*"

// Table is Fields with the groups themselves, and with what is in lists of groups and
// groups by name, whose paths have a * for each of them.
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
	// elsewhere is where the option is, if not here.
	elsewhere string
	// short is the option of a group that stands for all of it where it is a text.
	short string
	// empty: null stands for a group without options.
	empty bool
	// index is the way to the field, through embedded structs.
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

// known returns the setting that has a name, or what to do instead.
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

// kindOf is the kind of an option of a type, or the one that its tag names.
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
		panic(fmt.Sprintf("an option is of a type that options cannot be: %s", t))
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

// Named reports whether the names right below a path are those of options, of which - and
// _ are the same, and not names that people choose. of is the struct at the path's begin.
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

// Each calls visit with each option of a struct, given by a pointer: its name, its tag and
// the field that holds it.
func Each(of any, visit func(name string, tag reflect.StructTag, field reflect.Value)) {
	v := reflect.ValueOf(of).Elem()
	for _, s := range tableOf(v.Type()).own {
		visit(s.name, s.tag, v.FieldByIndex(s.index))
	}
}

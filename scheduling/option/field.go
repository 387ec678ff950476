package option

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Reader is a setting that reads itself from a value of a document.
type Reader interface{ ReadOption(value any) error }

// Writer is a setting that writes itself as a value of a document.
type Writer interface{ WriteOption() any }

// Elsewhere is the type of a field for a name that people look for here and that is
// another's: its tag `elsewhere` says whose, to who gives it. It is no setting.
type Elsewhere struct{}

// Field describes a setting.
type Field struct {
	// Path is the name, with the names of the groups that it is in before it and
	// slashes between.
	Path string
	// Aliases are other names that are taken in its place.
	Aliases []string
	// Kind is what a value is: bool, integer, number, text, duration, list, or the
	// name that a type that reads itself gives in its tag `kind`.
	Kind string
	// Values is the fixed set that values are out of; nil: there is none.
	Values []string
	// Help says in a few words what the setting does.
	Help string
}

// Fields returns the settings of a struct, given as a value or a pointer, in
// their order; those of a group follow each other.
func Fields(of any) []Field {
	t := reflect.TypeOf(of)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []Field
	for _, s := range ownSettings(t) {
		if s.group() {
			for _, f := range Fields(reflect.Zero(s.typ.Elem()).Interface()) {
				f.Path = s.name + "/" + f.Path
				out = append(out, f)
			}
			continue
		}
		out = append(out, Field{Path: s.name, Aliases: s.aliases, Kind: s.kind(), Values: s.values, Help: s.help})
	}
	return out
}

// setting is a tagged field of a struct.
type setting struct {
	name    string
	aliases []string
	values  []string
	help    string
	named   string
	// elsewhere is where the setting is, if not here.
	elsewhere string
	// index is the way to the field, through embedded structs.
	index []int
	typ   reflect.Type
}

var (
	readerType   = reflect.TypeFor[Reader]()
	durationType = reflect.TypeFor[time.Duration]()
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
		out = append(out, setting{
			name: name, aliases: list(f.Tag.Get("alias")), values: list(f.Tag.Get("values")),
			help: f.Tag.Get("help"), named: f.Tag.Get("kind"), elsewhere: f.Tag.Get("elsewhere"), index: []int{i}, typ: f.Type,
		})
	}
	return out
}

// ownSettings leaves out what is elsewhere.
func ownSettings(t reflect.Type) []setting {
	return slices.DeleteFunc(settingsOf(t), func(s setting) bool { return s.elsewhere != "" })
}

// find returns the setting with a name or an alias.
func find(settings []setting, name string) (setting, bool) {
	name = canonical(name)
	for _, s := range settings {
		if s.name == name {
			return s, true
		}
		for _, alias := range s.aliases {
			if alias == name {
				return s, true
			}
		}
	}
	return setting{}, false
}

// group reports whether the setting is a struct of settings.
func (s setting) group() bool {
	return s.typ.Kind() == reflect.Pointer && s.typ.Elem().Kind() == reflect.Struct && !s.typ.Implements(readerType)
}

func (s setting) kind() string {
	switch {
	case s.named != "":
		return s.named
	case s.typ.Kind() == reflect.Slice:
		return "list"
	case s.typ.Elem() == durationType:
		return "duration"
	}
	switch s.typ.Elem().Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	default:
		panic(fmt.Sprintf("setting %q is of a type that options cannot be: %s", s.name, s.typ))
	}
}

func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

func list(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

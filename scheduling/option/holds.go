package option

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Holds maps options to the fields of a struct of effective settings. The tag `option` of a
// field is the path of its option. The field has the type of its option, or the one that its
// option points to. Other fields have no tag.
type Holds struct{ fields func() []held }

// held is a field of the effective settings and its option.
type held struct {
	setting
	path string
	// to is the index of the field of the effective settings, from the index of the option.
	to, from []int
}

// HoldsOf maps the options of a struct to the fields of what. It is for variables of packages: the
// first use makes the map, and panics if an option does not exist.
func HoldsOf(what, options any) Holds {
	return Holds{sync.OnceValue(func() []held { return holdsOf(what, options) })}
}

func holdsOf(what, options any) (fields []held) {
	for _, f := range reflect.VisibleFields(structOf(what)) {
		path, ok := f.Tag.Lookup("option")
		if !ok {
			continue
		}
		own := held{path: path, to: f.Index}
		t := structOf(options)
		for name := range strings.SplitSeq(path, "/") {
			if own.setting, ok = tableOf(t).find(name); !ok {
				panic(fmt.Sprintf("%T.%s: %v has no option %s", what, f.Name, t, path))
			}
			own.from = append(own.from, own.index...)
			if own.Kind == kindGroup {
				t = own.typ.Elem()
			}
		}
		fields = append(fields, own)
	}
	return fields
}

// Set copies the options that are set in the struct that options points to into the one that
// what points to.
func (h Holds) Set(what, options any) {
	to, from := reflect.ValueOf(what).Elem(), reflect.ValueOf(options).Elem()
	fields := h.fields()
	for i := range fields {
		f := &fields[i]
		// FieldByIndexErr fails if a group on the way is nil: the option is not set.
		set, err := from.FieldByIndexErr(f.from)
		if err != nil || set.IsNil() {
			continue
		}
		dst := to.FieldByIndex(f.to)
		if set.Kind() == reflect.Pointer && dst.Kind() != reflect.Pointer {
			set = set.Elem()
		}
		dst.Set(set.Convert(dst.Type()))
	}
}

// Document returns the effective settings by the paths of their options, in the form of Write.
// A nil field stays nil.
func (h Holds) Document(what any) map[string]any {
	fields := h.fields()
	document := make(map[string]any, len(fields))
	v := reflect.ValueOf(what)
	for i := range fields {
		f := &fields[i]
		field := v.FieldByIndex(f.to)
		if f.typ.Kind() == reflect.Pointer && field.Kind() != reflect.Pointer {
			field = reflect.New(f.typ.Elem())
			field.Elem().Set(v.FieldByIndex(f.to).Convert(f.typ.Elem()))
		}
		document[f.path] = nil
		if !field.IsNil() {
			document[f.path] = written(&f.setting, field)
		}
	}
	return document
}

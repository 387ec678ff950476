package option

import (
	"fmt"
	"reflect"
	"strings"
)

// Holds maps options to the fields of a struct of effective settings. The tag `option` of a
// field is the path of its option. The field has the type of its option, or the type to which
// the option points. Other fields have no tag.
type Holds struct{ fields []held }

// held is a field of the effective settings and its option.
type held struct {
	setting
	path string
	// `to` is the index of the field of the effective settings. `from` is the index of the option.
	to, from []int
}

// HoldsOf maps the options of a struct to the fields of the struct `what`. It panics if an option
// does not exist: call it only for package variables.
func HoldsOf(what, options any) Holds {
	var h Holds
	// The package variable may come before the structs are declared.
	tables := make(map[reflect.Type]*table)
	for _, f := range reflect.VisibleFields(structOf(what)) {
		path, ok := f.Tag.Lookup("option")
		if !ok {
			continue
		}
		own := held{path: path, to: f.Index}
		t := structOf(options)
		for name := range strings.SplitSeq(path, "/") {
			if tables[t] == nil {
				tables[t] = tableOf(t)
			}
			if own.setting, ok = tables[t].find(name); !ok {
				panic(fmt.Sprintf("%T.%s: %v has no option %s", what, f.Name, t, path))
			}
			own.from = append(own.from, own.index...)
			if own.Kind == kindGroup {
				t = own.typ.Elem()
			}
		}
		h.fields = append(h.fields, own)
	}
	return h
}

// Set copies each option that is set in the struct *options to its field in the struct *what.
func (h Holds) Set(what, options any) {
	to, from := reflect.ValueOf(what).Elem(), reflect.ValueOf(options).Elem()
	for i := range h.fields {
		f := &h.fields[i]
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
	document := make(map[string]any, len(h.fields))
	v := reflect.ValueOf(what)
	for i := range h.fields {
		f := &h.fields[i]
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

package option

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Write returns the options that are set in a struct as a document from which Read makes an equal
// struct. The parameter `of` is the struct or a pointer to it.
func Write(of any) map[string]any {
	v := reflect.Indirect(reflect.ValueOf(of))
	document := make(map[string]any)
	for _, s := range tableOf(v.Type()).own {
		if f := v.FieldByIndex(s.index); !f.IsNil() {
			document[s.name] = written(&s, f)
		}
	}
	return document
}

func written(s *setting, v reflect.Value) any {
	if w, ok := v.Interface().(Writer); ok {
		return w.WriteOption()
	}
	switch s.Kind {
	case kindAny:
		return v.Interface().(*Value).Plain()
	case kindGroup:
		return Write(v.Interface())
	case kindGroups:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = Write(v.Index(i).Interface())
		}
		return items
	case kindGroupsByName, kindTextsByName:
		fields := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			if fields[it.Key().String()] = it.Value().Interface(); s.Kind == kindGroupsByName {
				fields[it.Key().String()] = Write(it.Value().Interface())
			}
		}
		return fields
	}
	if v.Kind() == reflect.Slice {
		items := make([]any, v.Len())
		for i := range items {
			items[i] = v.Index(i).String()
		}
		return items
	}
	if d, ok := v.Elem().Interface().(time.Duration); ok {
		return FormatDuration(d)
	}
	switch value := v.Elem(); value.Kind() {
	case reflect.Int64:
		return float64(value.Int())
	case reflect.String:
		return value.String()
	default:
		return value.Interface()
	}
}

// FormatDuration formats a duration without trailing units that are zero.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Put sets one value in a document of the options of schema, which is a struct or a pointer to one.
// The parameter path has names or aliases, separated by slashes or dots. It may lead into an object
// that a Reader reads. A nil value removes the option, and the groups that become empty. The document
// is changed in place. Put does not check the value; Read does.
func Put(document map[string]any, schema any, path string, value any) error {
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '.' })
	if len(names) == 0 {
		return fmt.Errorf("set %q: no option is named", path)
	}
	return put(document, structOf(schema), names, "", value)
}

func put(document map[string]any, t reflect.Type, rest []string, path string, value any) error {
	// Within a Reader, names always have _.
	name, s := Canonical(rest[0]), setting{}
	var below reflect.Type
	if t != nil {
		var problem string
		if s, problem = tableOf(t).known(rest[0]); problem != "" {
			return NewError([]Fault{{Path: join(path, rest[0]), Problem: problem}})
		}
		if name = s.name; s.Kind == kindGroup {
			below = s.typ.Elem()
		}
	}
	path = join(path, name)
	switch {
	case len(rest) == 1 && value == nil:
		delete(document, name)
		return nil
	case len(rest) == 1:
		document[name] = value
		return nil
	}
	inner, ok := document[name].(map[string]any)
	if !ok {
		if document[name] != nil || t != nil && below == nil && !s.typ.Implements(readerType) {
			return NewError([]Fault{{Path: path, Problem: "is not an object, so " + strings.Join(rest[1:], "/") + " cannot be set in it"}})
		}
		inner = make(map[string]any)
	}
	if err := put(inner, below, rest[1:], path, value); err != nil {
		return err
	}
	if len(inner) == 0 {
		delete(document, name)
	} else {
		document[name] = inner
	}
	return nil
}

func join(path, name string) string {
	r := Reading{Separator: "/"}
	return r.join(path, name)
}

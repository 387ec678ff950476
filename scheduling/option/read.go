package option

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Read sets what dst, a pointer to a struct, describes from a document. Settings
// that are not in the document stay as they are, and a null takes one away. The
// error is an *Error; dst is then not to be used.
func Read(dst any, document map[string]any) error {
	var r reader
	r.object(reflect.ValueOf(dst).Elem(), document, "")
	return NewError(r.faults)
}

type reader struct{ faults []Fault }

func (r *reader) fault(path, format string, args ...any) {
	r.faults = append(r.faults, Fault{Path: path, Problem: fmt.Sprintf(format, args...)})
}

func (r *reader) object(dst reflect.Value, document map[string]any, path string) {
	if len(document) == 0 {
		return
	}
	given := make(map[string]string, len(document))
	for _, name := range slices.Sorted(maps.Keys(document)) {
		s, problem := known(dst.Type(), name)
		if problem != "" {
			r.fault(join(path, name), "%s", problem)
			continue
		}
		if other, twice := given[s.name]; twice {
			r.fault(join(path, name), "is the same option as %s, which is given too", other)
			continue
		}
		given[s.name] = name
		r.value(dst.FieldByIndex(s.index), s, document[name], join(path, s.name))
	}
}

// known returns the setting of a struct that has a name, or what to do instead.
func known(t reflect.Type, name string) (s setting, problem string) {
	s, ok := find(settingsOf(t), name)
	if ok {
		return s, s.elsewhere
	}
	all := names(ownSettings(t))
	if closest := Closest(canonical(name), all); closest != "" {
		return s, fmt.Sprintf("unknown option; did you mean %s?", closest)
	}
	return s, "unknown option: use one of " + strings.Join(all, ", ")
}

func names(settings []setting) []string {
	out := make([]string, len(settings))
	for i, s := range settings {
		out[i] = s.name
	}
	return out
}

func (r *reader) value(dst reflect.Value, s setting, value any, path string) {
	if value == nil {
		dst.SetZero()
		return
	}
	switch {
	case s.typ.Kind() == reflect.Slice:
		r.list(dst, s, value, path)
	case s.typ.Implements(readerType):
		read := reflect.New(s.typ.Elem())
		if err := read.Interface().(Reader).ReadOption(value); err != nil {
			r.fault(path, "%v", err)
			return
		}
		dst.Set(read)
	case s.group():
		document, ok := value.(map[string]any)
		if !ok {
			r.fault(path, "is %s, not an object of options", describe(value))
			return
		}
		group := reflect.New(s.typ.Elem())
		if !dst.IsNil() {
			group.Elem().Set(dst.Elem())
		}
		r.object(group.Elem(), document, path)
		dst.Set(group)
	default:
		r.scalar(dst, s, value, path)
	}
}

func (r *reader) list(dst reflect.Value, s setting, value any, path string) {
	items, ok := value.([]any)
	if !ok {
		r.fault(path, "is %s, not a list", describe(value))
		return
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		text, ok := r.text(s, item, fmt.Sprintf("%s[%d]", path, i))
		if !ok {
			return
		}
		out = append(out, text)
	}
	dst.Set(reflect.ValueOf(out))
}

func (r *reader) scalar(dst reflect.Value, s setting, value any, path string) {
	read := reflect.New(s.typ.Elem())
	ok := false
	switch s.kind() {
	case "bool":
		var b bool
		if b, ok = value.(bool); !ok {
			r.fault(path, "is %s, not true or false", describe(value))
		}
		read.Elem().SetBool(b)
	case "integer":
		var n float64
		if n, ok = r.number(value, path); ok && (n != math.Trunc(n) || math.Abs(n) > 1<<53) {
			r.fault(path, "%v is not a whole number", n)
			return
		}
		read.Elem().SetInt(int64(n))
	case "number":
		var n float64
		n, ok = r.number(value, path)
		read.Elem().SetFloat(n)
	case "duration":
		var d time.Duration
		d, ok = r.duration(value, path)
		read.Elem().SetInt(int64(d))
	case "text":
		var text string
		text, ok = r.text(s, value, path)
		read.Elem().SetString(text)
	}
	if ok {
		dst.Set(read)
	}
}

func (r *reader) number(value any, path string) (float64, bool) {
	n, ok := value.(float64)
	switch {
	case !ok:
		r.fault(path, "is %s, not a number", describe(value))
	case math.IsNaN(n) || math.IsInf(n, 0):
		r.fault(path, "%v is not a number that can be used", n)
		return 0, false
	}
	return n, ok
}

func (r *reader) duration(value any, path string) (time.Duration, bool) {
	text, ok := value.(string)
	if !ok {
		r.fault(path, "is %s, not a time: write it with a unit, such as 30s or 10m", describe(value))
		return 0, false
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	switch {
	case err != nil:
		r.fault(path, "%q is not a time: write it with a unit, such as 30s or 10m", text)
	case d < 0:
		r.fault(path, "%s is negative", text)
	}
	return d, err == nil && d >= 0
}

func (r *reader) text(s setting, value any, path string) (string, bool) {
	text, ok := value.(string)
	if !ok {
		r.fault(path, "is %s, not text", describe(value))
		return "", false
	}
	if s.values == nil {
		return text, true
	}
	if known := canonical(text); slices.Contains(s.values, known) {
		return known, true
	}
	r.fault(path, "%q is not one of %s", text, strings.Join(s.values, ", "))
	return "", false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// describe says what a value of a document is.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("%v", v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", value)
}

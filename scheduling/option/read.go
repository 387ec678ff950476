package option

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Read sets the options of the struct that dst points to from a document. Options that
// are not in the document stay as they are. A null unsets an option. The error is an *Error
// whose paths have slashes. After an error, dst must not be used.
func Read(dst any, document map[string]any) error {
	if len(document) == 0 && !tableOf(structOf(dst)).required {
		return nil
	}
	r := Reading{Separator: "/"}
	r.Options(dst, Of(document), "")
	return NewError(r.Faults)
}

// Reading reads values of a document into structs, and collects the faults.
type Reading struct {
	// Faults are the faults found so far.
	Faults []Fault
	// Separator stands between the names of a path.
	Separator string
	// sources holds, by pointer to a struct, the object that it was read from.
	sources map[any]source
}

// source says where a struct was read from: the path, the position of its name, and the object.
type source struct {
	path  string
	name  Position
	value *Value
}

// Add adds a fault.
func (r *Reading) Add(path string, at Position, format string, args ...any) {
	r.Faults = append(r.Faults, Fault{Path: path, Position: at, Problem: fmt.Sprintf(format, args...)})
}

// Fault adds a fault of an option. The parameter `of` points to the struct. The parameter field points
// to the field of the option. If it is nil, the fault is one of the whole struct. The position is that
// of the option, or of the object if the option is missing.
func (r *Reading) Fault(of, field any, format string, args ...any) {
	src := r.sources[of]
	path, at := src.path, Position{}
	if src.value != nil {
		at = src.value.At
	}
	if field != nil {
		path = r.join(path, settingAt(of, field).name)
		if given := r.Given(of, field); given != nil {
			at = given.At
		}
	}
	r.Add(path, at, format, args...)
}

// FaultOfName adds a fault of a struct that was read from an object of groups by name. The
// position is that of the name.
func (r *Reading) FaultOfName(of any, format string, args ...any) {
	r.Add(r.sources[of].path, r.sources[of].name, format, args...)
}

// FaultOfItem adds a fault of item i of an option that is a list.
func (r *Reading) FaultOfItem(of, field any, i int, format string, args ...any) {
	s, v := settingAt(of, field), r.Given(of, field)
	at := v.At
	if v.Kind == List {
		at = v.Items[i].At
	}
	r.Add(fmt.Sprintf("%s[%d]", r.join(r.sources[of].path, s.name), i), at, format, args...)
}

// Given returns the value that an option of a struct was read from, or nil if there is none.
func (r *Reading) Given(of, field any) *Value {
	s, src := settingAt(of, field), r.sources[of]
	if src.value == nil {
		return nil
	}
	return src.value.Get(append([]string{s.name}, s.Aliases...)...)
}

// PathOf returns the path of a struct that was read.
func (r *Reading) PathOf(of any) string { return r.sources[of].path }

// Bad reports whether an option is in the document but could not be read.
func (r *Reading) Bad(of, field any) bool {
	return r.Given(of, field) != nil && reflect.ValueOf(field).Elem().IsNil()
}

// Adopt adds the faults in err, which another check of a struct returned. Their paths are
// relative to the struct, like those of Fields.
func (r *Reading) Adopt(of any, err error) {
	var found *Error
	if !errors.As(err, &found) {
		if err != nil {
			r.Fault(of, nil, "%v", err)
		}
		return
	}
	for _, f := range found.Faults {
		src, t := r.sources[of], structOf(of)
		path, v := src.path, src.value
		for _, name := range strings.Split(f.Path, "/") {
			path = r.join(path, name)
			if s, known := tableOf(t).find(name); known && v != nil {
				v = v.Get(append([]string{s.name}, s.Aliases...)...)
				if v != nil {
					f.Position = v.At
				}
				if s.Kind == kindGroup {
					t = s.typ.Elem()
				}
			}
		}
		if f.Position == (Position{}) && src.value != nil {
			f.Position = src.value.At
		}
		f.Path = path
		r.Faults = append(r.Faults, f)
	}
}

// settingAt returns the option of a struct that field points to.
func settingAt(of, field any) setting {
	v, at := reflect.ValueOf(of).Elem(), reflect.ValueOf(field)
	for _, s := range tableOf(v.Type()).own {
		if v.FieldByIndex(s.index).Addr().Pointer() == at.Pointer() {
			return s
		}
	}
	panic(fmt.Sprintf("%T has no option at %T", of, field))
}

// Options reads the object v, found at path, into the struct that dst points to.
func (r *Reading) Options(dst any, v *Value, path string) {
	if v.Kind != Object {
		r.Add(path, v.At, "is %s, not an object of options", v)
		return
	}
	r.object(reflect.ValueOf(dst).Elem(), v, path, v.At)
}

func (r *Reading) object(dst reflect.Value, v *Value, path string, name Position) {
	r.note(dst, source{path, name, v})
	tb := tableOf(dst.Type())
	given := make(map[string]string, len(v.Fields))
	for _, f := range v.Fields {
		s, problem := tb.known(f.Name)
		if problem != "" {
			if s.elsewhere == "" {
				r.Add(r.join(path, f.Name), f.At, "%s", problem)
			} else if f.Value.Kind != Null {
				r.Add(r.join(path, f.Name), f.Value.At, "%s", problem)
			}
			continue
		}
		other, twice := given[s.name]
		if f.Value.Kind == Null && !s.empty {
			if !twice {
				dst.FieldByIndex(s.index).SetZero()
			}
			continue
		}
		if twice {
			r.Add(r.join(path, f.Name), f.At, "is the same option as %s, which is also set", other)
			continue
		}
		given[s.name] = f.Name
		r.value(dst.FieldByIndex(s.index), &s, f.Value, r.join(path, s.name))
	}
	for _, s := range tb.settings {
		if s.Required != "" && v.Get(append([]string{s.name}, s.Aliases...)...) == nil {
			r.Add(r.join(path, s.name), v.At, "it is missing: %s", s.Required)
		}
	}
}

// note records the source of a struct and of the structs embedded in it.
func (r *Reading) note(dst reflect.Value, src source) {
	if r.sources == nil {
		r.sources = make(map[any]source)
	}
	r.sources[dst.Addr().Interface()] = src
	for i := range dst.NumField() {
		if dst.Type().Field(i).Anonymous {
			r.note(dst.Field(i), src)
		}
	}
}

func (r *Reading) value(dst reflect.Value, s *setting, v *Value, path string) {
	switch {
	case s.Kind == kindAny:
		if v.Kind != Object {
			r.Add(path, v.At, "is %s, not an object", v)
			return
		}
		dst.Set(reflect.ValueOf(v))
	case s.typ.Implements(readerType):
		if problem := s.beyond(v); problem != "" {
			r.Add(path, v.At, "%s", problem)
			return
		}
		if read := reflect.New(s.typ.Elem()); r.itself(read, v, path) {
			dst.Set(read)
		}
	case s.Kind == kindGroup:
		group := reflect.New(s.typ.Elem())
		if !dst.IsNil() {
			group.Elem().Set(dst.Elem())
		}
		if r.group(group, s, v, path, v.At) {
			dst.Set(group)
		}
	case s.typ.Kind() == reflect.Slice:
		r.list(dst, s, v, path)
	case s.typ.Kind() == reflect.Map:
		r.byName(dst, s, v, path)
	default:
		read := reflect.New(s.typ.Elem())
		if err := scalar(read.Elem(), s, v); err != nil {
			r.Add(path, v.At, "%v", err)
			return
		}
		dst.Set(read)
	}
}

// itself calls the Reader of an option, and adds its faults below path.
func (r *Reading) itself(read reflect.Value, v *Value, path string) bool {
	err := read.Interface().(Reader).ReadOption(v)
	if inside, ok := errors.AsType[*Error](err); ok {
		for _, f := range inside.Faults {
			if strings.HasPrefix(f.Path, "[") {
				f.Path = path + f.Path
			} else {
				f.Path = r.join(path, f.Path)
			}
			r.Faults = append(r.Faults, f)
		}
	} else if err != nil {
		r.Add(path, v.At, "%v", err)
	}
	return err == nil
}

// group reads one group, which may also be a text or null if its setting allows it.
func (r *Reading) group(group reflect.Value, s *setting, v *Value, path string, name Position) bool {
	switch {
	case s.short != "" && v.Kind == Text:
		v = &Value{Kind: Object, At: v.At, Fields: []Entry{{Name: s.short, At: v.At, Value: v}}}
	case s.empty && v.Kind == Null:
		v = &Value{Kind: Object, At: v.At}
	case v.Kind != Object:
		r.Add(path, v.At, "is %s, not an object of options", v)
		return false
	}
	r.object(group.Elem(), v, path, name)
	return true
}

// list reads a list of texts or of groups. With `short:"*"` a text alone is a list of one.
func (r *Reading) list(dst reflect.Value, s *setting, v *Value, path string) {
	items := v.Items
	switch {
	case v.Kind == Text && s.short == inEach:
		items = []*Value{v}
	case v.Kind != List:
		r.Add(path, v.At, "is %s, not a list", v)
		return
	}
	if problem := s.count(len(items)); problem != "" {
		r.Add(path, v.At, "%s", problem)
		return
	}
	out := reflect.MakeSlice(s.typ, 0, len(items))
	for i, item := range items {
		// A text that cannot be read becomes empty, so that the others keep their indexes.
		if read, ok := r.element(s, item, fmt.Sprintf("%s[%d]", path, i), item.At); ok || s.Kind != kindGroups {
			out = reflect.Append(out, read)
		}
	}
	dst.Set(out)
}

// element reads an item of a list, or a value of an object by name: a group, a text, or a Reader.
// The parameter name is the position of its name, or of the item in a list.
func (r *Reading) element(s *setting, v *Value, path string, name Position) (reflect.Value, bool) {
	t := s.typ.Elem()
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	read := reflect.New(t)
	ok := false
	switch {
	case s.Kind == kindGroups || s.Kind == kindGroupsByName:
		ok = r.group(read, s, v, path, name)
	case read.Type().Implements(readerType):
		ok = r.itself(read, v, path)
	default:
		text, err := s.text(v)
		if ok = err == nil; !ok {
			r.Add(path, v.At, "%v", err)
		}
		read.Elem().SetString(text)
	}
	if pointer {
		return read, ok
	}
	return read.Elem(), ok
}

// byName reads an object of texts or groups whose names users choose.
func (r *Reading) byName(dst reflect.Value, s *setting, v *Value, path string) {
	if v.Kind == Null {
		return
	}
	if v.Kind != Object {
		r.Add(path, v.At, "is %s, not an object", v)
		return
	}
	if problem := s.count(len(v.Fields)); problem != "" {
		r.Add(path, v.At, "%s", problem)
		return
	}
	out := reflect.MakeMap(s.typ)
	for _, f := range v.Fields {
		if read, ok := r.element(s, f.Value, r.join(path, f.Name), f.At); ok {
			out.SetMapIndex(reflect.ValueOf(f.Name), read)
		}
	}
	dst.Set(out)
}

// join appends the name of an option to the path of its object.
func (r *Reading) join(path, name string) string {
	if path == "" {
		return Clip(name)
	}
	return path + r.Separator + Clip(name)
}

// SortedNames returns the names of options by name, sorted.
func SortedNames[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// finite reports whether a number is neither NaN nor infinite.
func finite(n float64) bool { return !math.IsNaN(n) && !math.IsInf(n, 0) }

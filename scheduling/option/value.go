package option

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is the type of a value of a document.
type Kind int

// The types of values.
const (
	Null Kind = iota
	Boolean
	Number
	Text
	List
	Object
)

// Position is where in a text something stands, from 1; the zero value is nowhere.
type Position struct{ Line, Column int }

// Value is one value of a document, with its place in the text.
type Value struct {
	Kind   Kind
	At     Position
	Truth  bool
	Number float64
	// Whole is the exact number, where IsWhole says that it is an integer of 64 bits.
	Whole   int64
	IsWhole bool
	Text    string
	Items   []*Value
	// Fields are those of an object, in the order of the text.
	Fields []Entry
	// Assigned: an assignment made it, where the text had nothing.
	Assigned bool
}

// Entry is one field of an object.
type Entry struct {
	Name  string
	At    Position
	Value *Value
}

// Float returns a number. Integers are kept exactly.
func Float(f float64, at Position) *Value {
	v := &Value{Kind: Number, At: at, Number: f}
	// Beyond 2^53 floats skip integers, so which one was meant is not known.
	if whole := int64(f); f > -(1<<53) && f < 1<<53 && float64(whole) == f {
		v.Whole, v.IsWhole = whole, true
	}
	return v
}

// Integer returns an exact number.
func Integer(i int64, at Position) *Value {
	return &Value{Kind: Number, At: at, Number: float64(i), Whole: i, IsWhole: true}
}

// TextOf returns a text without a place.
func TextOf(s string) *Value { return &Value{Kind: Text, Text: s} }

// Of returns what encoding/json makes of a value, without places: nil, bool, float64,
// string, []any or map[string]any. Fields stand in the order of their names.
func Of(plain any) *Value {
	switch p := plain.(type) {
	case bool:
		return &Value{Kind: Boolean, Truth: p}
	case float64:
		return Float(p, Position{})
	case string:
		return TextOf(p)
	case []any:
		v := &Value{Kind: List}
		for _, item := range p {
			v.Items = append(v.Items, Of(item))
		}
		return v
	case map[string]any:
		v := &Value{Kind: Object}
		for _, name := range slices.Sorted(maps.Keys(p)) {
			v.Fields = append(v.Fields, Entry{Name: name, Value: Of(p[name])})
		}
		return v
	}
	return &Value{}
}

// Plain returns the value as encoding/json would read it.
func (v *Value) Plain() any { return v.plain(func(n *Value) any { return n.Number }) }

// Exact is Plain with whole numbers as int64.
func (v *Value) Exact() any {
	return v.plain(func(n *Value) any {
		if n.IsWhole {
			return n.Whole
		}
		return n.Number
	})
}

func (v *Value) plain(number func(*Value) any) any {
	switch v.Kind {
	case Boolean:
		return v.Truth
	case Number:
		return number(v)
	case Text:
		return v.Text
	case List:
		items := make([]any, len(v.Items))
		for i, item := range v.Items {
			items[i] = item.plain(number)
		}
		return items
	case Object:
		fields := make(map[string]any, len(v.Fields))
		for _, f := range v.Fields {
			fields[f.Name] = f.Value.plain(number)
		}
		return fields
	}
	return nil
}

// Get returns the option of an object that has one of these names, with '-' for '_';
// nil: there is none, or it is null.
func (v *Value) Get(names ...string) *Value {
	for _, f := range v.Fields {
		if f.Value.Kind != Null && slices.Contains(names, Canonical(f.Name)) {
			return f.Value
		}
	}
	return nil
}

// Merge returns an object with a patch: objects are patched in turn, all else replaces.
// Neither is changed. A name that is not there as it is written is that of an option, with '-'
// for '_'.
func (v *Value) Merge(patch *Value) *Value {
	if v == nil || v.Kind != Object || patch.Kind != Object {
		return patch
	}
	out := *v
	out.Fields = slices.Clone(v.Fields)
	for _, f := range patch.Fields {
		i := slices.IndexFunc(out.Fields, func(own Entry) bool { return own.Name == f.Name })
		if i < 0 {
			i = slices.IndexFunc(out.Fields, func(own Entry) bool { return Canonical(own.Name) == Canonical(f.Name) })
		}
		if i < 0 {
			out.Fields = append(out.Fields, f)
			continue
		}
		out.Fields[i] = Entry{Name: out.Fields[i].Name, At: f.At, Value: out.Fields[i].Value.Merge(f.Value)}
	}
	return &out
}

// String says what the value is, for a fault.
func (v *Value) String() string {
	switch v.Kind {
	case Boolean:
		return fmt.Sprint(v.Truth)
	case Number:
		return "the number " + v.written()
	case Text:
		return fmt.Sprintf("the text %q", Clip(v.Text))
	case List:
		return "a list"
	case Object:
		return "an object"
	}
	return "nothing"
}

// written returns a number or a text as it was written, nearly.
func (v *Value) written() string {
	switch {
	case v.Kind == Text:
		return Clip(v.Text)
	case v.IsWhole:
		return fmt.Sprint(v.Whole)
	}
	return fmt.Sprint(v.Number)
}

// Canonical returns the name of an option: - and _ are the same.
func Canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Clip shortens text for a fault.
func Clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

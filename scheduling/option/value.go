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

// Position is a place in a text. Line and Column count from 1. The zero value means no place.
type Position struct{ Line, Column int }

// Value is one value of a document, with its place in the text.
type Value struct {
	Kind   Kind
	At     Position
	Truth  bool
	Number float64
	// IsWhole means that the number is a 64-bit integer. Whole is then its exact value.
	Whole   int64
	IsWhole bool
	Text    string
	Items   []*Value
	// Fields are the fields of an object, in the order of the text.
	Fields []Entry
	// Assigned says that the value comes from an assignment, not from the text.
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
	// From 2^53 on, floats cannot represent every integer, so f may be rounded.
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

// Of converts a value of encoding/json: nil, bool, float64, string, []any or
// map[string]any. The result has no places; fields are sorted by name.
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

// Plain returns the value with the types of encoding/json.
func (v *Value) Plain() any { return v.plain(func(n *Value) any { return n.Number }) }

// Exact is like Plain, but whole numbers are int64.
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

// Get returns the first field of an object that has one of these names and is not null, or nil if
// there is none. In names, '-' is equivalent to '_'.
func (v *Value) Get(names ...string) *Value {
	for _, f := range v.Fields {
		if f.Value.Kind != Null && slices.Contains(names, Canonical(f.Name)) {
			return f.Value
		}
	}
	return nil
}

// Merge returns an object with a patch applied: objects are merged, other values are
// replaced. Neither v nor patch changes. A name of the patch that matches no name exactly also
// matches a name that differs only in '-' and '_'.
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

// String describes the value, for a fault.
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

// written returns a number or a text, nearly as it was written.
func (v *Value) written() string {
	switch {
	case v.Kind == Text:
		return Clip(v.Text)
	case v.IsWhole:
		return fmt.Sprint(v.Whole)
	}
	return fmt.Sprint(v.Number)
}

// Canonical returns the name of an option with each - replaced by _.
func Canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Clip shortens text for a fault.
func Clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

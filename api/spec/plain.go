package spec

import "strings"

// Plain returns what the document says as encoding/json would read it: nil, bool,
// float64, string, []any and map[string]any. It is for documents that are no specs
// of operations. The error is an *Error that tells keys that are there twice.
func (d *Document) Plain() (map[string]any, error) {
	if err := refuse(d.faults); err != nil {
		return nil, err
	}
	object, _ := floats(d.root.plain()).(map[string]any)
	return object, nil
}

// Literal reads a value as the right side of an assignment is read: YAML, and
// nothing is nil. It returns what encoding/json would.
func Literal(text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	v, err := readLiteral(text)
	if err != nil {
		return nil, err
	}
	return floats(v.plain()), nil
}

// Place returns the line and the column, from 1, of what the names lead to, or of
// the last on the way that is there. Names are taken with '-' for '_'. It is 0 where
// the text says nothing.
func (d *Document) Place(names ...string) (line, column int) {
	at, v := d.root.at, d.root
	for _, name := range names {
		found := false
		for _, f := range v.fields {
			if canonical(f.name) == canonical(name) {
				at, v, found = f.at, f.value, true
				break
			}
		}
		if !found {
			break
		}
	}
	return at.line, at.column
}

// floats returns a plain value with all numbers as float64.
func floats(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = floats(v[name])
		}
	}
	return v
}

package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/scheduling/option"
)

// Set overrides a value. assignment is path=value, the path with dots between names and the
// value in YAML, such as tasks.sort.job_count=5 or tasks.sort.command=[sort, input]. Missing
// objects on the path are created. An existing item of a list is named by its index. In the
// names of options, the characters - and _ are equivalent; `of` lists the structs that have
// these options.
func (d *Document) Set(assignment string, of ...any) error {
	path, literal, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("set %q: missing =: write path=value, such as tasks.sort.job_count=5", assignment)
	}
	v, err := ReadLiteral(literal)
	if err != nil {
		return fmt.Errorf("set %s: value %q: %w", option.Clip(path), option.Clip(literal), err)
	}
	return d.put(path, v, of)
}

// ReadLiteral reads the value of an assignment, without lines and columns. An empty literal is the
// empty text. A literal that begins with * is text, the alias of an operation, and not an
// alias of YAML, since a single value has no anchors.
func ReadLiteral(literal string) (*option.Value, error) {
	if strings.TrimSpace(literal) == "" {
		return option.TextOf(literal), nil
	}
	if err := checkText([]byte(literal)); err != nil {
		return nil, err
	}
	if alias := strings.TrimSpace(literal); strings.HasPrefix(alias, "*") {
		return option.TextOf(alias), nil
	}
	doc, err := readYAML([]byte(literal))
	if err != nil {
		return nil, err
	}
	forgetPlaces(doc.Root)
	return doc.Root, option.NewError(doc.faults)
}

// Literal is like ReadLiteral, but returns the types of encoding/json; nil for an empty text.
func Literal(text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	v, err := ReadLiteral(text)
	if err != nil {
		return nil, err
	}
	return v.Plain(), nil
}

func (d *Document) put(path string, v *option.Value, of []any) error {
	names := strings.Split(path, ".")
	if len(names) > maxDepth {
		return fmt.Errorf("set %q: values nest at most %d deep", option.Clip(path), maxDepth)
	}
	at := d.Root
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("set %q: a name on the path is empty", path)
		}
		isOption := slices.ContainsFunc(of, func(of any) bool { return option.Named(of, names[:i]) })
		if isOption {
			names[i] = option.Canonical(name)
		}
		slot, err := slotOf(at, names[:i], names[i], isOption)
		if err != nil {
			return fmt.Errorf("set %s: %w", path, err)
		}
		if i == len(names)-1 {
			v.Assigned = *slot == nil
			*slot = v
			return nil
		}
		if *slot == nil || (*slot).Kind == option.Null {
			*slot = &option.Value{Kind: option.Object, Assigned: *slot == nil}
		}
		at = *slot
	}
	return nil
}

// slotOf returns a pointer to the value of a name. It adds the field if an object lacks it.
func slotOf(v *option.Value, path []string, name string, isOption bool) (**option.Value, error) {
	switch v.Kind {
	case option.Object:
		for i := range v.Fields {
			known := v.Fields[i].Name
			if known == name || isOption && option.Canonical(known) == name {
				return &v.Fields[i].Value, nil
			}
		}
		v.Fields = append(v.Fields, option.Entry{Name: name})
		return &v.Fields[len(v.Fields)-1].Value, nil
	case option.List:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v.Items) {
			return nil, fmt.Errorf("%s is a list of %d items: %q is not an index of it", strings.Join(path, "."), len(v.Items), name)
		}
		return &v.Items[i], nil
	}
	return nil, fmt.Errorf("%s is %s and has no fields", strings.Join(path, "."), v)
}

// forgetPlaces clears the places of a value that is not part of the document's text.
func forgetPlaces(v *option.Value) {
	v.At = option.Position{}
	for i := range v.Fields {
		v.Fields[i].At = option.Position{}
		forgetPlaces(v.Fields[i].Value)
	}
	for _, item := range v.Items {
		forgetPlaces(item)
	}
}

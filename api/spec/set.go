package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Set returns the spec in data with each assignment applied, as JSON.
// Document.Set tells what an assignment is, and keeps the places of faults.
func Set(data []byte, assignments []string) ([]byte, error) {
	doc, err := Read(data)
	if err != nil {
		return nil, err
	}
	if err := refuse(doc.faults); err != nil {
		return nil, err
	}
	for _, assignment := range assignments {
		if err := doc.Set(assignment); err != nil {
			return nil, err
		}
	}
	set, err := json.MarshalIndent(doc.root.plain(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write spec: %w", err)
	}
	return set, nil
}

// Set overrides a value: assignment is path=value, the path with dots between
// names and the value in YAML, such as tasks.sort.job_count=5 or
// tasks.sort.command=[sort, input]. Objects on the way are made when they are not
// there. An item of a list that is there is named by its index.
func (d *Document) Set(assignment string) error {
	path, literal, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("set %q: there is no =: write path=value, such as tasks.sort.job_count=5", assignment)
	}
	v, err := readLiteral(literal)
	if err != nil {
		return fmt.Errorf("set %s: value %q: %w", clip(path), clip(literal), err)
	}
	return d.put(path, v)
}

// readLiteral reads the value of an assignment. A star begins the alias of an
// operation there: a value has no anchors that one of YAML could name.
func readLiteral(literal string) (*value, error) {
	if strings.TrimSpace(literal) == "" {
		return &value{kind: text, text: literal}, nil
	}
	if err := checkText([]byte(literal)); err != nil {
		return nil, err
	}
	if alias := strings.TrimSpace(literal); strings.HasPrefix(alias, "*") {
		return &value{kind: text, text: alias}, nil
	}
	doc, err := readYAML([]byte(literal))
	if err != nil {
		return nil, err
	}
	return doc.root, refuse(doc.faults)
}

// SetText overrides a value with text as it is, whatever YAML would make of it.
func (d *Document) SetText(path, s string) error { return d.put(path, &value{kind: text, text: s}) }

func (d *Document) put(path string, v *value) error {
	v.forgetPlaces()
	names := strings.Split(path, ".")
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("set %q: a name on the path is empty", path)
		}
		if len(names) > maxDepth {
			return fmt.Errorf("set %q: values nest at most %d deep", path, maxDepth)
		}
		if isOption(names[:i]) {
			names[i] = canonical(name)
		}
	}
	at := d.root
	for i, name := range names {
		slot, err := at.slot(names[:i], name)
		if err != nil {
			return fmt.Errorf("set %s: %w", path, err)
		}
		if i == len(names)-1 {
			v.set = *slot == nil
			*slot = v
			return nil
		}
		if *slot == nil || (*slot).kind == null {
			*slot = &value{kind: object, set: *slot == nil}
		}
		at = *slot
	}
	return nil
}

// slot returns where the value of a name is kept.
func (v *value) slot(path []string, name string) (**value, error) {
	switch v.kind {
	case object:
		for i := range v.fields {
			known := v.fields[i].name
			if known == name || isOption(path) && canonical(known) == name {
				return &v.fields[i].value, nil
			}
		}
		v.fields = append(v.fields, field{name: name})
		return &v.fields[len(v.fields)-1].value, nil
	case list:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v.items) {
			return nil, fmt.Errorf("%s is a list of %d: %q is no index of it", strings.Join(path, "."), len(v.items), name)
		}
		return &v.items[i], nil
	}
	return nil, fmt.Errorf("%s is %s and has nothing in it", strings.Join(path, "."), v.kind)
}

// isOption tells whether the names below a path are those of options: of the
// operation, of a task or of a pool tree, or of an option of these that is an object.
func isOption(path []string) bool {
	below := path
	switch {
	case len(path) == 0:
		return true
	case path[0] == fieldOptionsPerTree:
		return len(path) == 2
	case path[0] == fieldTasks && len(path) == 1:
		return false
	case path[0] == fieldTasks:
		below = path[2:]
	case path[0] == fieldMapper:
		below = path[1:]
	}
	return len(below) == 0 || slices.Contains(objectFields, below[0])
}

// objectFields are options that are objects, or lists of objects, of options.
var objectFields = []string{fieldProxyDigest, fieldGang, fieldTmpfsVolumes, fieldFilePaths, fieldOutputPaths}

// forgetPlaces takes away the places of a value that is not part of the text.
func (v *value) forgetPlaces() {
	v.at = position{}
	for _, item := range v.items {
		item.forgetPlaces()
	}
	for i := range v.fields {
		v.fields[i].at = position{}
		v.fields[i].value.forgetPlaces()
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

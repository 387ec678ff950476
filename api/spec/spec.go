package spec

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/document"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
)

// operationSpec names the kind of document in errors.
const operationSpec = "operation spec"

// Document is a spec as it was written: well-formed, not yet checked.
type Document struct{ document.Document }

// Read reads a spec in YAML or JSON. It fails, with an *option.Error, if data has more than
// document.MaxBytes or is not well-formed.
func Read(data []byte) (*Document, error) {
	doc, err := document.Read(operationSpec, data)
	if err != nil {
		return nil, err
	}
	return &Document{*doc}, nil
}

// FromStruct returns the spec that s holds. It fails, with an *option.Error, if s has more than
// document.MaxBytes as JSON, nests too deep, or holds a value that JSON cannot represent.
func FromStruct(s *structpb.Struct) (*Document, error) {
	doc, err := document.FromStruct(operationSpec, s)
	if err != nil {
		return nil, err
	}
	return &Document{*doc}, nil
}

// Set overrides a value, such as tasks.sort.job_count=5.
func (d *Document) Set(assignment string) error {
	return d.Document.Set(assignment, VanillaOperation{}, MapOperation{})
}

// Check returns the operation that the document describes, and its mutation_id. Defaults are
// filled in, except those that depend on a pool tree. The error is an *option.Error.
func (d *Document) Check() (op *statepb.OperationSpec, mutationID string, err error) {
	c := &checker{Reading: d.Reading()}
	var head *Operation
	if of := d.Root.Get("type"); of != nil && of.Text == lifecycle.Map {
		op, head = c.reads(d.Root)
	} else {
		op, head = c.runs(d.Root)
	}
	if err := d.Refuse(c.Faults); err != nil {
		return nil, "", err
	}
	return op, text(head.MutationID), nil
}

// Format returns an operation as the object that FromStruct and Check would read it from, with
// defaults filled in. It is ready for encoding/json: memory in bytes, cpu in cores, times as text.
func Format(op *statepb.OperationSpec) (map[string]any, error) {
	head, err := operationOf(op)
	if err != nil {
		return nil, err
	}
	if op.GetType() == lifecycle.Map {
		o := &MapOperation{Operation: *head}
		unpack(op.GetMap(), &o.Input)
		if op.GetMap().GetFormat() == FormatBytes {
			o.MaxRecordSize, o.MaxSkippedRecords = nil, nil
		}
		for _, of := range op.GetTasks() {
			o.Mapper = &Mapper{Job: taskOf(of).Job}
		}
		return option.Write(o), nil
	}
	o := &VanillaOperation{Operation: *head, Tasks: make(map[string]*Task, len(op.GetTasks()))}
	for _, of := range op.GetTasks() {
		o.Tasks[of.GetName()] = taskOf(of)
	}
	return option.Write(o), nil
}

// Annotations returns the annotations of a spec; nil if there are none.
func Annotations(op *statepb.OperationSpec) (map[string]any, error) {
	if op.GetAnnotationsJson() == "" {
		return nil, nil
	}
	var annotations map[string]any
	if err := json.Unmarshal([]byte(op.GetAnnotationsJson()), &annotations); err != nil {
		return nil, fmt.Errorf("read annotations: %w", err)
	}
	return annotations, nil
}

// The bounds of labels, in bytes.
const (
	MaxLabelNameBytes  = 64
	MaxLabelValueBytes = 256
)

// Labels returns the annotations of a spec that are labels, as texts: those whose value is a text of at
// most MaxLabelValueBytes, a number, true or false, and whose name has at most MaxLabelNameBytes
// letters, digits, '.', '_', '-' and '/'.
func Labels(op *statepb.OperationSpec) map[string]string {
	var all map[string]json.RawMessage
	if op.GetAnnotationsJson() == "" || json.Unmarshal([]byte(op.GetAnnotationsJson()), &all) != nil {
		return nil
	}
	labels := make(map[string]string, len(all))
	for name, value := range all {
		if text, ok := labelText(value); ok && isLabelName(name) {
			labels[name] = text
		}
	}
	return labels
}

func isLabelName(name string) bool {
	const others = "._-/"
	return name != "" && len(name) <= MaxLabelNameBytes && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(others, r)
	})
}

// labelText returns the value of a label as text; false if the value is not one of a label.
func labelText(value json.RawMessage) (string, bool) {
	text := string(value)
	switch text[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		if json.Unmarshal(value, &text) != nil {
			return "", false
		}
	}
	return text, len(text) <= MaxLabelValueBytes
}

// LabelSelector selects operations by one label. Its zero value selects none.
type LabelSelector struct {
	name, value string
	// not selects those without the value; any those with whatever value.
	not, any bool
}

// ParseLabelSelector reads a selector: NAME=VALUE; NAME!=VALUE, which also selects operations that have no such
// label; or NAME, which selects those that have it.
func ParseLabelSelector(text string) (LabelSelector, error) {
	name, value, equal := strings.Cut(text, "=")
	s := LabelSelector{name: name, value: value, any: !equal}
	if equal {
		s.name, s.not = strings.CutSuffix(name, "!")
	}
	switch {
	case !isLabelName(s.name):
		return LabelSelector{}, fmt.Errorf("label %q: write NAME=VALUE, NAME!=VALUE or NAME; "+
			"a name has 1 to %d letters, digits, '.', '_', '-' and '/'", option.Clip(text), MaxLabelNameBytes)
	case len(value) > MaxLabelValueBytes:
		return LabelSelector{}, fmt.Errorf("label %q: its value has %d bytes, and those of labels have at most %d", s.name, len(value), MaxLabelValueBytes)
	}
	return s, nil
}

// Selects reports whether the selector selects an operation.
func (s LabelSelector) Selects(op *statepb.OperationSpec) bool {
	// Annotations are kept without spaces, and names of labels are the same in JSON. Most operations need not
	// be parsed.
	if s.name == "" || !strings.Contains(op.GetAnnotationsJson(), `"`+s.name+`":`) {
		return s.not
	}
	value, has := Labels(op)[s.name]
	return s.any && has || !s.any && (has && value == s.value) != s.not
}

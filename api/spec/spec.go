package spec

import (
	"encoding/json"
	"fmt"

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

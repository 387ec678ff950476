package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
)

// Format returns a spec as the object that Parse would read it from, with what
// was not written filled in, ready for encoding/json: memory in bytes, cpu in cores, times as text.
func Format(op *statepb.OperationSpec) (map[string]any, error) {
	out := map[string]any{
		"type":                 op.GetType(),
		"max_failed_job_count": op.GetMaxFailedJobCount(),
	}
	for name, text := range map[string]string{"pool": op.GetPool(), "title": op.GetTitle(), "alias": op.GetAlias()} {
		if text != "" {
			out[name] = text
		}
	}
	formatTrees(out, op)
	if d := op.GetTimeLimit(); d != nil {
		out["time_limit"] = option.FormatDuration(d.AsDuration())
	}
	if op.GetAnnotationsJson() != "" {
		annotations, err := Annotations(op)
		if err != nil {
			return nil, err
		}
		out["annotations"] = annotations
	}
	if op.GetNoMemoryProfile() {
		out[fieldNoMemoryProfile] = true
	}
	if op.GetType() == lifecycle.Map {
		formatMap(out, op)
		return out, nil
	}
	tasks := make(map[string]any, len(op.GetTasks()))
	for _, task := range op.GetTasks() {
		tasks[task.GetName()] = formatTask(task)
	}
	out[fieldTasks] = tasks
	return out, nil
}

func formatTask(task *statepb.TaskSpec) map[string]any {
	out := map[string]any{
		fieldJobCount:          task.GetJobCount(),
		"cpu_limit":            float64(task.GetCpuLimitHundredths()) / 100,
		"memory_limit":         task.GetMemoryLimit(),
		"gpu_limit":            task.GetGpuLimit(),
		"network_limit":        task.GetNetworkLimit(),
		"max_failed_job_count": task.GetMaxFailedJobCount(),
		fieldRestartCompleted:  task.GetRestartCompletedJobs(),
		"port_count":           task.GetPortCount(),
	}
	formatSweep(out, task)
	formatInterruption(out, task)
	formatReadiness(out, task.GetReadiness())
	if task.GetRestartCompletedJobs() && task.GetInterruptionSignal() != "" {
		out[fieldMaxSurge] = task.GetMaxSurge()
	}
	if task.GetMinAvailable() > 0 {
		out[fieldMinAvailable] = task.GetMinAvailable()
	}
	if task.GetGang() == nil {
		out[fieldSpread] = task.GetSpread()
	}
	formatMemory(out, task.GetMemory())
	formatTmpfs(out, task.GetTmpfs())
	formatFiles(out, task)
	formatIsolation(out, task)
	if task.GetGang() != nil {
		out[fieldGang] = map[string]any{fieldGangSize: task.GetGang().GetSize()}
	}
	if task.GetShell() != "" {
		out["command"], out["shell"] = task.GetShell(), true
	} else {
		out["command"] = anyList(task.GetArgv())
	}
	if d := task.GetJobTimeLimit(); d != nil {
		out["job_time_limit"] = option.FormatDuration(d.AsDuration())
	}
	if len(task.GetEnvironment()) > 0 {
		environment := make(map[string]any, len(task.GetEnvironment()))
		for name, value := range task.GetEnvironment() {
			environment[name] = value
		}
		out["environment"] = environment
	}
	return out
}

// Annotations returns the annotations of a spec, nil if there are none.
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

// Struct returns the document as the API takes it. Faults keep their paths there,
// but not their places: check a document before it is sent. The error is an
// *Error when a key was there twice, since a struct could not tell it.
func (d *Document) Struct() (*structpb.Struct, error) {
	if err := refuse(slices.Clone(d.faults)); err != nil {
		return nil, err
	}
	s, err := structpb.NewStruct(d.root.plain().(map[string]any))
	if err != nil {
		return nil, fmt.Errorf("send spec: %w", err)
	}
	return s, nil
}

// FromStruct returns the document that s holds. The error is an *Error: it would
// have more than MaxBytes as JSON, nests too deep, or holds what JSON cannot.
func FromStruct(s *structpb.Struct) (*Document, error) {
	r := &structReader{}
	root, err := r.object(s, nil, 0)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(root.plain())
	switch {
	case err != nil:
		return nil, faultAt(nil, position{}, "%v", err)
	case len(data) > MaxBytes:
		return nil, tooLong(len(data))
	}
	return &Document{root: root}, nil
}

// structReader turns a struct into values.
type structReader struct{ count int }

func (r *structReader) object(s *structpb.Struct, path *trail, depth int) (*value, error) {
	v := &value{kind: object}
	for _, name := range sortedKeys(s.GetFields()) {
		read, err := r.read(s.GetFields()[name], path.field(name), depth+1)
		if err != nil {
			return nil, err
		}
		v.fields = append(v.fields, field{name: name, value: read})
	}
	return v, nil
}

func (r *structReader) read(s *structpb.Value, path *trail, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, faultAt(path, position{}, "values nest more than %d deep", maxDepth)
	}
	if r.count++; r.count > maxValues {
		return nil, faultAt(path, position{}, "there are more than %d values", maxValues)
	}
	switch k := s.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return &value{kind: boolean, truth: k.BoolValue}, nil
	case *structpb.Value_NumberValue:
		if math.IsNaN(k.NumberValue) || math.IsInf(k.NumberValue, 0) {
			return nil, faultAt(path, position{}, "%v is not a number that can be used", k.NumberValue)
		}
		return number64(k.NumberValue, position{}), nil
	case *structpb.Value_StringValue:
		return &value{kind: text, text: k.StringValue}, nil
	case *structpb.Value_StructValue:
		return r.object(k.StructValue, path, depth)
	case *structpb.Value_ListValue:
		v := &value{kind: list}
		for _, item := range k.ListValue.GetValues() {
			read, err := r.read(item, path.item(len(v.items)), depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, read)
		}
		return v, nil
	}
	return &value{kind: null}, nil
}

package spec

import (
	"errors"
	"path"
	"slices"
	"strings"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
)

// Options of operations of type map.
const (
	fieldMapper            = "mapper"
	fieldInputPaths        = "input_paths"
	fieldFormat            = "format"
	fieldDataSizePerJob    = "data_size_per_job"
	fieldOutputPath        = "output_path"
	fieldMaxRecordSize     = "max_record_size"
	fieldMaxSkippedRecords = "max_skipped_records"
)

// MapperTask is the name of the one task of an operation of type map.
const MapperTask = "mapper"

// What the input of an operation of type map is.
const (
	// FormatLines: records are lines of text.
	FormatLines = "lines"
	// FormatJSON: records are lines, and each is one value in JSON.
	FormatJSON = "json"
	// FormatBytes: there are no records, and jobs get parts of any size.
	FormatBytes = "bytes"
)

// The bounds of operations of type map, and what is taken when nothing is said.
const (
	MaxInputPaths = 1000

	DefaultDataSizePerJob = 256 << 20
	MaxDataSizePerJob     = 64 << 40

	DefaultMaxRecordSize = 16 << 20
	// MaxMaxRecordSize bounds what a job proxy holds of one record.
	MaxMaxRecordSize = 1 << 30

	MaxMaxSkippedRecords = 1_000_000
)

var mapFields = []string{
	fieldMapper, fieldInputPaths, fieldFormat, fieldDataSizePerJob, fieldJobCount, fieldOutputPath, fieldMaxRecordSize, fieldMaxSkippedRecords,
}

// refuseMapFields refuses what an operation of another type does not have.
func (o options) refuseMapFields() {
	for _, name := range mapFields {
		switch {
		case o.set[name] == nil:
		case name == fieldJobCount:
			o.fault(name, "it stands beside each task: tasks.NAME.%s; or is %s: %s meant?", name, fieldType, lifecycle.Map)
		default:
			o.fault(name, "only an operation of %s: %s has it: write that, or leave it out", fieldType, lifecycle.Map)
		}
	}
}

// mapper returns the one task of an operation of type map.
func (c *checker) mapper(o options, outer memory.Options) []*statepb.TaskSpec {
	if o.set[fieldTasks] != nil {
		o.fault(fieldTasks, "an operation of %s: %s has one task, the %s: write it under that name", fieldType, lifecycle.Map, fieldMapper)
	}
	v := o.get(fieldMapper, object)
	if v == nil {
		if o.set[fieldMapper] == nil {
			o.fault(fieldMapper, "it is missing: what is to run? Write an object with a command and its limits")
		}
		return nil
	}
	return []*statepb.TaskSpec{c.task(join(o.path, fieldMapper), MapperTask, v, outer, true)}
}

// refuseInMapper refuses what a mapper does not have.
func (o options) refuseInMapper() {
	for name, why := range map[string]string{
		fieldJobCount:         "how many jobs there are follows from the input: write " + fieldJobCount + " or " + fieldDataSizePerJob + " beside " + fieldMapper,
		fieldCookies:          "how many jobs there are follows from the input: leave it out",
		fieldMaxAttempts:      "what a job fails on is cut into parts, down to a record, and max_failed_job_count and " + fieldMaxSkippedRecords + " say how much may fail: leave it out",
		fieldRestartCompleted: "a part of the input is read once: leave it out",
		fieldRestartCode:      "what an interrupted job has not read goes to another one by itself: let it exit with 0",
		fieldOutputPaths:      "what is kept of a " + fieldMapper + " is its standard output, at " + fieldOutputPath + ": write there",
		fieldMaxSurge:         "its jobs read their input once, and none stands in for another: leave it out",
		fieldMinAvailable:     "its jobs read their input, and nobody waits for them to be ready: leave it out",
		fieldReadiness:        "its jobs read their input, nobody sends them requests: leave it out",
		fieldGang:             "each job of a " + fieldMapper + " is of use alone: leave it out",
	} {
		if o.set[name] != nil {
			o.fault(name, "%s", why)
		}
	}
}

// mapSpec returns what goes into an operation of type map, and what comes out.
func (o options) mapSpec() *statepb.MapSpec {
	m := &statepb.MapSpec{
		InputPaths:        o.inputPaths(),
		Format:            o.choice(fieldFormat, FormatLines, FormatLines, FormatJSON, FormatBytes),
		OutputPath:        o.place(fieldOutputPath, "where is what the jobs write to be?"),
		DataSizePerJob:    o.bytes(fieldDataSizePerJob, 0, 1, MaxDataSizePerJob),
		JobCount:          int32(o.integer(fieldJobCount, 0, 1, MaxJobs)),
		MaxRecordBytes:    o.bytes(fieldMaxRecordSize, DefaultMaxRecordSize, 1, MaxMaxRecordSize),
		MaxSkippedRecords: o.integer(fieldMaxSkippedRecords, 0, 0, MaxMaxSkippedRecords),
	}
	switch {
	case o.set[fieldDataSizePerJob] != nil && o.set[fieldJobCount] != nil:
		o.fault(fieldJobCount, "it is there beside %s, which says it too: keep one", fieldDataSizePerJob)
	case m.GetJobCount() == 0 && m.GetDataSizePerJob() == 0:
		m.DataSizePerJob = DefaultDataSizePerJob
	}
	if m.GetFormat() == FormatBytes {
		for _, name := range []string{fieldMaxRecordSize, fieldMaxSkippedRecords} {
			if o.set[name] != nil {
				o.fault(name, "with %s: %s there are no records: leave it out", fieldFormat, FormatBytes)
			}
		}
	}
	o.checkOutput(m)
	return m
}

// inputPaths returns one path, or a list of them.
func (o options) inputPaths() []string {
	v := o.get(fieldInputPaths, list, text)
	var items []item
	switch {
	case v == nil:
		if o.set[fieldInputPaths] == nil {
			o.fault(fieldInputPaths, "it is missing: what is to be read? Write files, globs, folders or %sbucket/key", storeScheme)
		}
		return nil
	case v.kind == text:
		items = []item{{c: o.c, path: join(o.path, fieldInputPaths), value: v}}
	default:
		if items = o.items(fieldInputPaths, MaxInputPaths); len(v.items) == 0 {
			o.fault(fieldInputPaths, "it is empty: what is to be read?")
		}
	}
	paths := make([]string, 0, len(items))
	for _, item := range items {
		if item.value.kind != text {
			item.fault("it is %s: a path is needed", item.value.kind)
			continue
		}
		_, bad := path.Match(item.value.text, "")
		switch err := checkPlace(item.value.text); {
		case err != nil:
			item.fault("%v", err)
		case errors.Is(bad, path.ErrBadPattern):
			item.fault("%q is no pattern: a [ has to be closed; write \\[ for the sign itself", clip(item.value.text))
		case slices.Contains(paths, item.value.text):
			item.fault("%q is there twice: it would be read twice", clip(item.value.text))
		default:
			paths = append(paths, item.value.text)
		}
	}
	return paths
}

// checkOutput checks that an operation does not write to what it reads.
func (o options) checkOutput(m *statepb.MapSpec) {
	output := m.GetOutputPath()
	if output == "" {
		return
	}
	if strings.ContainsAny(output, "*?[") {
		o.fault(fieldOutputPath, "%q has signs of a pattern: write where the output itself goes", clip(output))
	}
	for _, input := range m.GetInputPaths() {
		if strings.TrimRight(input, "/") == strings.TrimRight(output, "/") {
			o.fault(fieldOutputPath, "%q is read too: write to another place", clip(output))
		}
	}
}

// formatMap adds what only an operation of type map has.
func formatMap(out map[string]any, op *statepb.OperationSpec) {
	m := op.GetMap()
	inputs := make([]any, len(m.GetInputPaths()))
	for i, input := range m.GetInputPaths() {
		inputs[i] = input
	}
	out[fieldInputPaths], out[fieldFormat], out[fieldOutputPath] = inputs, m.GetFormat(), m.GetOutputPath()
	if m.GetJobCount() > 0 {
		out[fieldJobCount] = m.GetJobCount()
	} else {
		out[fieldDataSizePerJob] = m.GetDataSizePerJob()
	}
	if m.GetFormat() != FormatBytes {
		out[fieldMaxRecordSize], out[fieldMaxSkippedRecords] = m.GetMaxRecordBytes(), m.GetMaxSkippedRecords()
	}
	for _, task := range op.GetTasks() {
		mapper := formatTask(task)
		// A mapper does not have these.
		for _, name := range []string{fieldJobCount, fieldRestartCompleted} {
			delete(mapper, name)
		}
		out[fieldMapper] = mapper
	}
}

package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// mapped returns a spec of type map in YAML, with these lines too.
func mapped(lines ...string) string {
	return "type: map\nmapper: {command: [cat]}\n" + strings.Join(lines, "\n") + "\n"
}

const inAndOut = "input_paths: [/data/]\noutput_path: /out"

func TestParseMap(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want *statepb.MapSpec
	}{
		"as little as possible": {mapped("input_paths: /data/x", "output_path: /out/"), &statepb.MapSpec{
			InputPaths: []string{"/data/x"}, OutputPath: "/out/", Format: FormatLines, DataSizePerJob: 256 << 20, MaxRecordBytes: 16 << 20,
		}},
		"all of it": {
			mapped("input_paths: ['/data/*.json', s3://logs/2026/]", "output-path: s3://data/out", "format: json", "job_count: 7", "max_record_size: 1MB", "max-skipped-records: 3"),
			&statepb.MapSpec{
				InputPaths: []string{"/data/*.json", "s3://logs/2026/"}, OutputPath: "s3://data/out", Format: FormatJSON, JobCount: 7,
				MaxRecordBytes: 1e6, MaxSkippedRecords: 3,
			},
		},
		"by size": {mapped(inAndOut, "format: bytes", "data_size_per_job: 1.5KiB"), &statepb.MapSpec{
			InputPaths: []string{"/data/"}, OutputPath: "/out", Format: FormatBytes, DataSizePerJob: 1536, MaxRecordBytes: 16 << 20,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := checked(Read([]byte(test.spec)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Spec.GetMap(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			tasks := got.Spec.GetTasks()
			if got.Spec.GetType() != lifecycle.Map || len(tasks) != 1 || tasks[0].GetName() != MapperTask || tasks[0].GetJobCount() != 0 {
				t.Errorf("type %q with tasks %v", got.Spec.GetType(), tasks)
			}
		})
	}
}

func TestMapFaults(t *testing.T) {
	mapper := func(lines string) string {
		return "type: map\n" + inAndOut + "\nmapper: {command: [cat], " + lines + "}\n"
	}
	checkFaults(t, map[string]faultCase{
		"nothing said": {"type: map\n", []string{
			`line 1, column 1: input_paths: it is missing: write files, globs, folders or s3://bucket/key`,
			`line 1, column 1: mapper: it is missing: write an object with a command and its limits`,
			`line 1, column 1: output_path: it is missing: write the path or s3:// URL of the output`,
		}},
		"tasks": {mapped(inAndOut, "tasks: {t: {command: [x], job_count: 1}}"),
			[]string{`line 5, column 8: tasks: an operation of type: map has one task, the mapper: write it under mapper`}},
		"inputs that are none": {mapped("input_paths: [data, '/x[', 5, /y, /y, '']", "output_path: /out"), []string{
			`line 3, column 15: input_paths[0]: "data" does not begin with /: write the whole path, as every node sees it, or s3://bucket/key`,
			`line 3, column 21: input_paths[1]: "/x[" is not a valid pattern: close the [, or write \[ for the character itself`,
			`line 3, column 28: input_paths[2]: is the number 5, not text`,
			`line 3, column 35: input_paths[4]: "/y" is listed twice: it would be read twice`,
			`line 3, column 39: input_paths[5]: it is empty: write a path that begins with /, or s3://bucket/key`,
		}},
		"no inputs": {mapped("input_paths: []", "output_path: /out"), []string{`line 3, column 14: input_paths: it has 0 paths: from 1 to 1000 are allowed`}},
		"an output that is read": {mapped("input_paths: [/data]", "output_path: /data/"),
			[]string{`line 4, column 14: output_path: "/data/" is also an input: write to another place`}},
		"an output that is a pattern": {mapped("input_paths: [/data]", "output_path: /out/*"),
			[]string{`line 4, column 14: output_path: "/out/*" contains a wildcard (*, ? or [): write the path of the output itself`}},
		"numbers": {mapped(inAndOut, "format: csv", "data_size_per_job: 0", "max_record_size: 2GiB", "max_skipped_records: -1"), []string{
			`line 5, column 9: format: "csv" is not one of lines, json, bytes`,
			`line 6, column 20: data_size_per_job: 0 is too little: the minimum is 1B`,
			`line 7, column 18: max_record_size: "2GiB" is too much: the limit is 1GiB`,
			`line 8, column 22: max_skipped_records: -1 is not a number from 0 to 1000000`,
		}},
		"jobs in two ways": {mapped(inAndOut, "data_size_per_job: 1MiB", "job_count: 5"),
			[]string{`line 6, column 12: job_count: data_size_per_job is set too: keep only one of them`}},
		"records of bytes": {mapped(inAndOut, "format: bytes", "max_record_size: 1", "max_skipped_records: 1"), []string{
			`line 6, column 18: max_record_size: not allowed with format: bytes, which has no records: leave it out`,
			`line 7, column 22: max_skipped_records: not allowed with format: bytes, which has no records: leave it out`,
		}},
		"what a mapper has not": {mapper("job_count: 1, restart_completed_jobs: true, interruption_signal: INT, restart_exit_code: 3, output_paths: [], gang_options: {}"), []string{
			`line 4, column 37: mapper.job_count: the number of jobs follows from the input: write job_count or data_size_per_job beside mapper`,
			`line 4, column 64: mapper.restart_completed_jobs: each part of the input is read only once: leave it out`,
			`line 4, column 115: mapper.restart_exit_code: what an interrupted job has not read goes to another job automatically: let it exit with 0`,
			`line 4, column 132: mapper.output_paths: only the standard output of a mapper is kept, at output_path: write to standard output`,
			`line 4, column 150: mapper.gang_options: mapper jobs do not depend on each other, so they cannot form a gang: leave it out`,
		}},
		"a mapper that is a command": {"type: map\n" + inAndOut + "\nmapper: cat\n", []string{`line 4, column 9: mapper: is the text "cat", not an object of options`}},
		"a field of maps elsewhere": {root("input_paths: [/x]", "job_count: 5"), []string{
			`line 1, column 14: input_paths: only an operation of type: map has it: set type: map, or leave it out`,
			`line 2, column 12: job_count: it belongs to a task: write tasks.NAME.job_count, or set type: map`,
		}},
		"a map that does not say so": {"mapper: {command: [x]}\n", []string{`line 1, column 9: mapper: only an operation of type: map has it: set type: map, or leave it out`}},
	})
}

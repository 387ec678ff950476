package spec

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
)

const full = `
type: vanilla
pool: ads
weight: 2.5
title: 1.2.3
alias: "*nightly"
acl: {read: [group:ads, user:bob], manage: ['*']}
annotations: {team: ads, levels: [1, 2.5, true, null]}
time-limit: 2h
max_failed_job_count: 3
mutation_id: sort-1
tasks:
  sort:
    job_count: 100
    command: [sort, --unique, "in put"]
    environment: &env {LANG: C, EMPTY: ""}
    cpu_limit: 0.25
    memory-limit: 2GB
    gpu_limit: 1
    network_limit: 7
    job_time_limit: 90s
    max_failed_job_count: 2
    restart_completed_jobs: true
    interruption_signal: INT
    signal-root-process-only: true
    restart_exit_code: 75
    port_count: 2
  count:
    job_count: 1
    shell: true
    command: |
      wc -l < input > output
    environment: *env
`

// parsed is a spec that was read and checked.
type parsed struct {
	Spec       *statepb.OperationSpec
	MutationID string
}

// checked checks a document that was read.
func checked(doc *Document, err error) (*parsed, error) {
	if err != nil {
		return nil, err
	}
	op, mutationID, err := doc.Check()
	if err != nil {
		return nil, err
	}
	return &parsed{op, mutationID}, nil
}

func TestParseFull(t *testing.T) {
	parsed, err := checked(Read([]byte(full)))
	if err != nil {
		t.Fatal(err)
	}
	got, mutationID := parsed.Spec, parsed.MutationID
	environment := map[string]string{"LANG": "C", "EMPTY": ""}
	want := &statepb.OperationSpec{
		Type: "vanilla", Pool: "ads", Options: structOf(map[string]any{"weight": 2.5}), Title: "1.2.3", Alias: "*nightly",
		Acl:             &statepb.OperationRights{Read: []string{"group:ads", "user:bob"}, Manage: []string{"*"}},
		AnnotationsJson: `{"levels":[1,2.5,true,null],"team":"ads"}`,
		TimeLimit:       durationpb.New(2 * time.Hour), MaxFailedJobCount: 3,
		Tasks: []*statepb.TaskSpec{
			{
				Name: "count", JobCount: 1, Shell: "wc -l < input > output\n", Environment: environment,
				CpuLimitHundredths: 100, MemoryLimit: 512 << 20, Memory: plainMemory(), Isolation: "default", CpuEnforcement: "quota",
			},
			{
				Name: "sort", JobCount: 100, Argv: []string{"sort", "--unique", "in put"}, Environment: environment,
				CpuLimitHundredths: 25, MemoryLimit: 2e9, GpuLimit: 1, NetworkLimit: 7, JobTimeLimit: durationpb.New(90 * time.Second),
				MaxFailedJobCount: 2, RestartCompletedJobs: true,
				InterruptionSignal: "SIGINT", SignalRootProcessOnly: true, RestartExitCode: proto.Int32(75), PortCount: 2, Spread: true,
				Memory: plainMemory(), Isolation: "default", CpuEnforcement: "quota",
			},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if mutationID != "sort-1" {
		t.Errorf("mutation id %q", mutationID)
	}
}

// plainMemory is what a task has that says nothing of it.
func plainMemory() *statepb.MemorySpec {
	return &statepb.MemorySpec{DigestDefaultValue: 0.5, DigestLowerBound: 0.05, ProxyDefaultValue: 1, ProxyLowerBound: 0.5, ProxyUpperBound: 2}
}

// task returns a spec in YAML with one task that has these lines too.
func task(lines ...string) string {
	return "tasks:\n  t:\n    job_count: 1\n    command: [run]\n    " + strings.Join(lines, "\n    ") + "\n"
}

// root returns a spec in YAML with a good task and these lines.
func root(lines ...string) string {
	return strings.Join(lines, "\n") + "\ntasks: {t: {job_count: 1, command: [run]}}\n"
}

func TestParseStructFaults(t *testing.T) {
	number := structpb.NewNumberValue
	for name, test := range map[string]struct {
		jobs *structpb.Value
		want string
	}{
		"a fraction":    {number(1.5), "tasks.t.job_count: 1.5 is not a whole number"},
		"beyond 2^53":   {number(1 << 60), "tasks.t.job_count: 1.152921504606847e+18 is not a number from 1 to 100000"},
		"no number":     {number(math.NaN()), "tasks.t.job_count: NaN is not a finite number"},
		"infinite":      {number(math.Inf(1)), "tasks.t.job_count: +Inf is not a finite number"},
		"text":          {structpb.NewStringValue("1"), `tasks.t.job_count: is the text "1", not a number`},
		"nothing in it": {structpb.NewNullValue(), "tasks.t.job_count: it is missing: write the number of jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			task := &structpb.Struct{Fields: map[string]*structpb.Value{
				"job_count": test.jobs,
				"command":   structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("x")}}),
			}}
			tasks := &structpb.Struct{Fields: map[string]*structpb.Value{"t": structpb.NewStructValue(task)}}
			_, err := checked(FromStruct(&structpb.Struct{Fields: map[string]*structpb.Value{"tasks": structpb.NewStructValue(tasks)}}))
			if want := "operation spec: " + test.want; err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

func TestParseReadsBothSyntaxes(t *testing.T) {
	for name, test := range map[string]struct{ text, wantCommand string }{
		"YAML":                     {"tasks: {t: {job_count: 1, shell: true, command: a b}}", "a b"},
		"JSON with tabs":           {"{\n\t\"tasks\": {\"t\": {\"job_count\": 1, \"shell\": true, \"command\": \"\\ud83d\\ude00\\/\"}}\n}", "😀/"},
		"JSON with comments":       {"{\"tasks\": {\"t\": {\"job_count\": 1, \"shell\": true, \"command\": \"a\"}}} # YAML", "a"},
		"names without the quotes": {`{"tasks": {t: {job_count: 1, shell: true, command: a}}}`, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := checked(Read([]byte(test.text)))
			if err != nil {
				t.Fatal(err)
			}
			if command := got.Spec.GetTasks()[0].GetShell(); command != test.wantCommand {
				t.Errorf("command %q, want %q", command, test.wantCommand)
			}
		})
	}
}

func TestCPUIsRounded(t *testing.T) {
	for text, want := range map[string]int64{"0.01": 1, "0.29": 29, "0.015": 2, "1.114": 111, "10000": 1_000_000} {
		got, err := checked(Read([]byte(task("cpu_limit: " + text))))
		if err != nil {
			t.Fatal(err)
		}
		if cpu := got.Spec.GetTasks()[0].GetCpuLimitHundredths(); cpu != want {
			t.Errorf("cpu_limit %s is %d hundredths, want %d", text, cpu, want)
		}
	}
}

// TestLabels wants which annotations are labels, and what selects them.
func TestLabels(t *testing.T) {
	long := strings.Repeat("n", MaxLabelNameBytes+1)
	op := &statepb.OperationSpec{AnnotationsJson: `{"` + long + `":"x","a.b/c-d_e":"é\n","deep":{"hidden":"x"},"list":[1],"much":"` + strings.Repeat("x", MaxLabelValueBytes+1) +
		`","none":null,"run":-2.50,"two words":"x","yes":true}`}
	want := map[string]string{"a.b/c-d_e": "é\n", "run": "-2.50", "yes": "true"}
	if got := Labels(op); !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	for text, want := range map[string]bool{
		"run=-2.50": true, "run=2.5": false, "run!=2.5": true, "run": true, "yes=true": true, "yes!=true": false, "yes=": false,
		"hidden": false, "hidden!=x": true, "deep": false, "none": false, "much": false, "absent!=": true, "absent=": false,
	} {
		s, err := ParseLabelSelector(text)
		if err != nil || s.Selects(op) != want {
			t.Errorf("%s selects: %t, %v, want %t", text, s.Selects(op), err, want)
		}
	}
	if got := Labels(&statepb.OperationSpec{}); len(got) != 0 || (LabelSelector{}).Selects(op) {
		t.Errorf("labels of no annotations: %v", got)
	}
}

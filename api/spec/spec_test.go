package spec

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"weir/messages/statepb"
)

const full = `
type: vanilla
pool: ads
weight: 2.5
title: nightly sort
alias: "*nightly"
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
  count:
    job_count: 1
    shell: true
    command: |
      wc -l < input > output
    environment: *env
`

func TestParseFull(t *testing.T) {
	got, mutationID, err := Parse([]byte(full), YAML)
	if err != nil {
		t.Fatal(err)
	}
	weight := 2.5
	environment := map[string]string{"LANG": "C", "EMPTY": ""}
	want := &statepb.OperationSpec{
		Type: "vanilla", Pool: "ads", Weight: &weight, Title: "nightly sort", Alias: "*nightly",
		AnnotationsJson: `{"levels":[1,2.5,true,null],"team":"ads"}`,
		TimeLimit:       durationpb.New(2 * time.Hour), MaxFailedJobCount: 3,
		Tasks: []*statepb.TaskSpec{
			{
				Name: "count", JobCount: 1, Shell: "wc -l < input > output\n", Environment: environment,
				CpuLimitHundredths: 100, MemoryLimit: 512 << 20,
			},
			{
				Name: "sort", JobCount: 100, Argv: []string{"sort", "--unique", "in put"}, Environment: environment,
				CpuLimitHundredths: 25, MemoryLimit: 2e9, GpuLimit: 1, NetworkLimit: 7, JobTimeLimit: durationpb.New(90 * time.Second),
				MaxFailedJobCount: 2, RestartCompletedJobs: true,
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

// task returns a spec in YAML with one task that has these lines too.
func task(lines ...string) string {
	return "tasks:\n  t:\n    job_count: 1\n    command: [run]\n    " + strings.Join(lines, "\n    ") + "\n"
}

// root returns a spec in YAML with a good task and these lines.
func root(lines ...string) string {
	return strings.Join(lines, "\n") + "\ntasks: {t: {job_count: 1, command: [run]}}\n"
}

func TestParseFaults(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		// Each is a whole line of the error, without the indent.
		want []string
	}{
		"unknown field of a task": {
			"tasks:\n  sort:\n    job_count: 1\n    comand: [x]\n    command: [x]\n",
			[]string{`tasks.sort.comand: unknown field; did you mean "command"? (line 4, column 5)`},
		},
		"unknown field at the top": {root("piority: 3"),
			[]string{`piority: unknown field; there are type, pool, weight, title, alias, annotations, time_limit, max_failed_job_count, mutation_id, tasks (line 1, column 1)`}},
		"the same option in two ways": {root("time-limit: 1h", "time_limit: 2h"),
			[]string{`time_limit: it is there twice, first in line 1, written with - and with _: keep one (line 2, column 1)`}},
		"all faults at once, by place": {
			"weight: -1\nalias: nightly\ntasks:\n  t:\n    job_count: 0\n    command: []\n",
			[]string{
				`weight: weight -1 is not a number from 0 to 1e+09 (line 1, column 9)`,
				`alias: "nightly": it must start with * and have a name after it, such as "*nightlynightly" (line 2, column 8)`,
				`tasks.t.job_count: 0 is too small: from 1 to 100000 is possible (line 5, column 16)`,
				`tasks.t.command: it is empty: write a list, the program and its arguments (line 6, column 14)`,
			},
		},
		"type":               {root("type: map"), []string{`type: "map" is not known: vanilla is the one type there is (line 1, column 7)`}},
		"type of wrong type": {root("type: 3"), []string{`type: it is a number: text is needed (line 1, column 7)`}},
		"empty pool":         {root(`pool: ""`), []string{`pool: it is empty: leave it out for pool "default" (line 1, column 7)`}},
		"title too long":     {root("title: " + strings.Repeat("x", 1025)), []string{`title: it has 1025 bytes: 1024 is the most (line 1, column 8)`}},
		"weight of text":     {root("weight: heavy"), []string{`weight: it is text: a number is needed (line 1, column 9)`}},
		"annotations a list": {root("annotations: [1]"), []string{`annotations: it is a list: an object is needed (line 1, column 14)`}},
		"annotations too long": {root("annotations: {a: " + strings.Repeat("x", 10<<10) + "}"),
			[]string{`annotations: they have 10248 bytes as JSON: 10240 (10 KiB) is the most (line 1, column 14)`}},
		"time without unit": {root("time_limit: 90"), []string{`time_limit: 90 has no unit: write "90s" or "90m" (line 1, column 13)`}},
		"time too short":    {root("time_limit: 10ms"), []string{`time_limit: 10ms is too short: 1s is the least (line 1, column 13)`}},
		"time negative":     {root("time_limit: -1h"), []string{`time_limit: -1h is too short: 1s is the least (line 1, column 13)`}},
		"time too long":     {root("time_limit: 100000h"), []string{`time_limit: 100000h is too long: 87600h0m0s is the most (line 1, column 13)`}},
		"time of words": {root("time_limit: soon"),
			[]string{`time_limit: "soon" is not a time: write a number with a unit of ms, s, m or h, such as 90s or 1h30m (line 1, column 13)`}},
		"no tasks":            {"title: x", []string{`tasks: it is missing: an operation needs at least one task (line 1, column 1)`}},
		"empty tasks":         {"tasks: {}", []string{`tasks: there are 0: from 1 to 100 are possible (line 1, column 8)`}},
		"tasks a list":        {"tasks: [1]", []string{`tasks: it is a list: an object is needed (line 1, column 8)`}},
		"a task that is text": {"tasks: {t: x}", []string{`tasks.t: it is text: an object with job_count and command is needed (line 1, column 12)`}},
		"name of a task":      {"tasks: {a/b: {job_count: 1, command: [x]}}", []string{`tasks.a/b: the name of a task has 1 to 64 letters, digits, - and _ (line 1, column 9)`}},
		"too many jobs": {"tasks: {t: {job_count: 100001, command: [x]}}",
			[]string{`tasks.t.job_count: 100001 is too large: from 1 to 100000 is possible (line 1, column 24)`}},
		"too many jobs together": {"tasks: {a: {job_count: 60000, command: [x]}, b: {job_count: 60000, command: [x]}}",
			[]string{`tasks: they have 120000 jobs together: 100000 is the most (line 1, column 8)`}},
		"job_count a fraction": {"tasks: {t: {job_count: 1.5, command: [x]}}", []string{`tasks.t.job_count: 1.5 is not a whole number (line 1, column 24)`}},
		"job_count absurd":     {"tasks: {t: {job_count: 1e300, command: [x]}}", []string{`tasks.t.job_count: 1e+300 is too large: from 1 to 100000 is possible (line 1, column 24)`}},
		"job_count of text":    {"tasks: {t: {job_count: many, command: [x]}}", []string{`tasks.t.job_count: it is text: a number is needed (line 1, column 24)`}},
		"nothing to run": {"tasks: {t: {}}", []string{
			`tasks.t.command: it is missing: write a list, the program and its arguments (line 1, column 12)`,
			`tasks.t.job_count: it is missing: how many jobs are to run? (line 1, column 12)`,
		}},
		"command without a shell": {"tasks: {t: {job_count: 1, command: sleep 1}}",
			[]string{`tasks.t.command: it is one text: write a list, such as ["sleep", "1"], or add shell: true to run it by /bin/sh (line 1, column 36)`}},
		"shell with a list": {task("shell: true"), []string{`tasks.t.shell: it is true, but command is a list: make command one text, or leave shell out (line 5, column 12)`}},
		"blank command":     {`tasks: {t: {job_count: 1, command: " ", shell: true}}`, []string{`tasks.t.command: it is empty: write a list, the program and its arguments (line 1, column 36)`}},
		"empty program":     {`tasks: {t: {job_count: 1, command: ["", x]}}`, []string{`tasks.t.command[0]: the program's name is empty (line 1, column 37)`}},
		"an argument that is a number": {`tasks: {t: {job_count: 1, command: [sleep, 1]}}`,
			[]string{`tasks.t.command[1]: it is a number: put it in quotes, text is needed (line 1, column 44)`}},
		"a zero byte": {`tasks: {t: {job_count: 1, command: ["a\0b"]}}`, []string{`tasks.t.command[0]: it has a zero byte, which no process can be given (line 1, column 37)`}},
		"environment": {task("environment: {1A: x, WEIR_X: y, B: 3, C: [x]}"), []string{
			`tasks.t.environment.1A: the name of a variable has letters, digits and _, and no digit first (line 5, column 19)`,
			`tasks.t.environment.WEIR_X: names that begin with WEIR_ are Weir's own: choose another (line 5, column 26)`,
			`tasks.t.environment.B: it is a number: put it in quotes, text is needed (line 5, column 40)`,
			`tasks.t.environment.C: it is a list: text is needed (line 5, column 46)`,
		}},
		"negative cpu":       {task("cpu_limit: -1"), []string{`tasks.t.cpu_limit: -1 cores is too little: 0.01 is the least (line 5, column 16)`}},
		"absurd cpu":         {task("cpu_limit: 10001"), []string{`tasks.t.cpu_limit: 10001 cores is too much: 10000 is the most (line 5, column 16)`}},
		"cpu too fine":       {task("cpu_limit: 0.015"), []string{`tasks.t.cpu_limit: 0.015 cores is too fine: hundredths of a core are possible (line 5, column 16)`}},
		"negative memory":    {task("memory_limit: -512MiB"), []string{`tasks.t.memory_limit: -512MiB is too little: 1MiB is the least (line 5, column 19)`}},
		"negative bytes":     {task("memory_limit: -1"), []string{`tasks.t.memory_limit: -1 is too small: from 1048576 to 70368744177664 is possible (line 5, column 19)`}},
		"absurd memory":      {task("memory_limit: 65TiB"), []string{`tasks.t.memory_limit: 65TiB is too much: 64TiB is the most (line 5, column 19)`}},
		"memory beyond":      {task("memory_limit: 99999999999TiB"), []string{`tasks.t.memory_limit: 99999999999TiB is too much: 64TiB is the most (line 5, column 19)`}},
		"memory of words":    {task("memory_limit: lots"), []string{`tasks.t.memory_limit: "lots" is not a size: write bytes, or a number with a unit of KiB, MiB, GiB, TiB, KB, MB, GB or TB, such as 512MiB (line 5, column 19)`}},
		"negative gpu":       {task("gpu_limit: -1"), []string{`tasks.t.gpu_limit: -1 is too small: from 0 to 10000 is possible (line 5, column 16)`}},
		"negative network":   {task("network_limit: -1"), []string{`tasks.t.network_limit: -1 is too small: from 0 to 1125899906842624 is possible (line 5, column 20)`}},
		"negative failures":  {task("max_failed_job_count: -1"), []string{`tasks.t.max_failed_job_count: -1 is too small: from 0 to 10000 is possible (line 5, column 27)`}},
		"restart of a word":  {task("restart_completed_jobs: maybe"), []string{`tasks.t.restart_completed_jobs: it is text: true or false is needed (line 5, column 29)`}},
		"a number too large": {root("max_failed_job_count: 99999999999999999999"), []string{`max_failed_job_count: 1e+20 is too large: from 0 to 10000 is possible (line 1, column 23)`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse([]byte(test.spec), YAML)
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("error %v, want faults", err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		syntax Syntax
		want   string
	}{
		"empty":               {"", YAML, "it is empty"},
		"a list":              {"[1]", YAML, "it is a list"},
		"duplicate keys":      {"a: 1\nb: 2\na: 3\n", YAML, `line 3, column 1: "a" is there twice, first in line 1`},
		"two documents":       {"a: 1\n---\nb: 1\n", YAML, "a second document"},
		"a tag":               {"a: !!binary x\n", YAML, "tags are not used here"},
		"a merge key":         {"a: &x {b: 1}\nc: {<<: *x}\n", YAML, "merge keys"},
		"an unknown alias":    {"a: *x\n", YAML, "x"},
		"not a number":        {"a: .nan\n", YAML, "not a number that can be used"},
		"a tab":               {"a:\n\tb: 1\n", YAML, "line 2"},
		"deep":                {"a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), YAML, "nest more than 32 deep"},
		"very deep":           {strings.Repeat("[", 1<<19), YAML, "a spec nests at most 32 deep"},
		"growing aliases":     {bomb(), YAML, "more than"},
		"too long":            {"#" + strings.Repeat("x", MaxBytes), YAML, "1048577 bytes, 1048576 (1 MiB) is the most"},
		"json: duplicate":     {"{\"a\": 1,\n \"a\": 2}", JSON, `line 2, column 2: "a" is there twice, first in line 1`},
		"json: cut off":       {`{"a": [1`, JSON, "line 1, column 9: the text ends too early"},
		"json: comma":         {`{"a": 1,}`, JSON, "line 1"},
		"json: two objects":   {"{} {}", JSON, "line 1, column 4: something follows the object"},
		"json: yaml":          {"a: 1", JSON, "line 1"},
		"json: number":        {`{"a": 1e999}`, JSON, "number 1e999 is too large"},
		"json: deep":          {strings.Repeat(`{"a":`, 40), JSON, "nest more than 32 deep"},
		"json: not an object": {"3", JSON, "it is a number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(test.text), test.syntax)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// bomb returns YAML whose aliases stand for 10^9 values.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b.String()
}

func TestManyFaultsAreCounted(t *testing.T) {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "unknown%d: 1\n", i)
	}
	_, _, err := Parse([]byte(root(b.String())), YAML)
	if err == nil || !strings.Contains(err.Error(), "has 150 faults") || !strings.HasSuffix(err.Error(), "and 50 more") {
		t.Errorf("error %v", err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"512MiB": 512 << 20, "2GB": 2e9, "2 gb": 2e9, "1.5GiB": 3 << 29, "1048576": 1 << 20, "1048576B": 1 << 20, "0.5KiB": 512, "64TiB": 64 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("size %q is %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errSize, "MiB": errSize, "1XB": errSize, "1e3": errSize, "1/2GiB": errSize, "--1": errSize, "1.5B": errSizeWhole,
		"0.3KiB": errSizeWhole, "9223372036854775808": errSizeRange, "8388608TiB": errSizeRange,
	} {
		if got, err := ParseSize(text); !errors.Is(err, want) {
			t.Errorf("size %q is %d, %v, want %v", text, got, err, want)
		}
	}
}

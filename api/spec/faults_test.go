package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/scheduling/option"
)

// faultCase is a spec, and what is wrong with it.
type faultCase struct {
	spec string
	// Each is a whole line of the error, without the indent.
	want []string
}

func checkFaults(t *testing.T, cases map[string]faultCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := checked(Read([]byte(test.spec)))
			var refused *option.Error
			if !errors.As(err, &refused) {
				t.Fatalf("error %v, want faults", err)
			}
			var got []string
			for _, f := range refused.Faults {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestParseFaults has faults of any option: unknown names, names that are there twice, many faults.
func TestParseFaults(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"unknown field of a task": {
			"tasks:\n  sort:\n    job_count: 1\n    comand: [x]\n    command: [x]\n",
			[]string{`line 4, column 5: tasks.sort.comand: unknown option; did you mean command?`},
		},
		"unknown field at the top": {root("piority: 3"),
			[]string{`line 1, column 1: piority: unknown option: use one of type, pool, title, alias, annotations, time_limit, max_failed_job_count, mutation_id, is_gang, pool_trees, scheduling_options_per_pool_tree, no_memory_profile, job_proxy_memory_digest, acl, secure_vault, weight, max_share_ratio, resource_limits, apply_specified_resource_limits_to_demand, scheduling_tag_filter, fair_share_starvation_timeout, min_share_preemption_timeout, fair_share_starvation_tolerance, non_preemptible_resource_usage_threshold, max_unpreemptable_running_job_count, allocation_preemption_timeout, allocation_graceful_preemption_timeout, min_run_time, preemption_mode, packing, tasks`}},
		"the same option in two ways": {root("time-limit: 1h", "time_limit: 2h"),
			[]string{`line 2, column 1: time_limit: is the same option as time-limit, which is also set`}},
		"all faults at once, by place": {
			"weight: -1\nalias: nightly\ntasks:\n  t:\n    job_count: 0\n    command: []\n",
			[]string{
				`line 1, column 9: weight: -1 is not a number from 0 to 1e+09`,
				`line 2, column 8: alias: "nightly": it must be * followed by a name, such as "*nightly"`,
				`line 5, column 16: tasks.t.job_count: 0 is not a number from 1 to 100000`,
				`line 6, column 14: tasks.t.command: it is empty: write a list, the program and its arguments`,
			},
		},
		"keys that are there twice, and other faults": {
			"title: a\ntitle: b\nweight: -1\ntasks: {t: {job_count: 1, job_count: 2, command: [x]}}",
			[]string{
				`line 2, column 1: title: duplicate name, first in line 1: keep one`,
				`line 3, column 9: weight: -1 is not a number from 0 to 1e+09`,
				`line 4, column 27: tasks.t.job_count: duplicate name, first in line 4: keep one`,
			},
		},
		"a key twice in JSON": {"{\"tasks\": {\"t\": {\"job_count\": 1, \"command\": [\"x\"]}},\n \"title\": \"a\", \"title\": \"b\"}",
			[]string{`line 2, column 16: title: duplicate name, first in line 2: keep one`}},
	})
}

// TestParseFaultsOfInterruption has interruptions that cannot be.
func TestParseFaultsOfInterruption(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"a signal that nobody knows": {task("interruption_signal: SIGSLEEP"),
			[]string{`line 5, column 26: tasks.t.interruption_signal: "SIGSLEEP" is not a signal that can ask a job to stop: write one of SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGWINCH`}},
		"a signal by its number": {task("interruption_signal: 15"),
			[]string{`line 5, column 26: tasks.t.interruption_signal: is the number 15, not text`}},
		"a signal that no process can handle": {task("interruption_signal: kill"),
			[]string{`line 5, column 26: tasks.t.interruption_signal: SIGKILL cannot be handled by a process, so no job could stop gracefully: write one of SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGWINCH`}},
		"another that stops it for good": {task("interruption_signal: SIGSTOP"),
			[]string{`line 5, column 26: tasks.t.interruption_signal: SIGSTOP cannot be handled by a process, so no job could stop gracefully: write one of SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGWINCH`}},
		"exit codes that cannot be, or mean success": {task("interruption_signal: SIGTERM", "restart_exit_code: 0"),
			[]string{`line 6, column 24: tasks.t.restart_exit_code: 0 is not a number from 1 to 255`}},
		"how a job is interrupted that is not": {task("signal_root_process_only: true", "restart_exit_code: 3"),
			[]string{
				`line 5, column 31: tasks.t.signal_root_process_only: it has no effect without an interruption_signal: add one, such as interruption_signal: SIGTERM, or leave this out`,
				`line 6, column 24: tasks.t.restart_exit_code: it has no effect without an interruption_signal: add one, such as interruption_signal: SIGTERM, or leave this out`,
			}},
	})
}

// TestParseFaultsOfOperations has options of operations that cannot be.
func TestParseFaultsOfOperations(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"alias with a space":   {root(`alias: "*a b"`), []string{`line 1, column 8: alias: "*a b": it must have only printable characters, and no spaces`}},
		"alias of a star":      {root(`alias: "*"`), []string{`line 1, column 8: alias: "*": it must be * followed by a name, such as "*nightly"`}},
		"alias too long":       {root(`alias: "*` + strings.Repeat("x", 100) + `"`), []string{`line 1, column 8: alias: it has 101 bytes, the limit is 100`}},
		"mutation id too long": {root("mutation_id: " + strings.Repeat("x", 129)), []string{`line 1, column 14: mutation_id: it has 129 bytes, the limit is 128`}},
		"type":                 {root("type: reduce"), []string{`line 1, column 7: type: "reduce" is not one of vanilla, map`}},
		"type of wrong type":   {root("type: 3"), []string{`line 1, column 7: type: is the number 3, not text`}},
		"empty pool":           {root(`pool: ""`), []string{`line 1, column 7: pool: it is empty: leave it out to use the tree's pool for operations that name none`}},
		"title too long":       {root("title: " + strings.Repeat("x", 257)), []string{`line 1, column 8: title: it has 257 bytes, the limit is 256`}},
		"trees that are none": {root("pool_trees: [gpu, 3, gpu, a/b]"), []string{
			`line 1, column 19: pool_trees[1]: is the number 3, not text`,
			`line 1, column 22: pool_trees[2]: tree "gpu" is listed twice`,
			`line 1, column 27: pool_trees[3]: pool name "a/b" contains '/': not allowed are / $ < > * spaces and control characters`,
		}},
		"no trees":       {root("pool_trees: []"), []string{`line 1, column 13: pool_trees: it has 0 trees: from 1 to 100 are allowed`}},
		"a tree":         {root("pool_trees: gpu"), []string{`line 1, column 13: pool_trees: is the text "gpu", not a list`}},
		"gang of words":  {root("is_gang: maybe"), []string{`line 1, column 10: is_gang: is the text "maybe", not true or false`}},
		"weight of text": {root("weight: heavy"), []string{`line 1, column 9: weight: is the text "heavy", not a number`}},
		"a stranger's right": {root("acl: {read: [user:ann, group:a b], manage: [ann, '*']}"), []string{
			`line 1, column 24: acl.read[1]: group "a b": must be 1 to 63 letters, digits, '.', '_' or '-', with a letter or digit first and last`,
			`line 1, column 45: acl.manage[0]: subject "ann": must be user:NAME, group:NAME or * (everyone)`}},
		"a subject twice":                         {root("acl: {manage: ['*', '*']}"), []string{`line 1, column 15: acl.manage: * is named twice`}},
		"a right that an operation does not have": {root("acl: {use: ['*']}"), []string{`line 1, column 7: acl.use: unknown option: use one of read, manage`}},
		"annotations a list":                      {root("annotations: [1]"), []string{`line 1, column 14: annotations: is a list, not an object`}},
		"annotations too long": {root("annotations: {a: " + strings.Repeat("x", 10<<10) + "}"),
			[]string{`line 1, column 14: annotations: they have 10248 bytes as JSON, the limit is 10240 (10 KiB)`}},
		"a number too large": {root("max_failed_job_count: 99999999999999999999"), []string{`line 1, column 23: max_failed_job_count: 1e+20 is not a number from 0 to 10000`}},
	})
}

// TestParseFaultsOfTrees has scheduling options that cannot be, in all trees and in one.
func TestParseFaultsOfTrees(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"options by two names": {root("fair-share-preemption-timeout: 1m", "fair_share_starvation_timeout: 2m"), []string{
			`line 2, column 1: fair_share_starvation_timeout: is the same option as fair-share-preemption-timeout, which is also set`}},
		"options that cannot be": {root("max_share_ratio: 2", "resource_limits: {cores: 1}", "scheduling_tag_filter: gpu &", "fair_share_preemption_timeout: 30"), []string{
			`line 1, column 18: max_share_ratio: 2 is not a number from 0 to 1`,
			`line 2, column 18: resource_limits: unknown resource "cores": use one of user_slots, cpu, gpu, memory, network`,
			`line 3, column 24: scheduling_tag_filter: node filter "gpu &", position 6: expected a tag at the end`,
			`line 4, column 32: fair_share_starvation_timeout: is the number 30, not a time: write it with a unit, such as 30s or 10m`,
		}},
		"options of trees": {root("pool_trees: [gpu]", "scheduling_options_per_pool_tree:", "  gpu: {weight: -1, pool: a$b, wieght: 1}", "  cpu: {}", "  default: 3"), []string{
			`line 3, column 17: scheduling_options_per_pool_tree.gpu.weight: -1 is not a number from 0 to 1e+09`,
			`line 3, column 27: scheduling_options_per_pool_tree.gpu.pool: pool name "a$b" contains '$': not allowed are / $ < > * spaces and control characters`,
			`line 3, column 32: scheduling_options_per_pool_tree.gpu.wieght: unknown option; did you mean weight?`,
			`line 4, column 3: scheduling_options_per_pool_tree.cpu: the operation is not in this tree: pool_trees names "gpu"`,
			`line 5, column 12: scheduling_options_per_pool_tree.default: is the number 3, not an object of options`,
		}},
	})
}

// TestParseFaultsOfTimes has time limits that cannot be.
func TestParseFaultsOfTimes(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"time without unit": {root("time_limit: 90"), []string{`line 1, column 13: time_limit: is the number 90, not a time: write it with a unit, such as 30s or 10m`}},
		"time too short":    {root("time_limit: 10ms"), []string{`line 1, column 13: time_limit: 10ms is too short: the minimum is 1s`}},
		"time negative":     {root("time_limit: -1h"), []string{`line 1, column 13: time_limit: -1h is too short: the minimum is 1s`}},
		"time too long":     {root("time_limit: 100000h"), []string{`line 1, column 13: time_limit: 100000h is too long: the limit is 8784h`}},
		"time of words": {root("time_limit: soon"),
			[]string{`line 1, column 13: time_limit: "soon" is not a time: write it with a unit, such as 30s or 10m`}},
	})
}

// TestParseFaultsOfTasks has tasks, job counts and ports that cannot be.
func TestParseFaultsOfTasks(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"more ports than a job gets": {task("port_count: 101"),
			[]string{`line 5, column 17: tasks.t.port_count: 101 is not a number from 0 to 100`}},
		"no tasks":            {"title: x", []string{`line 1, column 1: tasks: it is missing: an operation needs at least one task`}},
		"empty tasks":         {"tasks: {}", []string{`line 1, column 8: tasks: it has 0 tasks: from 1 to 100 are allowed`}},
		"tasks a list":        {"tasks: [1]", []string{`line 1, column 8: tasks: is a list, not an object`}},
		"a task that is text": {"tasks: {t: x}", []string{`line 1, column 12: tasks.t: is the text "x", not an object of options`}},
		"name of a task":      {"tasks: {a/b: {job_count: 1, command: [x]}}", []string{`line 1, column 9: tasks.a/b: a task name has 1 to 64 letters, digits, - and _`}},
		"too many jobs": {"tasks: {t: {job_count: 100001, command: [x]}}",
			[]string{`line 1, column 24: tasks.t.job_count: 100001 is not a number from 1 to 100000`}},
		"too many jobs together": {"tasks: {a: {job_count: 60000, command: [x]}, b: {job_count: 60000, command: [x]}}",
			[]string{`line 1, column 8: tasks: they have 120000 jobs in total, the limit is 100000`}},
		"job_count a fraction": {"tasks: {t: {job_count: 1.5, command: [x]}}", []string{`line 1, column 24: tasks.t.job_count: 1.5 is not a whole number`}},
		"job_count absurd":     {"tasks: {t: {job_count: 1e300, command: [x]}}", []string{`line 1, column 24: tasks.t.job_count: 1e+300 is not a number from 1 to 100000`}},
		"job_count of text":    {"tasks: {t: {job_count: many, command: [x]}}", []string{`line 1, column 24: tasks.t.job_count: is the text "many", not a number`}},
		"negative failures":    {task("max_failed_job_count: -1"), []string{`line 5, column 27: tasks.t.max_failed_job_count: -1 is not a number from 0 to 10000`}},
		"restart of a word":    {task("restart_completed_jobs: maybe"), []string{`line 5, column 29: tasks.t.restart_completed_jobs: is the text "maybe", not true or false`}},
	})
}

// TestParseFaultsOfCommands has commands and environments that cannot be.
func TestParseFaultsOfCommands(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"environment too long": {task("environment: {A: " + strings.Repeat("x", 100<<10) + ", B: " + strings.Repeat("x", 100<<10) + "}"),
			[]string{`line 5, column 18: tasks.t.environment: it has 204806 bytes, the limit is 131072 (128 KiB): put data into files`}},
		"nothing to run": {"tasks: {t: {}}", []string{
			`line 1, column 12: tasks.t.command: it is missing: write a list, the program and its arguments`,
			`line 1, column 12: tasks.t.job_count: it is missing: write the number of jobs`,
		}},
		"command without a shell": {"tasks: {t: {job_count: 1, command: sleep 1}}",
			[]string{`line 1, column 36: tasks.t.command: it is a single text: write a list, such as ["sleep", "1"], or add shell: true to run it with /bin/sh`}},
		"shell with a list": {task("shell: true"), []string{`line 5, column 12: tasks.t.shell: shell is true, but command is a list: write command as a single text, or remove shell`}},
		"blank command":     {`tasks: {t: {job_count: 1, command: " ", shell: true}}`, []string{`line 1, column 36: tasks.t.command: it is empty: write a list, the program and its arguments`}},
		"empty program":     {`tasks: {t: {job_count: 1, command: ["", x]}}`, []string{`line 1, column 37: tasks.t.command[0]: the program's name is empty`}},
		"an argument that is a number": {`tasks: {t: {job_count: 1, command: [sleep, 1]}}`,
			[]string{`line 1, column 44: tasks.t.command[1]: is the number 1, not text: put it in quotes`}},
		"a zero byte": {`tasks: {t: {job_count: 1, command: ["a\0b"]}}`, []string{`line 1, column 37: tasks.t.command[0]: it contains a NUL byte, which cannot be passed to a process`}},
		"environment": {task("environment: {1A: x, WEIR_X: y, B: 3, C: [x]}"), []string{
			`line 5, column 19: tasks.t.environment.1A: the name of a variable has letters, digits and _, and does not begin with a digit`,
			`line 5, column 26: tasks.t.environment.WEIR_X: names that begin with WEIR_ are reserved for Weir: choose another`,
			`line 5, column 40: tasks.t.environment.B: is the number 3, not text: put it in quotes`,
			`line 5, column 46: tasks.t.environment.C: is a list, not text`,
		}},
	})
}

// TestParseFaultsOfResources has limits of resources that cannot be.
func TestParseFaultsOfResources(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"negative cpu":     {task("cpu_limit: -1"), []string{`line 5, column 16: tasks.t.cpu_limit: -1 is not a number from 0.01 to 10000`}},
		"absurd cpu":       {task("cpu_limit: 10001"), []string{`line 5, column 16: tasks.t.cpu_limit: 10001 is not a number from 0.01 to 10000`}},
		"negative memory":  {task("memory_limit: -512MiB"), []string{`line 5, column 19: tasks.t.memory_limit: "-512MiB" is too little: the minimum is 1MiB`}},
		"negative bytes":   {task("memory_limit: -1"), []string{`line 5, column 19: tasks.t.memory_limit: -1 is too little: the minimum is 1MiB`}},
		"absurd memory":    {task("memory_limit: 65TiB"), []string{`line 5, column 19: tasks.t.memory_limit: "65TiB" is too much: the limit is 64TiB`}},
		"memory beyond":    {task("memory_limit: 99999999999TiB"), []string{`line 5, column 19: tasks.t.memory_limit: "99999999999TiB" is too much: the limit is 64TiB`}},
		"memory of words":  {task("memory_limit: lots"), []string{`line 5, column 19: tasks.t.memory_limit: "lots" is not a size: write a number of bytes, or a number with a unit: KiB, MiB, GiB, TiB, PiB, KB, MB, GB or TB, such as 512MiB`}},
		"negative gpu":     {task("gpu_limit: -1"), []string{`line 5, column 16: tasks.t.gpu_limit: -1 is not a number from 0 to 10000`}},
		"negative network": {task("network_limit: -1"), []string{`line 5, column 20: tasks.t.network_limit: -1 is not a number from 0 to 1125899906842624`}},
	})
}

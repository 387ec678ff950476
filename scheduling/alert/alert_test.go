package alert

import (
	"strings"
	"testing"

	"weir/scheduling/statistics"
)

const (
	gibi   = 1 << 30
	minute = 60 * 1000 // In milliseconds.
)

func TestOf(t *testing.T) {
	type values = map[string]int64
	jobs := func(n int, state string, v values) statistics.Set {
		var s statistics.Set
		for range n {
			s.Add(state, v)
		}
		return s
	}
	both := func(a, b statistics.Set) statistics.Set { a.Merge(b); return a }
	memory := func(bytes int64) statistics.Set { return jobs(3, "completed", values{statistics.UserMaxMemory: bytes}) }
	cpu := func(exec, micros int64) statistics.Set {
		return jobs(10, "completed", values{statistics.TimeExec: exec, statistics.UserCPUUser: micros / 2, statistics.UserCPUSystem: micros / 2})
	}
	total := func(n int, state string, millis int64) statistics.Set {
		return jobs(n, state, values{statistics.TimeTotal: millis})
	}
	for story, test := range map[string]struct {
		task       Task
		want       string
		wantAdvice string
	}{
		"nothing is known yet": {Task{Limit: 100 * gibi, Tmpfs: gibi, CPU: 100}, "", ""},

		"much of the memory is never used":         {Task{Limit: 100 * gibi, Statistics: memory(20 * gibi)}, UnusedMemory, "set memory_limit to 25GiB"},
		"what is in tmpfs is used":                 {Task{Limit: 100 * gibi, Statistics: jobs(1, "completed", values{statistics.UserMaxMemory: 20 * gibi, statistics.UserMaxTmpfsSize: 75 * gibi})}, "", ""},
		"all of tmpfs has to fit":                  {Task{Limit: 100 * gibi, Tmpfs: gibi / 2, Statistics: memory(20 * gibi)}, UnusedMemory, "set memory_limit to 26112MiB"},
		"tmpfs takes all that could be left":       {Task{Limit: 100 * gibi, Tmpfs: 90 * gibi, Statistics: jobs(1, "completed", values{statistics.UserMaxMemory: 8 * gibi, statistics.UserMaxTmpfsSize: 60 * gibi})}, UnusedTmpfs, "to 75GiB"},
		"not more than 8 GiB are left":             {Task{Limit: 10 * gibi, Statistics: memory(2 * gibi)}, "", ""},
		"not more than a fifth is left":            {Task{Limit: 100 * gibi, Statistics: memory(80 * gibi)}, "", ""},
		"jobs that failed do not say what is used": {Task{Limit: 100 * gibi, Statistics: jobs(9, "failed", values{statistics.UserMaxMemory: 1})}, "", ""},

		"tmpfs is never full":              {Task{Limit: 8 * gibi, Tmpfs: 4 * gibi, Statistics: jobs(1, "completed", values{statistics.UserMaxMemory: gibi, statistics.UserMaxTmpfsSize: 2 * gibi})}, UnusedTmpfs, "to 2560MiB"},
		"tmpfs is never touched":           {Task{Limit: 8 * gibi, Tmpfs: 4 * gibi, Statistics: memory(gibi)}, UnusedTmpfs, "to 1MiB"},
		"all memory is used":               {Task{Limit: 8 * gibi, Tmpfs: 2 * gibi, Statistics: memory(7 * gibi)}, "", ""},
		"not more than 512 MiB are left":   {Task{Limit: 8 * gibi, Tmpfs: gibi / 2, Statistics: memory(gibi)}, "", ""},
		"a task without tmpfs wastes none": {Task{Limit: 8 * gibi, Statistics: memory(gibi)}, "", ""},

		"jobs wait most of their time":     {Task{CPU: 200, Statistics: cpu(minute, 60e6/2)}, LowCPU, "set cpu_limit to 0.62"},
		"half of the time is enough":       {Task{CPU: 200, Statistics: cpu(minute, 60e6)}, "", ""},
		"less than ten minutes say little": {Task{CPU: 200, Statistics: cpu(minute-1, 0)}, "", ""},

		"many short jobs": {Task{Statistics: jobs(1000, "completed", values{statistics.TimeExec: minute - 1})}, ShortJobs, "more to do"},
		"fewer than 1000": {Task{Statistics: jobs(999, "completed", values{statistics.TimeExec: 1})}, "", ""},
		"of a minute":     {Task{Statistics: jobs(1000, "completed", values{statistics.TimeExec: minute})}, "", ""},

		"aborted jobs ran for long":          {Task{Statistics: both(total(2, "aborted", 6*minute), total(1, "completed", 30*minute))}, LongAborted, "interruption_signal"},
		"aborted ones are a quarter of all":  {Task{Statistics: both(total(2, "aborted", 6*minute), total(1, "completed", 36*minute))}, "", ""},
		"aborted ones ran for ten minutes":   {Task{Statistics: total(1, "aborted", 10*minute)}, "", ""},
		"each tenth job was an overdraft":    {Task{Overdrafts: 10, Statistics: total(100, "completed", 1)}, ManyOverdrafts, "memory_reserve_factor"},
		"nine overdrafts":                    {Task{Overdrafts: 9, Statistics: total(10, "completed", 1)}, "", ""},
		"an overdraft among twenty is usual": {Task{Overdrafts: 10, Statistics: total(200, "completed", 1)}, "", ""},
	} {
		t.Run(story, func(t *testing.T) {
			test.task.Name = "main"
			alerts := Of([]Task{{Name: "other"}, test.task})
			switch {
			case test.want == "" && len(alerts) > 0:
				t.Errorf("got %+v, want none", alerts)
			case test.want != "" && (len(alerts) != 1 || alerts[0].Name != test.want || alerts[0].Task != "main"):
				t.Errorf("got %+v, want %s", alerts, test.want)
			case test.want != "" && !strings.Contains(alerts[0].Advice, test.wantAdvice):
				t.Errorf("advises %q, want %q in it", alerts[0].Advice, test.wantAdvice)
			}
		})
	}
}

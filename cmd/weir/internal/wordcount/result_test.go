package wordcount

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheckOfAResult(t *testing.T) {
	direct := Counts{"./a": 1, "./b": 2}
	good := map[int]string{0: "1 ./a\n", 1: "2 ./b\n"}
	well := Result{Jobs: 2, Completed: 2, State: completed, Leader: "r1", RunningAtKill: 1, Survived: 1, wantKill: true}
	for name, test := range map[string]struct {
		change   func(*Result)
		outputs  map[int]string
		want     []string
		wantLost int
	}{
		"all is well":            {func(*Result) {}, good, nil, 0},
		"without a kill":         {func(r *Result) { r.wantKill, r.Leader = false, "" }, good, nil, 0},
		"ended before the kill":  {func(r *Result) { r.Leader = "" }, good, []string{"the operation ended before its leader could be killed"}, 0},
		"the operation failed":   {func(r *Result) { r.State, r.Error = failed, "too many failed jobs" }, good, []string{"the operation is failed: too many failed jobs"}, 0},
		"a job is missing":       {func(*Result) {}, map[int]string{0: "1 ./a\n2 ./b\n"}, []string{"1 of 2 jobs left no output"}, 1},
		"a counter is wrong":     {func(r *Result) { r.Completed = 1 }, good, []string{"1 of 2 jobs are counted as completed"}, 0},
		"a running job was lost": {func(r *Result) { r.Survived = 0 }, good, []string{"1 of the 1 jobs that ran when the leader was killed did not complete"}, 0},
		"a word is missing":      {func(*Result) {}, map[int]string{0: "1 ./a\n", 1: "1 ./b\n"}, []string{"./b has 2 words, the job counted 1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			result := well
			test.change(&result)
			result.check(direct, test.outputs)
			if !slices.Equal(result.Differences, test.want) || result.Lost != test.wantLost {
				t.Errorf("%q, %d lost; want %q, %d", result.Differences, result.Lost, test.want, test.wantLost)
			}
		})
	}
}

func TestSummaryNamesWhatMatters(t *testing.T) {
	result := Result{Jobs: 64, Completed: 64, Aborted: 2, Failed: 1, Leader: "r2", CompletedAtKill: 32, RunningAtKill: 16, Survived: 16, Outage: 1234567 * time.Microsecond}
	var text strings.Builder
	for _, row := range result.Summary() {
		text.WriteString(row.Name + ": " + row.Value + "\n")
	}
	for _, want := range []string{"jobs: 64\n", "reruns: 3\n", "failed: 1\n", "aborted: 2\n", "leader killed: r2, with 32 jobs", "time without a leader: 1.235s\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}

func TestOutage(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, test := range map[string]struct {
		reads  []read
		want   time.Duration
		wantOK bool
	}{
		"nothing asked": {nil, 0, false},
		"only before":   {[]read{{at(-20), at(-10), true}}, 0, false},
		"before and after": {[]read{
			{at(-20), at(-10), true}, {at(-5), at(200), false}, {at(210), at(400), false}, {at(410), at(600), true}, {at(610), at(620), true},
		}, 610 * time.Millisecond, true},
		"one on its way when it happened": {[]read{{at(-20), at(-10), true}, {at(-5), at(1), true}, {at(10), at(100), true}}, 110 * time.Millisecond, true},
		"none before":                     {[]read{{at(10), at(100), true}}, 100 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := outage(start, test.reads)
			if got != test.want || ok != test.wantOK {
				t.Errorf("%v, %v; want %v, %v", got, ok, test.want, test.wantOK)
			}
		})
	}
}

package simulate

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// foretellable is a cluster where one operation comes after another in a FIFO pool, and then one to a
// pool whose starvation ends by preemption.
const foretellable = `
duration: 1h
options: {fair_share_starvation_timeout: 30s}
nodes: [{count: 4, cpu: 16, memory: 64GiB}]
pools: {in-turn: {mode: fifo}, late: null}
workloads:
  in-turn: {arrivals: {every: 5m, until: 20m}, jobs: 320, job: {cpu: 1, memory: 1GiB, length: {uniform: [2m, 3m]}}}
  late: {arrivals: {at: [40m]}, jobs: 100, job: {cpu: 1, memory: 1GiB, length: {uniform: [2m, 3m]}}}
`

// TestEstimatesAreMeasured (X11) compares estimates with what happens: they are good where operations
// wait for others in a FIFO pool, and asking does not change what happens.
func TestEstimatesAreMeasured(t *testing.T) {
	f := mustRead(t, foretellable, Changes{})
	silent := mustRun(t, f)
	f.Estimates = true
	r := mustRun(t, f)
	if again := mustRun(t, f); len(again.Estimates.Questions) != len(r.Estimates.Questions) || again.Estimates.First.ErrorP50 != r.Estimates.First.ErrorP50 {
		t.Errorf("equal runs differ: %+v and %+v", r.Estimates.First, again.Estimates.First)
	}
	first := r.Estimates.First
	t.Logf("first job: %+v; next job: %+v", first, r.Estimates.Next)
	if first.Judged < 100 || first.ErrorP50 > .2 || first.Within < .9 {
		t.Errorf("first job: %+v, want a median error of at most 20%%, and 9 of 10 in the range", first)
	}
	for _, q := range r.Estimates.Questions {
		if q.Started >= 0 && q.Started < q.Asked || q.By != "" && (q.Start < q.Earliest || q.Start > q.Latest) {
			t.Errorf("question %+v", q)
		}
	}
	r.Estimates = nil
	if got, want := summaryOf(t, r), summaryOf(t, silent); got != want {
		t.Errorf("with questions\n%s\nwithout\n%s", got, want)
	}
}

// summaryOf returns the exported figures of a run, apart from those of real time.
func summaryOf(t *testing.T, r *Result) string {
	t.Helper()
	r.Took = 0
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestForetold (X11) judges single estimates.
func TestForetold(t *testing.T) {
	q := func(start, earliest, latest, started time.Duration) Question {
		return Question{By: "jobs_that_end", Asked: 10 * time.Second, Start: start, Earliest: earliest, Latest: latest, Started: started, Ended: 100 * time.Second}
	}
	const s = time.Second
	for name, tc := range map[string]struct {
		of   Question
		want Foretold
	}{
		"right":                         {q(30*s, 20*s, 40*s, 30*s), Foretold{Told: 1, Judged: 1, Within: 1, Width: 1}},
		"late, in the range":            {q(30*s, 20*s, 60*s, 50*s), Foretold{Told: 1, Judged: 1, Within: 1, Width: 1, ErrorP50: .5, ErrorP90: .5, SecondsP50: 20, SecondsP90: 20}},
		"early, out of the range":       {q(30*s, 25*s, 35*s, 20*s), Foretold{Told: 1, Judged: 1, Width: 1, ErrorP50: 1, ErrorP90: 1, SecondsP50: 10, SecondsP90: 10}},
		"it does not wait for a second": {q(11*s, 10*s, 12*s, 10*s), Foretold{Told: 1, Judged: 1, Within: 1, Width: 2, ErrorP50: 1, ErrorP90: 1, SecondsP50: 1, SecondsP90: 1}},
		"not in the range, nor after":   {q(55*s, 50*s, 60*s, -1), Foretold{Told: 1, Judged: 1, Width: 10. / 90, ErrorP50: .5, ErrorP90: .5, SecondsP50: 45, SecondsP90: 45}},
		"it ended in the range":         {q(55*s, 50*s, 120*s, -1), Foretold{Told: 1}},
		"unknown":                       {Question{Verdict: "starts_soon", Started: 20 * s}, Foretold{Untold: map[string]int64{"starts_soon": 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := foretold([]Question{tc.of}, time.Second)
			if got.Asked != 1 || got.Told != tc.want.Told || got.Judged != tc.want.Judged || len(got.Untold) != len(tc.want.Untold) || got.Untold["starts_soon"] != tc.want.Untold["starts_soon"] {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			for i, pair := range [][2]float64{
				{got.Within, tc.want.Within}, {got.Width, tc.want.Width}, {got.ErrorP50, tc.want.ErrorP50}, {got.ErrorP90, tc.want.ErrorP90}, {got.SecondsP50, tc.want.SecondsP50}, {got.SecondsP90, tc.want.SecondsP90},
			} {
				if math.Abs(pair[0]-pair[1]) > 1e-9 {
					t.Errorf("figure %d is %v, want %v", i, pair[0], pair[1])
				}
			}
		})
	}
}

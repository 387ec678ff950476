package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/chaos"
	"weir/chaos/check"
	"weir/chaos/fault"
)

func TestChaosSummary(t *testing.T) {
	figures := check.Figures{
		Complete: true,
		Faults: []check.FaultFigures{
			{Kind: fault.Kill, Scope: fault.Leader, Count: 9, MedianGap: 1200 * time.Millisecond, WorstGap: 2350 * time.Millisecond},
			{Kind: fault.Pause, Scope: fault.Agent, Count: 3, Void: 1},
		},
		Submitted: 100, WorstGap: int64(2350 * time.Millisecond), Granted: 300, Stale: 2, Adopted: 5, Denied: 77, Operations: map[string]int{"completed": 90},
		Simulated: 1000, SimulatedJobs: 5000, SimulatedLost: 3,
	}
	var violations []check.Violation
	for i := range mostShown + 2 {
		violations = append(violations, check.Violation{Invariant: "S6", What: fmt.Sprint("cookie ", i)})
	}
	got := chaosSummary(figures, violations, 63*time.Second)
	for _, want := range []string{
		"FAULT  WHOM    TIMES  NO EFFECT  MEDIAN GAP  LONGEST GAP",
		"kill   leader      9          0      1.20 s       2.35 s",
		"pause  agent       3          1           -            -",
		"all    -          12          1           -       2.35 s",
		"took                                1m3s",
		"attempts that outlived their agent  5",
		"messages of stale leaders rejected  2",
		"operations failed                   0",
		"calls denied for lack of a right    77",
		"simulated nodes                     1000",
		"jobs completed by simulated nodes   5000",
		"jobs lost with simulated nodes      3",
		"nothing that a subject without the right asks for is ever done",
		"S6: cookie 0\n", "S6: cookie 9\n", "S6: and 2 more\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(got, "not checked") {
		t.Error("it says that something was not checked")
	}
	if strings.Contains(got, "cookie 10") || t.Failed() {
		t.Errorf("got\n%s", got)
	}
}

// What only the end tells is not checked when there was none.
func TestChaosSummaryOfHalfARun(t *testing.T) {
	got := chaosSummary(check.Figures{}, nil, time.Second)
	if strings.Contains(got, "with simulated nodes") {
		t.Error("it counts jobs of simulated nodes, of which there are none")
	}
	if checked := strings.Count(got, "not checked"); checked != 7 {
		t.Errorf("%d promises are not checked, want 7:\n%s", checked, got)
	}
}

func TestChaosProgress(t *testing.T) {
	got := strings.Join(progressLines(chaos.Progress{
		Faults: 3, Of: 8, ByKind: map[fault.Kind]int{fault.Cut: 1, fault.Kill: 2}, Active: []string{"cut r1"}, Leader: "r2", Leaderless: true,
		InProgress: 4, Jobs: 16, Submitted: 77, WorstGap: 1500 * time.Millisecond, SinceLast: 300 * time.Millisecond,
	}), "\n")
	want := `3/8 faults (kill 2, cut 1), now cut r1
leader none, 4 operations, 16 jobs
77 submitted, last 0.3 s ago, longest gap 1.5 s`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

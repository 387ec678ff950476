package check

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/chaos/history"
)

// good returns a run without a fault: submission m1 is operation o1 with two cookies;
// the first attempt of cookie 1 was lost and run again. m2 was aborted before it began.
func good() *history.Run {
	sight := func(what, job string, cookie, pid int, at int64) history.Sight {
		return history.Sight{What: what, Operation: "o1", Task: "t", Job: job, Cookie: cookie, Pid: pid, At: at}
	}
	return &history.Run{
		Calls: []history.Call{
			{Client: 1, What: history.Submit, Mutation: "m1", Called: 1, Returned: 9, Outcome: history.Unknown},
			{Client: 1, What: history.Submit, Mutation: "m1", Called: 10, Returned: 20, Outcome: history.OK, Operation: "o1"},
			{Client: 2, What: history.Submit, Mutation: "m2", Called: 11, Returned: 50, Outcome: history.OK, Operation: "o2"},
			{Client: 2, What: history.Abort, Mutation: "m2", Called: 51, Returned: 60, Outcome: history.OK, Operation: "o2"},
			{Client: 2, What: history.Submit, Mutation: "m3", Called: 61, Returned: 62, Outcome: history.Unknown},
		},
		Sights: []history.Sight{
			sight(history.Begin, "j0", 0, 10, 100), sight(history.Tick, "j0", 0, 10, 150), sight(history.End, "j0", 0, 10, 200),
			sight(history.Begin, "j1", 1, 11, 100), sight(history.Tick, "j1", 1, 11, 150),
			sight(history.Begin, "j2", 1, 12, 300), sight(history.End, "j2", 1, 12, 400),
		},
		Acts: []history.Act{
			{What: history.Leads, Leader: "r1", Term: 2, At: 1},
			{What: history.Inject, Fault: 1, Kind: "kill", Scope: "leader", Targets: []string{"r1"}, At: 120},
			{What: history.Leads, Leader: "r2", Term: 3, At: 130},
			{What: history.Heal, Fault: 1, At: 140},
			{What: history.Finish, At: 900},
		},
		Operations: []history.Operation{
			{
				ID: "o1", Mutation: "m1", State: "completed",
				Events: []history.Event{
					{State: "starting", Index: 1}, {State: "waiting_for_agent", Index: 2}, {State: "initializing", Index: 3}, {State: "initializing", Note: "reassigned", Index: 4},
					{State: "preparing", Index: 5}, {State: "pending", Index: 6}, {State: "materializing", Index: 7}, {State: "running", Index: 8},
					{State: "completing", Index: 9}, {State: "completed", Index: 10},
				},
				Tasks: []history.Task{{Name: "t", Total: 2, Completed: 2, Aborted: 1}},
				Jobs: []history.Job{
					{ID: "j2", Task: "t", Cookie: 1, Attempt: 1, State: "completed"},
					{ID: "j1", Task: "t", Cookie: 1, Attempt: 0, State: "aborted", Reason: "node_offline"},
					{ID: "j0", Task: "t", Cookie: 0, Attempt: 0, State: "completed"},
				},
			},
			{
				ID: "o2", Mutation: "m2", State: "aborted",
				Events: []history.Event{{State: "starting", Index: 3}, {State: "aborting", Index: 4}, {State: "aborted", Index: 5}},
			},
		},
		Grants: []history.Grant{
			{Operation: "o1", Task: "t", Cookie: 1, Attempt: 0, Job: "j1", Term: 2, Index: 9},
			{Operation: "o1", Task: "t", Cookie: 1, Attempt: 1, Job: "j2", Term: 3, Index: 4},
		},
	}
}

func TestChecks(t *testing.T) {
	o1 := func(r *history.Run) *history.Operation { return &r.Operations[0] }
	tests := map[string]struct {
		change func(*history.Run)
		// want is the invariant that is broken, and a part of what is said.
		want, says string
	}{
		"nothing is wrong": {change: func(*history.Run) {}},
		"an acknowledged operation is gone": {
			change: func(r *history.Run) { r.Operations = r.Operations[:1] }, want: "S1", says: "m2 is operation o2",
		},
		"a run that was broken off knows nothing of the end": {change: func(r *history.Run) { r.Acts, r.Operations = r.Acts[:3], nil }},
		"an unanswered submission was not made": {change: func(r *history.Run) {
			r.Calls = append(r.Calls, history.Call{What: history.Submit, Mutation: "m9", Outcome: history.Unknown})
		}},
		"an unanswered submission was made": {change: func(r *history.Run) {
			r.Operations = append(r.Operations, history.Operation{ID: "o3", Mutation: "m3", State: "aborted", Events: r.Operations[1].Events})
		}},
		"an unanswered submission was made twice": {
			change: func(r *history.Run) {
				for _, id := range []string{"o3", "o4"} {
					r.Operations = append(r.Operations, history.Operation{ID: id, Mutation: "m3", State: "aborted", Events: r.Operations[1].Events})
				}
			},
			want: "S2", says: "m3 became operations o3 and o4",
		},
		"a retry was answered with another operation": {
			change: func(r *history.Run) {
				r.Calls = append(r.Calls, history.Call{What: history.Submit, Mutation: "m1", Outcome: history.OK, Operation: "o2"})
			},
			want: "S2", says: "o1 and o2",
		},
		"an operation that nobody submitted": {change: func(r *history.Run) { o1(r).Mutation = "m0"; r.Calls = r.Calls[2:] }, want: "S2", says: `"m0"`},
		"a step is skipped": {
			change: func(r *history.Run) { o1(r).Events = slices.Delete(o1(r).Events, 4, 5) }, want: "S4", says: "from initializing to pending",
		},
		"the last state was not the last": {
			change: func(r *history.Run) {
				o1(r).Events = append(o1(r).Events, history.Event{State: "completed", Index: 11})
			},
			want: "S4", says: "after it was completed",
		},
		"events go back": {change: func(r *history.Run) { o1(r).Events[2].Index = 1 }, want: "S4", says: "index 1 after one with 2"},
		"the state is not that of the last event": {
			change: func(r *history.Run) { r.Operations[1].State = "completed" }, want: "S4", says: "last event says aborted",
		},
		"an unknown state":         {change: func(r *history.Run) { o1(r).Events[2].State = "asleep" }, want: "S4", says: "asleep"},
		"counters do not add up":   {change: func(r *history.Run) { o1(r).Tasks[0].Pending = 1 }, want: "S5", says: "2 jobs, but 1 pending"},
		"one attempt counts twice": {change: func(r *history.Run) { o1(r).Tasks[0].Aborted = 2 }, want: "S5", says: "2 attempts are counted as aborted, and there are 1"},
		"a completion counts twice": {
			change: func(r *history.Run) { o1(r).Jobs = append(o1(r).Jobs, o1(r).Jobs[0]) }, want: "S5", says: "completed by 2 attempts",
		},
		"a cookie is not done": {
			change: func(r *history.Run) {
				o1(r).Jobs = o1(r).Jobs[:2]
				o1(r).Tasks[0] = history.Task{Name: "t", Total: 2, Completed: 1, Pending: 1, Aborted: 1}
			},
			want: "S5", says: "cookie o1/t/0 was completed by 0 attempts",
		},
		"a completion that no witness saw": {
			change: func(r *history.Run) { r.Sights = slices.Delete(r.Sights, 2, 3) }, want: "S5", says: "which no witness saw end",
		},
		"a witness that failed": {
			change: func(r *history.Run) {
				o1(r).Jobs[1].State = "failed"
				o1(r).Tasks[0].Aborted, o1(r).Tasks[0].Failed = 0, 1
			}, want: "S5", says: "witnesses never do",
		},
		"two attempts at once": {change: func(r *history.Run) { r.Sights[5].At = 149 }, want: "S6", says: "attempt j2 (pid 12) began 0.000 s before attempt j1"},
		"one within another": {
			change: func(r *history.Run) { r.Sights[4].At = 500 }, want: "S6", says: "cookie o1/t/1",
		},
		"attempts that touch": {change: func(r *history.Run) { r.Sights[5].At = 150 }},
		"a lock that was held": {
			change: func(r *history.Run) {
				r.Sights = append(r.Sights, history.Sight{What: history.Locked, Operation: "o1", Task: "t", Cookie: 1, Job: "j2", Pid: 12, At: 300})
			},
			want: "S6", says: "found it locked",
		},
		"an attempt that was never granted": {
			change: func(r *history.Run) {
				r.Sights = append(r.Sights, history.Sight{What: history.Begin, Operation: "o1", Task: "t", Cookie: 0, Job: "j9", Pid: 19, At: 900})
			},
			want: "S7", says: "j9 (pid 19) began, and was never granted",
		},
		"an attempt that began twice": {
			change: func(r *history.Run) {
				r.Sights = append(r.Sights, history.Sight{What: history.Begin, Operation: "o1", Task: "t", Cookie: 0, Job: "j0", Pid: 19, At: 900})
			},
			want: "S7", says: "j0 began twice (pids 10 and 19)",
		},
		"an old attempt that begins after a new one": {
			change: func(r *history.Run) { r.Sights[3].At, r.Sights[4].At = 600, 700 }, want: "S7", says: "attempt j1 began after j2, which is attempt 1",
		},
		"a token that does not grow": {change: func(r *history.Run) { r.Grants[1].Term = 2 }, want: "S7", says: "has token 2:9, and attempt 1 (j2) after it 2:4"},
		"a token that does not grow with its index": {
			change: func(r *history.Run) { r.Grants[1].Term, r.Grants[1].Index = 2, 9 }, want: "S7", says: "2:9",
		},
		"something left": {change: func(r *history.Run) { r.Leftovers = []history.Leftover{{When: "stopped", What: "process 9"}} }, want: "S20", says: "process 9"},
		"a panic":        {change: func(r *history.Run) { r.LogLines = []history.LogLine{{Member: "r1", Text: "panic: oh"}} }, want: "S24", says: "r1: panic: oh"},
		"one that never ends": {
			change: func(r *history.Run) {
				r.Operations[1].State = "aborting"
				r.Operations[1].Events = r.Operations[1].Events[:2]
			},
			want: "L3", says: "o2 (m2) is still aborting",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run := good()
			test.change(run)
			violations := All(run)
			if test.want == "" {
				if len(violations) > 0 {
					t.Errorf("violations: %v", violations)
				}
				return
			}
			found := slices.ContainsFunc(violations, func(v Violation) bool { return v.Invariant == test.want && strings.Contains(v.What, test.says) })
			if !found {
				t.Errorf("violations %v, want %s: … %s …", violations, test.want, test.says)
			}
		})
	}
}

func TestEveryInvariantHasItsNumber(t *testing.T) {
	seen := make(map[string]bool)
	for _, invariant := range Invariants {
		if seen[invariant.Number] || invariant.Says == "" {
			t.Errorf("invariant %q is there twice, or says nothing", invariant.Number)
		}
		seen[invariant.Number] = true
	}
}

func TestFigures(t *testing.T) {
	run := good()
	f := Sum(run)
	if f.Submitted != 2 || f.Aborted != 1 || f.Unknown != 2 || f.LeaderChanges != 1 || f.Lost != 1 || f.Attempts != 3 {
		t.Errorf("figures: %+v", f)
	}
	if f.WorstGap != 30 || f.WorstGapAt != 20 {
		t.Errorf("worst gap %d at %d, want 30 at 20", f.WorstGap, f.WorstGapAt)
	}
	if want := map[[2]string]int{{"kill", "leader"}: 1}; !maps.Equal(f.Faults, want) {
		t.Errorf("faults %v, want %v", f.Faults, want)
	}
	if v := f.Vacuous(); len(v) > 0 {
		t.Errorf("vacuous: %v", v)
	}
	run.Acts = append(run.Acts, history.Act{What: history.Inject, Fault: 2, Error: "no such process"}, history.Act{What: history.Stall})
	if f := Sum(run); f.Void != 1 || f.Stalls != 1 || len(f.Vacuous()) != 1 {
		t.Errorf("figures of a run whose second fault did not take effect: %+v, vacuous %v", f, f.Vacuous())
	}
	run.Acts, run.Sights, run.Calls = run.Acts[:1], nil, nil
	if v := Sum(run).Vacuous(); len(v) != 3 {
		t.Errorf("a run without anything is vacuous because %v", v)
	}
}

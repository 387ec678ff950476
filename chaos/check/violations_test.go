package check

import (
	"slices"
	"strings"
	"testing"

	"weir/chaos/history"
	"weir/raftstore"
)

// checkCase is a change to the good run.
type checkCase struct {
	change func(*history.Run)
	// want is the invariant that is broken, "" for none, and says is a part of what is said.
	want, says string
}

// firstOf returns operation o1 of a run.
func firstOf(r *history.Run) *history.Operation { return &r.Operations[0] }

// checkAll changes the good run as each case says, and looks for the violation.
func checkAll(t *testing.T, cases map[string]checkCase) {
	t.Helper()
	for name, test := range cases {
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

// TestGoodRuns has runs that keep every promise.
func TestGoodRuns(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"nothing is wrong": {change: func(*history.Run) {}},
		"a run that was broken off knows nothing of the end": {change: func(r *history.Run) { r.Acts, r.Operations = r.Acts[:3], nil }},
		"an unanswered submission was not made": {change: func(r *history.Run) {
			r.Calls = append(r.Calls, history.Call{What: history.Submit, Mutation: "m9", Outcome: history.Unknown})
		}},
		"an unanswered submission was made": {change: func(r *history.Run) {
			r.Operations = append(r.Operations, history.Operation{ID: "o3", Mutation: "m3", State: "aborted", Events: r.Operations[1].Events})
		}},
		"attempts that touch":                         {change: func(r *history.Run) { r.Sights[5].At = 150 }},
		"a job that never ran there is granted again": {change: func(r *history.Run) { r.Entries = append(r.Entries, r.Entries[12]) }},
	})
}

// TestSubmissions has runs in which a submission is lost or is made twice.
func TestSubmissions(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"an acknowledged operation is gone": {
			change: func(r *history.Run) { r.Operations = r.Operations[:1] }, want: "S1", says: "m2 is operation o2",
		},
		"an unanswered submission was made twice": {
			change: func(r *history.Run) {
				for _, id := range []string{"o3", "o4"} {
					r.Operations = append(r.Operations, history.Operation{ID: id, Mutation: "m3", State: "aborted", Events: r.Operations[1].Events})
				}
			},
			want: "S2", says: "m3 became more than one operation: o3 and o4",
		},
		"a retry was answered with another operation": {
			change: func(r *history.Run) {
				r.Calls = append(r.Calls, history.Call{What: history.Submit, Mutation: "m1", Outcome: history.OK, Operation: "o2"})
			},
			want: "S2", says: "o1 and o2",
		},
		"an operation that nobody submitted": {change: func(r *history.Run) { firstOf(r).Mutation = "m0"; r.Calls = r.Calls[2:] }, want: "S2", says: `"m0"`},
	})
}

// TestStates has operations that went through states in an order that cannot be, or never end.
func TestStates(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"a step is skipped": {
			change: func(r *history.Run) { firstOf(r).Events = slices.Delete(firstOf(r).Events, 4, 5) }, want: "S4", says: "from initializing to pending",
		},
		"the last state was not the last": {
			change: func(r *history.Run) {
				firstOf(r).Events = append(firstOf(r).Events, history.Event{State: "completed", Index: 11})
			},
			want: "S4", says: "after it was completed",
		},
		"events go back": {change: func(r *history.Run) { firstOf(r).Events[2].Index = 1 }, want: "S4", says: "index 1 after one with 2"},
		"the state is not that of the last event": {
			change: func(r *history.Run) { r.Operations[1].State = "completed" }, want: "S4", says: "last event says aborted",
		},
		"an unknown state": {change: func(r *history.Run) { firstOf(r).Events[2].State = "asleep" }, want: "S4", says: "asleep"},
		"one that never ends": {
			change: func(r *history.Run) {
				r.Operations[1].State = "aborting"
				r.Operations[1].Events = r.Operations[1].Events[:2]
			},
			want: "L3", says: "o2 (m2) is still aborting",
		},
	})
}

// TestCounters has counters that are not the sum of the jobs.
func TestCounters(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"counters do not add up":   {change: func(r *history.Run) { firstOf(r).Tasks[0].Pending = 1 }, want: "S5", says: "counters do not add up: total 2, but pending 1"},
		"one attempt counts twice": {change: func(r *history.Run) { firstOf(r).Tasks[0].Aborted = 3 }, want: "S5", says: "3 attempts are counted as aborted, but there are 2"},
		"a completion counts twice": {
			change: func(r *history.Run) { firstOf(r).Jobs = append(firstOf(r).Jobs, firstOf(r).Jobs[0]) }, want: "S5", says: "completed by 2 attempts",
		},
		"a cookie is not done": {
			change: func(r *history.Run) {
				firstOf(r).Jobs = firstOf(r).Jobs[:3]
				firstOf(r).Tasks[0] = history.Task{Name: "t", Total: 2, Completed: 1, Pending: 1, Aborted: 2}
			},
			want: "S5", says: "cookie o1/t/0 was completed by 0 attempts",
		},
		"a completion that no witness saw": {
			change: func(r *history.Run) { r.Sights = slices.Delete(r.Sights, 2, 3) }, want: "S5", says: "but no witness recorded its end",
		},
		"a witness that failed": {
			change: func(r *history.Run) {
				firstOf(r).Jobs[1].State = "failed"
				firstOf(r).Tasks[0].Aborted, firstOf(r).Tasks[0].Failed = 1, 1
			}, want: "S5", says: "witnesses never fail",
		},
	})
}

// TestAttempts has attempts of a cookie that ran at once, twice, or in the wrong order.
func TestAttempts(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"two attempts at once": {change: func(r *history.Run) { r.Sights[5].At = 149 }, want: "S6", says: "attempt j2 (pid 12) began 0.000 s before attempt j1"},
		"one within another": {
			change: func(r *history.Run) { r.Sights[4].At = 500 }, want: "S6", says: "cookie o1/t/1",
		},
		"a lock that was held": {
			change: func(r *history.Run) {
				r.Sights = append(r.Sights, history.Sight{What: history.Locked, Operation: "o1", Task: "t", Cookie: 1, Job: "j2", Pid: 12, At: 300})
			},
			want: "S6", says: "found its lock held by another attempt",
		},
		"an attempt that was never granted": {
			change: func(r *history.Run) {
				r.Sights = append(r.Sights, history.Sight{What: history.Begin, Operation: "o1", Task: "t", Cookie: 0, Job: "j7", Pid: 19, At: 900})
			},
			want: "S7", says: "j7 (pid 19) began, but was never granted",
		},
		"an attempt that began twice": {
			change: func(r *history.Run) {
				r.Sights = append(r.Sights, history.Sight{What: history.Begin, Operation: "o1", Task: "t", Cookie: 0, Job: "j0", Pid: 19, At: 900})
			},
			want: "S7", says: "j0 began twice (pids 10 and 19)",
		},
		"an old attempt that begins after a new one": {
			change: func(r *history.Run) { r.Sights[3].At, r.Sights[4].At = 600, 700 }, want: "S7", says: "attempt j1 began after a later attempt, j2 (attempt 2)",
		},
	})
}

// TestTokens has fencing tokens that do not grow or that change.
func TestTokens(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"a token that does not grow": {
			change: func(r *history.Run) { firstOf(r).Jobs[0].Token = token(2, 20) }, want: "S7", says: "has token 3.13, but the later attempt 2 (j2) does not have a greater one: 2.20",
		},
		"a token that was seen while the job lived does not grow": {
			change: func(r *history.Run) { r.Grants[0].Token = token(3, 13) }, want: "S7", says: "attempt 0 (j1) has token 3.13, but the later attempt 1 (j9) does not have a greater one: 3.13",
		},
		"a token that changes": {
			change: func(r *history.Run) { firstOf(r).Jobs[2].Token = token(2, 10) }, want: "S7", says: "j1 had token 2.9 while it ran, but has 2.10 at the end",
		},
		"a plan is followed that is older than one seen before": {
			change: func(r *history.Run) { r.Entries[14].Plan = token(2, 99) }, want: "S7", says: "node n2: job j2: a plan with token 2.99 was followed, although 3.14 had been seen",
		},
		"a plan is older than what it grants": {
			change: func(r *history.Run) { r.Entries[3].Token = token(2, 10) }, want: "S7", says: "job j1: its grant has token 2.10, but the plan with the grant has an older one: 2.9",
		},
		"a node forgets which token was the highest": {
			change: func(r *history.Run) { r.Entries[7].Token = token(2, 9) }, want: "S7", says: "token 2.9 is recorded as the highest, but an earlier one is not lower: 2.9",
		},
	})
}

// TestGrants has journals of nodes that do not match what the cluster granted.
func TestGrants(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"a grant that the cluster does not know": {
			change: func(r *history.Run) { r.Entries[12].Job, r.Entries[13].Job = "j8", "j8" }, want: "S7", says: "job j8: the journal has it as attempt 1 of cookie o1/t/1, but the cluster has no such grant",
		},
		"a grant to another node": {
			change: func(r *history.Run) { firstOf(r).Jobs[1].Node = "n1" }, want: "S7", says: "node n2: job j9: the journal has it as attempt 1, but it was granted as attempt 1 to node n1",
		},
		"a grant of another attempt": {
			change: func(r *history.Run) { r.Entries[12].Attempt = 2 }, want: "S7", says: "the journal has it as attempt 2, but it was granted as attempt 1",
		},
		"a grant with another token": {
			change: func(r *history.Run) { r.Entries[2].Token = token(2, 7) }, want: "S7", says: "job j0: its order has token 2.7, but its grant has 2.8",
		},
		"a job that is granted to a node twice": {
			change: func(r *history.Run) { r.Entries = append(r.Entries, r.Entries[14]) }, want: "S7", says: "job j2 was granted a second time",
		},
		"a job that starts before its grant is on disk": {
			change: func(r *history.Run) { r.Entries[2], r.Entries[4] = r.Entries[4], r.Entries[2] }, want: "S7", says: "job j0 is starting, but the journal has no grant",
		},
		"a process that no journal knows": {
			change: func(r *history.Run) { r.Entries = r.Entries[:14] }, want: "S7", says: "j2 (pid 12) began, but the journal of n2, to which it was granted, has no grant of it",
		},
	})
}

// TestStatesThatDiffer has replicas of which one comes to another state than the others.
func TestStatesThatDiffer(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"another hash": {change: func(r *history.Run) { r.Hashes[2].Hash = "cc" }, want: "S25", says: "at index 8 the state of r1 has hash bb, that of r2 cc"},
		"no hash at a common index": {
			change: func(r *history.Run) {
				r.Hashes = append(r.Hashes, history.StateHash{Replica: "r3", Index: 5, Hash: "aa"})
			},
			want: "S25", says: "replica r3 has no hash of its state at index 8",
		},
		"no hash at all": {
			change: func(r *history.Run) { r.Hashes = append(r.Hashes, history.StateHash{Replica: "r3"}) },
			want:   "S25", says: "replica r3 has no hash of its state at index 8",
		},
		"a replica that stops": {
			change: func(r *history.Run) {
				r.LogLines = []history.LogLine{{Member: "r3", Text: "ended; last log lines: weir: " + raftstore.ErrDiverged.Error() + ": /data"}}
			},
			want: "S25", says: "r3 stopped",
		},
		"states are not compared": {change: func(r *history.Run) { r.Hashes = []history.StateHash{{Replica: "r1"}, {Replica: "r2"}} }},
	})
}

// TestLeftovers has members that leave something behind, or panic.
func TestLeftovers(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"something left": {change: func(r *history.Run) { r.Leftovers = []history.Leftover{{When: "stopped", What: "process 9"}} }, want: "S20", says: "process 9"},
		"a panic":        {change: func(r *history.Run) { r.LogLines = []history.LogLine{{Member: "r1", Text: "panic: oh"}} }, want: "S24", says: "r1: panic: oh"},
		"one that keeps what it had": {
			change: func(r *history.Run) { r.Held = []history.Held{{Who: "node n1", What: "job j0"}} }, want: "L3", says: "node n1 still has job j0",
		},
	})
}

package check

import (
	"testing"

	"weir/chaos/history"
)

// asks adds a call of swing or mallory to a run.
func asks(r *history.Run, user, right string, outcome history.Outcome, called, returned int64) {
	r.Asks = append(r.Asks, history.Ask{
		User: user, Replica: "r3", What: history.Update, Right: right, Pool: "p1", On: "o1", Outcome: outcome, Called: called, Returned: returned,
	})
}

// happens adds an event at index 25 with a user as its cause. Two submissions before and after it tell
// that it was between 80 and 110.
func happens(r *history.Run, user, kind string) {
	for i, mutation := range []string{"m7", "m8"} {
		called := int64(80 + 20*i)
		r.Calls = append(r.Calls, history.Call{Client: 1, What: history.Submit, Mutation: mutation, Called: called, Returned: called + 10, Outcome: history.OK, Operation: "of " + mutation})
		r.Operations = append(r.Operations, history.Operation{ID: "of " + mutation, Mutation: mutation, User: "client1", State: "aborted", Events: r.Operations[1].Events})
		r.Deeds = append(r.Deeds, history.Deed{User: "client1", Kind: "operation_accepted", Index: uint64(20 + 10*i), Operation: "of " + mutation, Pool: "p1"})
	}
	deed := history.Deed{User: user, Kind: kind, Index: 25, Operation: "o1", Pool: "p1"}
	if kind == "pool_changed" {
		deed.Operation = ""
	}
	r.Deeds = append(r.Deeds, deed)
}

// TestBreaches (T1) has users who got what they had no right to.
func TestBreaches(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"a stranger was served": {
			change: func(r *history.Run) { r.Asks[0].Outcome = history.OK }, want: "S23", says: "replica r1 did what user mallory asked for without the right manage on pool p1: abort o1",
		},
		"an operator's call": {
			change: func(r *history.Run) {
				r.Asks = append(r.Asks, history.Ask{User: "swing", What: history.Drain, Right: history.MayOperate, On: "n1", Called: 50, Returned: 51, Outcome: history.OK})
			},
			want: "S23", says: "user swing asked for without the right operate: drain n1",
		},
		"after the right was gone":            {change: func(r *history.Run) { asks(r, "swing", history.MayManage, history.OK, 76, 99) }, want: "S23", says: "user swing"},
		"before the right was there":          {change: func(r *history.Run) { asks(r, "swing", history.MayManage, history.OK, 2, 24) }, want: "S23", says: "user swing"},
		"a right that the others do not have": {change: func(r *history.Run) { asks(r, "swing", history.MayAdminister, history.OK, 50, 51) }, want: "S23", says: "administer"},
		"a right that was refused": {
			change: func(r *history.Run) {
				r.Turns = append(r.Turns, swings(true, history.Refused, 80, 81))
				asks(r, "swing", history.MayManage, history.OK, 90, 91)
			},
			want: "S23", says: "user swing",
		},
		"a call without an answer that nothing could make take effect": {
			change: func(r *history.Run) {
				fence := swings(false, history.OK, 82, 83)
				fence.Final = true
				r.Turns = append(r.Turns, swings(true, history.Unknown, 80, 81), fence)
				asks(r, "swing", history.MayManage, history.OK, 90, 91)
			},
			want: "S23", says: "user swing",
		},
		"a refused submission": {
			change: func(r *history.Run) {
				r.Asks = append(r.Asks, history.Ask{User: "swing", Replica: "r2", What: history.Submit, Right: history.MayUse, Pool: "p1", Mutation: "m9", Outcome: history.Refused})
				r.Operations = append(r.Operations, history.Operation{ID: "o9", Mutation: "m9", User: "swing", State: "aborted", Events: r.Operations[1].Events})
			},
			want: "S23", says: "replica r2 refused submission m9 of user swing, but it became operation o9",
		},
		"an event of a stranger": {
			change: func(r *history.Run) { happens(r, "mallory", "operation_state") }, want: "S23", says: "event operation_state at index 25, about o1, names user mallory",
		},
		"an event of a user without the right by then": {change: func(r *history.Run) { happens(r, "swing", "operation_suspended") }, want: "S23", says: "user swing"},
		"an event of a client elsewhere":               {change: func(r *history.Run) { happens(r, "client2", "job_stopping") }, want: "S23", says: "user client2"},
		"an event that is for operators":               {change: func(r *history.Run) { happens(r, "client1", "pool_changed") }, want: "S23", says: "the right operate"},
		"an answer without an operation": {
			change: func(r *history.Run) {
				r.Asks = append(r.Asks, history.Ask{User: "swing", What: history.Submit, Right: history.MayUse, Pool: "p1", Mutation: "m9", Called: 40, Returned: 41, Outcome: history.OK})
			},
			want: "S1", says: "user swing got the answer that m9 is an operation",
		},
	})
}

// TestNoBreaches (T1) has users whose rights changed at the time, or who had them.
func TestNoBreaches(t *testing.T) {
	checkAll(t, map[string]checkCase{
		"while the right is given":      {change: func(r *history.Run) { asks(r, "swing", history.MayManage, history.OK, 20, 26) }},
		"while the right is taken away": {change: func(r *history.Run) { asks(r, "swing", history.MayManage, history.OK, 74, 99) }},
		"over the whole time":           {change: func(r *history.Run) { asks(r, "swing", history.MayManage, history.OK, 1, 99) }},
		"a refusal although one may":    {change: func(r *history.Run) { asks(r, "swing", history.MayManage, history.Refused, 50, 51) }},
		"no answer":                     {change: func(r *history.Run) { asks(r, "mallory", history.MayManage, history.Unknown, 50, 51) }},
		"the right was not taken away": {change: func(r *history.Run) {
			r.Turns[4].Outcome = history.Refused
			asks(r, "swing", history.MayManage, history.OK, 90, 91)
		}},
		"nor known to be": {change: func(r *history.Run) {
			r.Turns[4].Outcome = history.Unknown
			asks(r, "swing", history.MayManage, history.OK, 90, 91)
		}},
		"an operator":           {change: func(r *history.Run) { asks(r, "dev", history.MayAdminister, history.OK, 90, 91) }},
		"an event of the owner": {change: func(r *history.Run) { happens(r, "client1", "job_stopping") }},
		"an event of a user who had lost": {change: func(r *history.Run) {
			r.Turns[4].Called, r.Turns[4].Returned = 79, 81
			happens(r, "swing", "operation_suspended")
		}},
		"a call without an answer may take effect after another took the right away": {change: func(r *history.Run) {
			r.Turns = append(r.Turns, swings(true, history.Unknown, 80, 81), swings(false, history.OK, 82, 83))
			asks(r, "swing", history.MayManage, history.OK, 90, 91)
		}},
		"by another way": {change: func(r *history.Run) {
			other := swings(true, history.OK, 60, 61)
			other.Way = history.ByACL
			r.Turns = append(r.Turns, other)
			asks(r, "swing", history.MayManage, history.OK, 90, 91)
		}},
		"a submission without an answer was made": {change: func(r *history.Run) {
			r.Asks = append(r.Asks, history.Ask{User: "swing", What: history.Submit, Right: history.MayUse, Pool: "p1", Mutation: "m9", Called: 40, Returned: 50, Outcome: history.Unknown})
			r.Operations = append(r.Operations, history.Operation{ID: "o9", Mutation: "m9", User: "swing", State: "aborted", Events: r.Operations[1].Events})
		}},
	})
}

// TestClock (T1) finds out when log entries were applied.
func TestClock(t *testing.T) {
	run := good()
	happens(run, "client1", "job_stopping")
	clock := newIndex(run).clock()
	for index, want := range map[uint64]span{
		1: {1, 20}, 2: {1, 50}, 3: {11, 50}, 4: {11, 90}, 20: {80, 90}, 25: {80, 110}, 30: {100, 110},
	} {
		if got := clock.when(index); got != want {
			t.Errorf("index %d: %v, want %v", index, got, want)
		}
	}
	if got := clock.when(31); got.from != 100 || got.to < 1<<62 {
		t.Errorf("after the last: %v", got)
	}
}

package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/chaos/fault"
	"weir/chaos/history"
	"weir/scheduling"
)

// good returns a run without a fault: submission m1 is operation o1 with two cookies;
// the first attempt of cookie 1 was lost and run again. m2 was aborted before it began. swing had
// rights in pool p1 for some time, mallory never had one.
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
				ID: "o1", Mutation: "m1", User: "client1", State: "completed",
				Events: []history.Event{
					{State: "starting", Index: 1}, {State: "waiting_for_agent", Index: 2}, {State: "initializing", Index: 3}, {State: "initializing", Note: "reassigned", Index: 4},
					{State: "preparing", Index: 5}, {State: "pending", Index: 6}, {State: "materializing", Index: 7}, {State: "running", Index: 8},
					{State: "completing", Index: 9}, {State: "completed", Index: 10},
				},
				Tasks: []history.Task{{Name: "t", Total: 2, Completed: 2, Aborted: 2}},
				Jobs: []history.Job{
					{ID: "j2", Task: "t", Cookie: 1, Attempt: 2, Node: "n2", State: "completed", Token: token(3, 14)},
					{ID: "j9", Task: "t", Cookie: 1, Attempt: 1, Node: "n2", State: "aborted", Reason: "node_offline", Token: token(3, 13)},
					{ID: "j1", Task: "t", Cookie: 1, Attempt: 0, Node: "n1", State: "aborted", Reason: "node_offline"},
					{ID: "j0", Task: "t", Cookie: 0, Attempt: 0, Node: "n1", State: "completed", Token: token(2, 8)},
				},
			},
			{
				ID: "o2", Mutation: "m2", User: "client2", State: "aborted",
				Events: []history.Event{{State: "starting", Index: 3}, {State: "aborting", Index: 4}, {State: "aborted", Index: 5}},
			},
		},
		Grants: []history.Grant{
			{Operation: "o1", Task: "t", Cookie: 1, Attempt: 0, Job: "j1", Token: token(2, 9)},
		},
		Entries: []history.Entry{
			{Node: "n1", What: history.Seen},
			{Node: "n1", What: history.Seen, Token: token(2, 9)},
			grantEntry("n1", "j0", 0, 0, token(2, 8), token(2, 9)),
			grantEntry("n1", "j1", 1, 0, token(2, 9), token(2, 9)),
			{Node: "n1", What: history.Starting, Job: "j0"}, {Node: "n1", What: history.Started, Job: "j0"},
			{Node: "n1", What: history.Woke},
			{Node: "n1", What: history.Seen, Token: token(3, 0)},
			{Node: "n1", What: history.Rejected, Token: token(2, 11), Seen: token(3, 0), From: "r1"},
			{Node: "n1", What: history.Exited, Job: "j0", State: "completed"},
			{Node: "n2", What: history.Woke},
			{Node: "n2", What: history.Seen, Token: token(3, 14)},
			grantEntry("n2", "j9", 1, 1, token(3, 13), token(3, 14)), {Node: "n2", What: history.Unstarted, Job: "j9"},
			grantEntry("n2", "j2", 1, 2, token(3, 14), token(3, 14)), {Node: "n2", What: history.Started, Job: "j2"},
		},
		Asks: []history.Ask{
			{User: "mallory", Replica: "r1", What: history.Abort, Right: history.MayManage, Pool: "p1", On: "o1", Called: 30, Returned: 31, Outcome: history.Refused, Denied: true},
			{User: "swing", Replica: "r2", What: history.Update, Right: history.MayManage, Pool: "p1", On: "o1", Called: 40, Returned: 45, Outcome: history.OK},
		},
		Turns: []history.Turn{
			{User: "dev", Rights: []string{history.MayOperate}, Way: "role", Give: true, Outcome: history.OK},
			{User: "client1", Rights: []string{history.MayUse}, Pool: "p1", Way: "first", Give: true, Outcome: history.OK},
			{User: "client2", Rights: []string{history.MayUse}, Pool: "p2", Way: "first", Give: true, Outcome: history.OK},
			swings(true, history.OK, 25, 35), swings(false, history.OK, 70, 75),
		},
		Deeds: []history.Deed{
			{User: "client1", Kind: "operation_accepted", Index: 1, Operation: "o1", Pool: "p1"},
			{User: "client2", Kind: "operation_accepted", Index: 3, Operation: "o2", Pool: "p2"},
			{User: "client2", Kind: "operation_state", Index: 4, Operation: "o2", Pool: "p2"},
			{User: "swing", Kind: "operation_updated", Index: 6, Operation: "o1", Pool: "p1"},
			{User: "dev", Kind: "pool_changed", Index: 7, Pool: "p1"},
		},
		Hashes: []history.StateHash{{Replica: "r1", Index: 5, Hash: "aa"}, {Replica: "r1", Index: 8, Hash: "bb"}, {Replica: "r2", Index: 8, Hash: "bb"}},
	}
}

// swings gives rights in pool p1 to swing as a member of group crew, or takes them away.
func swings(give bool, outcome history.Outcome, called, returned int64) history.Turn {
	return history.Turn{
		User: "swing", Rights: []string{history.MayUse, history.MayManage}, Pool: "p1", Way: "crew", Give: give, Outcome: outcome, Called: called, Returned: returned,
	}
}

func token(term, index uint64) scheduling.Token {
	return scheduling.Token{Term: term, Index: index}
}

func grantEntry(node, job string, cookie, attempt int, own, plan scheduling.Token) history.Entry {
	return history.Entry{
		Node: node, What: history.Granted, Operation: "o1", Task: "t", Job: job, Cookie: cookie, Attempt: attempt, Token: own, Plan: plan,
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
	if f.Granted != 4 || f.Stale != 1 || f.Adopted != 1 {
		t.Errorf("%d grants, %d stale, %d adopted; want 4, 1, 1", f.Granted, f.Stale, f.Adopted)
	}
	if f.Denied != 1 || f.Allowed != 1 || f.Turns != 2 || f.Deeds != 5 {
		t.Errorf("%d denied, %d allowed, %d turns, %d deeds; want 1, 1, 2, 5", f.Denied, f.Allowed, f.Turns, f.Deeds)
	}
	if f.Compared != 2 {
		t.Errorf("%d replicas compared, want 2", f.Compared)
	}
	if f.WorstGap != 30 || f.WorstGapAt != 20 {
		t.Errorf("worst gap %d at %d, want 30 at 20", f.WorstGap, f.WorstGapAt)
	}
	if v := f.Vacuous(); len(v) > 0 {
		t.Errorf("vacuous: %v", v)
	}
}

func TestVacuous(t *testing.T) {
	inject := func(r *history.Run, kind fault.Kind, scope fault.Scope, count int, err string) {
		for range count {
			r.Acts = append(r.Acts, history.Act{What: history.Inject, Fault: 100 + len(r.Acts), Kind: string(kind), Scope: string(scope), Error: err})
		}
	}
	for name, test := range map[string]struct {
		change func(*history.Run)
		want   string
	}{
		"all of it happened": {change: func(r *history.Run) {
			inject(r, fault.Kill, fault.Agent, 1, "")
			inject(r, fault.Late, fault.Leader, wellTried, "")
		}},
		"nobody was heard":                {func(r *history.Run) { r.Calls = nil }, "no submission"},
		"nobody was refused":              {func(r *history.Run) { r.Asks = r.Asks[1:] }, "nobody was refused"},
		"rights that came were of no use": {func(r *history.Run) { r.Asks = r.Asks[:1] }, "no user whose rights"},
		"rights stayed as they were":      {func(r *history.Run) { r.Turns = r.Turns[:3] }, "no right was given"},
		"the log of events was lost": {
			func(r *history.Run) {
				r.Acts = append(r.Acts, history.Act{What: history.Unread, Error: "index 7 is gone"})
			}, "the event log was not read to its end: index 7 is gone",
		},
		"journals were empty": {func(r *history.Run) { r.Entries = nil }, "no agent had a grant"},
		"a leader was killed and led on": {
			func(r *history.Run) { r.Acts = slices.Delete(r.Acts, 2, 3) }, "the leader never changed",
		},
		"only agents were pressed, and the leader led on": {change: func(r *history.Run) {
			r.Acts = r.Acts[:1]
			inject(r, fault.Pause, fault.Agent, 1, "")
		}},
		"an agent was paused, and nothing was lost": {
			func(r *history.Run) { inject(r, fault.Pause, fault.Agent, 1, ""); r.Operations = nil }, "no attempt was lost",
		},
		"agents were killed, and nothing was adopted": {
			func(r *history.Run) {
				inject(r, fault.Kill, fault.Agent, triedTwice, "")
				r.Entries = slices.Delete(r.Entries, 6, 7)
			}, "no attempt outlived its agent",
		},
		"an agent was killed once, and had nothing to leave": {change: func(r *history.Run) {
			inject(r, fault.Kill, fault.Agent, 1, "")
			r.Entries = slices.Delete(r.Entries, 6, 7)
		}},
		"leaders were late, and nobody minded": {
			func(r *history.Run) {
				inject(r, fault.Late, fault.Leader, wellTried, "")
				r.Entries[8].Seen = token(2, 11)
			}, "no agent rejected",
		},
		"a leader was late once, and came through": {change: func(r *history.Run) {
			inject(r, fault.Late, fault.Leader, 1, "")
			r.Entries[8].Seen = token(2, 11)
		}},
		"faults took no effect": {
			func(r *history.Run) { inject(r, fault.Kill, fault.Follower, 1, "no such process") }, "1 faults did not take effect, only 1 did",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := good()
			test.change(run)
			got := Sum(run).Vacuous()
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.want)) {
				t.Errorf("vacuous because %q, want %q", got, test.want)
			}
		})
	}
}

// Gaps are blamed on what was last done to a replica, or else to an agent.
func TestFaultFigures(t *testing.T) {
	const second = int64(time.Second)
	var acts []history.Act
	add := func(seq int, kind fault.Kind, scope fault.Scope, from, to int64, err string) {
		acts = append(acts, history.Act{What: history.Inject, Fault: seq, Kind: string(kind), Scope: string(scope), At: from * second, Error: err},
			history.Act{What: history.Heal, Fault: seq, At: to * second})
	}
	add(1, fault.Kill, fault.Leader, 10, 12, "")
	add(2, fault.Kill, fault.Agent, 11, 40, "")
	add(3, fault.Kill, fault.Leader, 50, 52, "")
	add(4, fault.Pause, fault.Leader, 60, 61, "no such process")
	add(5, fault.Kill, fault.Leader, 70, 71, "")
	var run history.Run
	run.Acts = acts
	for _, at := range []int64{9, 13, 20, 25, 51, 54, 60, 80} {
		run.Calls = append(run.Calls, history.Call{What: history.Submit, Outcome: history.OK, Returned: at * second})
	}
	want := []FaultFigures{
		{Kind: fault.Kill, Scope: fault.Agent, Count: 1, MedianGap: 5 * time.Second, WorstGap: 5 * time.Second},
		{Kind: fault.Kill, Scope: fault.Leader, Count: 3, MedianGap: 20 * time.Second, WorstGap: 26 * time.Second},
		{Kind: fault.Pause, Scope: fault.Leader, Void: 1},
	}
	if got := Sum(&run).Faults; !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/lifecycle"
)

// claimed is a full node of 4 slots on which a job of 2 slots of the operation late has
// a claim since now: greedy-003 and greedy-004 leave for it, until 15 s from now.
func claimed(t *testing.T) *drive {
	t.Helper()
	d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "waiting_for_resources_on_node_timeout": "10s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
	d.takes = time.Hour
	d.node("n", 4)
	for range 4 {
		d.tick(time.Second)
		if d.pending["greedy"]++; d.needs["greedy"].IsZero() {
			d.wants("greedy", "a", 1, slotsOf(1), nil)
		}
		must(t, d.SetDemand("greedy", "t", 0, d.pending["greedy"], slotsOf(1)))
		d.beat("n")
	}
	d.pending["greedy"] = 10
	must(t, d.SetDemand("greedy", "t", 0, 10, slotsOf(1)))
	d.wants("late", "b", 1, slotsOf(2), nil)
	for len(d.victims) == 0 {
		d.pass(time.Second, time.Second, "n")
	}
	d.wantVictims("greedy-004 preemption", "greedy-003 preemption")
	return d
}

func (d *drive) claims() []engine.ClaimView { return d.Snapshot().Claims }

func (d *drive) wantEnd(want engine.ClaimEnd) {
	d.t.Helper()
	facts, err := d.Facts("late")
	must(d.t, err)
	if facts.Ended.End != want || len(d.claims()) != 0 {
		d.t.Fatalf("the claim ended as %v, want %v; claims %+v", facts.Ended.End, want, d.claims())
	}
	must(d.t, invarianttest.Check(d.Engine))
}

// TestClaimHolds: what one victim leaves is nobody else's, and counts as usage of the
// beneficiary; when the other has gone too, its job starts, before all others.
func TestClaimHolds(t *testing.T) {
	d := claimed(t)
	s := d.Snapshot()
	if got := s.Operations[1]; got.Shares.Usage != slotsOf(2) || got.Tasks[0].Claimed != 1 || got.Tasks[0].Effective != 0 {
		t.Errorf("the beneficiary is %+v", got)
	}
	if got := s.Operations[0]; got.Shares.Usage != slotsOf(2) || got.Shares.Leaving != slotsOf(2) || got.Leaving != 2 || got.Allocations != 4 {
		t.Errorf("the one that gives is %+v", got)
	}
	if got := d.claims(); len(got) != 1 || got[0].Victims != 2 || !got[0].Expires.Equal(d.now.Add(25*time.Second)) {
		t.Errorf("claims %+v, want one until 10 s after the deadline of 15 s", got)
	}
	d.wants("thief", "c", 5, slotsOf(1), nil)
	d.end("greedy-004")
	if plan := d.beat("n"); len(plan.Starts) != 0 {
		t.Fatalf("started %v in what is held", plan.Starts)
	}
	d.end("greedy-003")
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"greedy": 2, "late": 1})
	d.wantEnd(engine.ClaimStarted)
}

// TestClaimsShareWhatIsLeft: the older claim takes what is left first, whosever victim it
// was; the younger one then waits for what the other one's victim leaves.
func TestClaimsShareWhatIsLeft(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.takes = time.Hour
	d.node("n", 4)
	d.tick(0)
	d.wants("greedy", "a", 8, slotsOf(1), nil)
	d.beat("n")
	d.wants("late", "b", 2, slotsOf(1), nil)
	for range 20 {
		d.pass(time.Second, time.Second, "n")
	}
	d.wantVictims("greedy-004 preemption", "greedy-003 preemption")
	d.takes = 0
	for _, job := range []scheduling.JobID{"greedy-003", "greedy-004"} {
		if got := len(d.claims()); got == 0 {
			t.Fatal("nothing is held for the jobs that wait")
		}
		delete(d.going, job)
		d.end(job)
		d.beat("n")
	}
	d.wantRuns(runs{"greedy": 2, "late": 2})
	d.wantVictims()
	d.wantEnd(engine.ClaimStarted)
}

// TestClaimEnds: then others get what was held.
func TestClaimEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		how  func(d *drive)
		want engine.ClaimEnd
	}{
		"no more jobs are wanted": {func(d *drive) { must(d.t, d.SetDemand("late", "t", 0, 0, slotsOf(2))) }, engine.ClaimUnwanted},
		"the operation is suspended": {func(d *drive) {
			op := d.record("late", "b", nil)
			op.Suspended = true
			must(d.t, d.SetOperation(op))
		}, engine.ClaimUnwanted},
		"the operation has gone": {func(d *drive) { must(d.t, d.RemoveOperation("late")) }, engine.ClaimUnwanted},
		"the operation may use the node no more": {func(d *drive) {
			must(d.t, d.SetOperation(d.record("late", "b", options{"scheduling_tag_filter": "gpu"})))
			d.beat("n")
		}, engine.ClaimUnwanted},
		"the node has gone": {func(d *drive) { must(d.t, d.RemoveNode("n")) }, engine.ClaimNodeLost},
		"victims outstay their time": {func(d *drive) {
			d.tick(25*time.Second - time.Millisecond)
			if len(d.claims()) != 1 {
				d.t.Fatal("the claim ended early")
			}
			d.tick(time.Millisecond)
		}, engine.ClaimExpired},
		"the node has shrunk": {func(d *drive) { d.node("n", 3) }, engine.ClaimUnmet},
	} {
		t.Run(name, func(t *testing.T) {
			d := claimed(t)
			tc.how(d)
			if name == "the operation has gone" {
				if len(d.claims()) != 0 {
					t.Fatalf("claims %+v", d.claims())
				}
				return
			}
			d.wantEnd(tc.want)
		})
	}
}

// TestClaimOfOtherNeeds: memory that is learned meanwhile changes what is held.
func TestClaimOfOtherNeeds(t *testing.T) {
	d := claimed(t)
	must(t, d.SetDemand("late", "t", 0, 1, slotsOf(1)))
	if got := d.claims(); len(got) != 1 || got[0].Resources != slotsOf(1) {
		t.Fatalf("claims %+v", got)
	}
	must(t, invarianttest.Check(d.Engine))
}

// TestStay: orders that were not committed are taken back, and the claim with the last.
func TestStay(t *testing.T) {
	d := claimed(t)
	// Committed ones do not stay.
	d.Stay("greedy-004")
	if len(d.claims()) != 1 || d.claims()[0].Victims != 2 {
		t.Fatalf("claims %+v", d.claims())
	}
	d = planned(t)
	d.Stay("greedy-004")
	d.Stay("greedy-004")
	d.Stay("nobody")
	// The other one alone does not make room.
	d.wantEnd(engine.ClaimUnmet)
	d.Stay("greedy-003")
	must(t, invarianttest.Check(d.Engine))
	if got := d.Snapshot().Operations[0]; got.Shares.Usage != slotsOf(4) || got.Leaving != 0 {
		t.Errorf("the operation is %+v", got)
	}
	// It is tried again.
	d.tick(time.Second)
	if plan := d.Heartbeat(d.now.Add(10*time.Second), []scheduling.NodeID{"n"}); len(plan.Preempts) != 2 {
		t.Errorf("preempted %v", plan.Preempts)
	}
}

// planned is claimed, and the order to the victims is not committed.
func planned(t *testing.T) *drive {
	t.Helper()
	d := claimed(t)
	e := newDrive(t, options{"fair_share_starvation_timeout": "5s", "waiting_for_resources_on_node_timeout": "10s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
	e.node("n", 4)
	e.wants("greedy", "a", 10, slotsOf(1), nil)
	e.wants("late", "b", 1, slotsOf(2), nil)
	for _, job := range []scheduling.JobID{"greedy-001", "greedy-002", "greedy-003", "greedy-004"} {
		must(t, e.AddAllocation(d.running[job]))
	}
	e.now = d.now
	e.tick(0)
	e.tick(6 * time.Second)
	if plan := e.Heartbeat(e.now, []scheduling.NodeID{"n"}); len(plan.Preempts) != 2 {
		t.Fatalf("preempted %v", plan.Preempts)
	}
	return e
}

// TestClaimAfterFailover: a new engine makes claims again of the orders to leave, one for
// all victims of a job and one for each job.
func TestClaimAfterFailover(t *testing.T) {
	d := claimed(t)
	d.pending["late"] = 1
	e := newDrive(t, options{"waiting_for_resources_on_node_timeout": "10s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
	e.wants("greedy", "a", 10, slotsOf(1), nil)
	e.wants("late", "b", 1, slotsOf(2), nil)
	for _, h := range d.Holdings() {
		must(t, e.AddAllocation(h.Allocation))
		if h.Leaving {
			must(t, e.Leave(h.Job, engine.LeaveOrder{Ordered: d.now, Deadline: h.Deadline, Kind: h.Kind, For: h.For}))
		}
	}
	e.node("n", 4)
	want, got := d.claims(), e.claims()
	if len(got) != 1 || got[0] != want[0] {
		t.Fatalf("claims %+v, want %+v", got, want)
	}
	must(t, invarianttest.Check(e.Engine))
	// The same event again changes nothing.
	must(t, e.Leave("greedy-004", engine.LeaveOrder{Ordered: d.now, Deadline: d.now.Add(15 * time.Second), Kind: lifecycle.Preemption, For: want[0].Beneficiary}))
	if got := e.claims(); len(got) != 1 || got[0] != want[0] {
		t.Fatalf("claims %+v, want %+v", got, want)
	}
	e.now = d.now
	e.tick(time.Second)
	must(t, e.RemoveAllocation("greedy-003"))
	must(t, e.RemoveAllocation("greedy-004"))
	if plan := e.beat("n"); len(plan.Starts) != 1 || plan.Starts[0].Operation != "late" || len(plan.Preempts) != 0 {
		t.Errorf("planned %+v", plan)
	}
	if err := e.Leave("nobody", engine.LeaveOrder{}); err == nil {
		t.Error("a job that is not there leaves")
	}
}

// TestClaimOfALostStart: the start of a claim that is not committed does not lose what was
// held for it.
func TestClaimOfALostStart(t *testing.T) {
	d := claimed(t)
	d.end("greedy-003")
	d.end("greedy-004")
	plan := d.Heartbeat(d.now, []scheduling.NodeID{"n"})
	if len(plan.Starts) != 1 {
		t.Fatalf("started %v", plan.Starts)
	}
	must(t, d.Reject(plan.Starts[0].Ticket))
	must(t, invarianttest.Check(d.Engine))
	if got := d.claims(); len(got) != 1 {
		t.Fatalf("claims %+v", got)
	}
	d.beat("n")
	d.wantRuns(runs{"greedy": 2, "late": 1})
}

// TestLeavingForOtherCauses: a job that a user or a drain wants to go counts no more as
// usage, is no victim, and nobody has a claim on what it leaves. The earlier deadline
// holds.
func TestLeavingForOtherCauses(t *testing.T) {
	d := twoPools(t, options{"fair_share_starvation_timeout": "5s"}, nil, nil, nil)
	must(t, d.Leave("greedy-004", engine.LeaveOrder{Ordered: d.now, Deadline: d.now.Add(time.Hour)}))
	must(t, d.Leave("greedy-004", engine.LeaveOrder{Ordered: d.now, Deadline: d.now.Add(time.Minute)}))
	must(t, d.Leave("greedy-004", engine.LeaveOrder{Ordered: d.now, Deadline: d.now.Add(2 * time.Minute)}))
	h, ok := d.Holding("greedy-004")
	if !ok || !h.Leaving || !h.Deadline.Equal(d.now.Add(time.Minute)) || h.Kind != lifecycle.NotPreempted {
		t.Fatalf("holding %+v", h)
	}
	d.pass(20*time.Second, time.Second, "n")
	d.wantVictims("greedy-003 preemption")
}

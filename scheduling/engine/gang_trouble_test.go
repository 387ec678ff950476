package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/invarianttest"
	"weir/scheduling/resource"
)

// TestGangRefused: when a start is refused, and so all of them, the gang waits a little
// and starts again.
func TestGangRefused(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}})
	d.node("n", 4)
	d.gang("gang", "a", 3, slotsOf(1))
	d.tick(time.Second)
	for _, s := range d.Heartbeat(d.now, ids("n")).Starts {
		must(t, d.Reject(s.Ticket))
	}
	if got := d.claims(); len(got) != 0 {
		t.Errorf("room is held for what was refused: %+v", got)
	}
	if plan := d.beat("n"); len(plan.Starts) != 0 {
		t.Errorf("started %+v at once", plan.Starts)
	}
	d.pass(2*time.Second, time.Second, "n")
	d.wantRuns(runs{"gang": 3})
}

// TestGangTakesWhatARefusedStartHeld: the start of a job in reserve, for which room was held,
// is refused after the only rank has been lost. The gang gathers that room.
func TestGangTakesWhatARefusedStartHeld(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "5s", "allocation_preemption_timeout": "20s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.takes = 10 * time.Second
	d.node("n", 4)
	d.wants("greedy", "a", 10, slotsOf(1), nil)
	d.tick(time.Second)
	d.beat("n")
	d.gang("gang", "b", 1, slotsOf(1))
	d.pending["gang"] = 2
	must(t, d.SetDemand("gang", "t", 0, 2, slotsOf(1)))
	for tries := 0; d.runs()["gang"] == 0 || len(d.claims()) == 0; tries++ {
		if d.pass(time.Second, time.Second, "n"); tries > 60 {
			t.Fatal("nobody goes for the job in reserve")
		}
	}
	d.now = d.now.Add(d.takes)
	d.leave()
	plan := d.Heartbeat(d.now, ids("n"))
	if len(plan.Starts) != 1 || plan.Starts[0].Operation != "gang" {
		t.Fatalf("%+v start, want the job in reserve", plan.Starts)
	}
	for job, a := range maps.Clone(d.running) {
		if a.Operation == "gang" {
			d.end(job)
		}
	}
	must(t, d.Reject(plan.Starts[0].Ticket))
	must(t, invarianttest.Check(d.Engine))
	if g := d.viewOf("gang"); g.Missing != 1 || g.Gathered != 1 {
		t.Errorf("the gang is %+v, want 1 of 1 gathered", g)
	}
	d.beat("n")
	if got := d.runs()["gang"]; got != 1 {
		t.Errorf("%d jobs of the gang run, want its rank", got)
	}
}

// TestGangLosesWhatItHolds: a node that is drained is of no use, nor are jobs that are
// wanted no more.
func TestGangLosesWhatItHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		how  func(d *drive)
		want int64
	}{
		"a node is drained":       {func(d *drive) { must(d.t, d.SetNode("n1", slotsOf(4), false)) }, 0},
		"a node has gone":         {func(d *drive) { must(d.t, d.RemoveNode("n1")) }, 0},
		"a node is smaller":       {func(d *drive) { must(d.t, d.SetNode("n1", slotsOf(3), true)) }, 3},
		"fewer jobs are wanted":   {func(d *drive) { must(d.t, d.SetDemand("gang", "t", 0, 5, slotsOf(1))) }, 0},
		"jobs need more":          {func(d *drive) { must(d.t, d.SetDemand("gang", "t", 0, 6, slotsOf(2))) }, 2},
		"the operation suspends":  {func(d *drive) { op := d.record("gang", "a", nil); op.Suspended = true; must(d.t, d.SetOperation(op)) }, 0},
		"the operation has ended": {func(d *drive) { must(d.t, d.RemoveOperation("gang")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.node("n1", 4)
			d.node("n2", 12)
			d.wants("full", "b", 12, slotsOf(1), nil)
			d.tick(time.Second)
			d.beat("n2")
			d.gang("gang", "a", 6, slotsOf(1))
			d.tick(time.Second)
			d.beat("n1")
			if got := d.viewOf("gang").Gathered; got != 4 {
				t.Fatalf("room is held for %d jobs, want 4", got)
			}
			tc.how(d)
			d.tick(time.Second)
			d.beat("n1", "n2")
			if got := len(d.claims()); int64(got) != tc.want {
				t.Errorf("room is held for %d jobs, want %d", got, tc.want)
			}
		})
	}
}

// TestGangOfGroups: a gang of which some jobs get memory of their own starts whole.
func TestGangOfGroups(t *testing.T) {
	d := newDrive(t, nil, nil)
	must(t, d.SetNode("n1", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 100}, true))
	must(t, d.SetNode("n2", resource.Amounts{UserSlots: 9, CPU: 900, Memory: 60}, true))
	d.gang("gang", "<Root>", 4, learned(20))
	must(t, d.SetDemand("gang", "t", 0, 2, learned(20)))
	must(t, d.SetDemand("gang", "t", 60, 2, learned(60)))
	d.tick(time.Second)
	groups := map[int64]int{}
	for _, s := range d.beat("n1", "n2").Starts {
		groups[s.Group]++
	}
	if groups[0] != 2 || groups[60] != 2 {
		t.Errorf("started by group %v, want 2 of each", groups)
	}
}

// TestGangAfterChangeOfLeader: room for which others have been told to leave is held by a
// new engine too, and none of the jobs starts alone.
func TestGangAfterChangeOfLeader(t *testing.T) {
	d := three(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1h"})
	d.takes = time.Hour
	d.pass(5*time.Second, time.Second, "n1", "n2", "n3")
	again := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	again.now = d.now
	for _, n := range []scheduling.NodeID{"n1", "n2", "n3"} {
		again.node(n, 4)
	}
	for _, op := range d.Snapshot().Operations {
		must(t, again.AddOperation(op.Operation))
	}
	again.gang("gang2", "b", 1, slotsOf(9))
	must(t, again.SetTaskGang("gang", "t", engine.Gang{Size: 6}))
	must(t, again.SetDemand("gang", "t", 0, 6, slotsOf(1)))
	for _, h := range d.Holdings() {
		must(t, again.AddAllocation(h.Allocation))
	}
	leaving := 0
	for _, h := range d.Holdings() {
		if h.Leaving {
			leaving++
			must(t, again.Leave(h.Job, engine.LeaveOrder{Ordered: d.victims[0].Reason.Since, Deadline: h.Deadline, Kind: h.Kind, For: h.For}))
		}
	}
	if g := again.viewOf("gang"); leaving != 3 || g.Gathered != 3 {
		t.Fatalf("the gang is %+v, for which %d leave; want one on each node", g, leaving)
	}
	for _, h := range d.Holdings() {
		if h.Leaving {
			must(t, again.RemoveAllocation(h.Job))
		}
	}
	again.tick(time.Second)
	if plan := again.beat("n1", "n2", "n3"); len(plan.Starts) != 0 {
		t.Errorf("started %+v of a gang of 6", plan.Starts)
	}
}

// TestGangsNeverDeadlock: gangs, each of which fits by itself, among small jobs, with jobs
// of all that end now and then and proposals that are refused: every gang starts, whole, and
// what is said of it until then makes sense.
func TestGangsNeverDeadlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
		d.takes = time.Second
		pools := rapid.SampledFrom([]scheduling.PoolName{"a", "b", "c"})
		nodes, slots := []scheduling.NodeID{}, rapid.Int64Range(2, 4).Draw(t, "slots of a node")
		for i := range rapid.IntRange(2, 4).Draw(t, "nodes") {
			nodes = append(nodes, scheduling.NodeID(fmt.Sprint("n", i)))
			d.node(nodes[i], slots)
		}
		d.wants("small", pools.Draw(t, "pool of small jobs"), rapid.Int64Range(0, 40).Draw(t, "small jobs"), slotsOf(1), nil)
		waiting := map[scheduling.OperationID]bool{}
		for i := range rapid.IntRange(2, 4).Draw(t, "gangs") {
			id, needs := scheduling.OperationID(fmt.Sprint("gang", i)), rapid.Int64Range(1, slots).Draw(t, "slots of a job")
			d.gang(id, pools.Draw(t, "pool"), rapid.Int64Range(1, int64(len(nodes))*(slots/needs)).Draw(t, "size"), slotsOf(needs))
			waiting[id] = true
		}
		ends := map[scheduling.JobID]time.Time{}
		for len(waiting) > 0 {
			if d.now.After(begin.Add(time.Hour)) {
				t.Fatalf("gangs %v do not start in an hour", slices.Sorted(maps.Keys(waiting)))
			}
			d.tick(time.Second)
			for _, s := range d.beat(nodes...).Starts {
				delete(waiting, s.Operation)
			}
			if d.now.Unix()%8 == 0 { // To explain takes far longer than to schedule.
				for _, id := range slices.Sorted(maps.Keys(waiting)) {
					d.wantSense(id)
				}
			}
			for _, job := range slices.Sorted(maps.Keys(d.running)) {
				if ends[job].IsZero() {
					ends[job] = d.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "lives")) * time.Second)
				}
				if _, leaves := d.going[job]; !leaves && ends[job].Before(d.now) {
					d.finish(job)
				}
			}
		}
	})
}

// finish has a job end for good; of small ones another follows, for some time.
func (d *drive) finish(job scheduling.JobID) {
	id := d.running[job].Operation
	delete(d.running, job)
	must(d.t, d.RemoveAllocation(job))
	if id == "small" && d.now.Before(begin.Add(10*time.Minute)) {
		d.pending[id]++
		must(d.t, d.SetDemand(id, "t", 0, d.pending[id], d.needs[id]))
	}
}

// wantSense wants a start that is foretold of an operation to be to come, and to have a way,
// and all facts to have a text.
func (d *drive) wantSense(id scheduling.OperationID) {
	d.t.Helper()
	x, err := d.Explain(id, d.now)
	must(d.t, err)
	mute := func(f explain.Fact) bool { return f.Text == "" }
	if x.Start.IsZero() != (x.StartBy == "") || !x.Start.IsZero() && x.Start.Before(d.now) || slices.ContainsFunc(x.Facts, mute) {
		d.t.Fatalf("at %v it starts at %v %q; %s", d.now, x.Start, x.StartBy, textOf(x))
	}
}

// TestGangsThatCannotStartYet do not gather, whatever else has changed since the last update.
func TestGangsThatCannotStartYet(t *testing.T) {
	// As of the last update no node can hold their jobs. One has come since.
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}})
	d.gang("one", "a", 2, slotsOf(4))
	d.gang("two", "a", 2, slotsOf(4))
	d.tick(time.Second)
	d.node("n", 8)
	d.beat("n")
	if g := d.viewOf("one"); !g.Until.IsZero() || len(d.runs()) > 0 {
		t.Errorf("gathers: %+v; running %v", g, d.runs())
	}
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"one": 2})

	// The operation before them has all that is due to the pool.
	d = newDrive(t, options{"max_schedulable_element_count_in_fifo_pool": 1.0}, map[scheduling.PoolName]pool{"a": {options: options{"mode": "fifo"}}})
	d.node("n", 8)
	d.wants("first", "a", 1000, slotsOf(1), nil)
	d.gang("one", "a", 2, slotsOf(4))
	d.gang("two", "a", 2, slotsOf(4))
	for second := range 300 {
		d.pass(time.Second, time.Second, "n")
		d.wantRuns(runs{"first": 8})
		d.kill("first", 1)
		d.pending["first"]++
		for _, id := range []scheduling.OperationID{"one", "two"} {
			// One may have begun before the first update.
			if g := d.viewOf(id); second > 65 && !g.Until.IsZero() {
				t.Fatalf("%s gathers after %d s: %+v", id, second, g)
			}
		}
	}
}

// TestGangWithTooLittleGivesItBack when its time is over, although jobs that were told to leave for it have long to go.
func TestGangWithTooLittleGivesItBack(t *testing.T) {
	d := newDrive(t, soon(options{"gang_timeout": "20s"}), map[scheduling.PoolName]pool{
		"a": {options: options{"weight": 0.1}}, "b": {options: options{"weight": 10.0}}, "c": {options: options{"allow_normal_preemption": false}},
	})
	nodes := []scheduling.NodeID{"n1", "n2", "n3"}
	for _, n := range nodes {
		d.node(n, 4)
	}
	d.wants("kept", "c", 7, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, nodes...)
	d.wants("slow", "a", 5, slotsOf(1), options{"allocation_preemption_timeout": "10m"})
	d.pass(2*time.Second, time.Second, nodes...)
	d.takes = 10 * time.Minute
	d.gang("gang", "b", 6, slotsOf(1))
	held := 0
	for range 15 {
		d.pass(time.Second, time.Second, nodes...)
		held = max(held, len(d.claims()))
	}
	if held == 0 || held == 6 {
		t.Fatalf("room was held for %d jobs: nothing is tested", held)
	}
	d.pass(30*time.Second, time.Second, nodes...)
	if n := len(d.claims()); n > 0 {
		t.Errorf("room is held for %d jobs of a gang of 6 that cannot start", n)
	}
}

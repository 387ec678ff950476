package engine_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// TestNoAllocation: an update, and a look at nodes on which nothing can start, take no
// memory, with limits and filters as well.
func TestNoAllocation(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{
		"a": {options: options{"resource_limits": options{"user_slots": 3.0}}}, "b": {options: options{"scheduling_tag_filter": "gpu"}}, "c": {options: options{"mode": "fifo"}},
	})
	nodes := []scheduling.NodeID{"n1", "n2"}
	w.node("n1", 8)
	w.node("n2", 8, "gpu")
	for i := range 6 {
		w.operation(scheduling.OperationID(fmt.Sprint("o", i)), scheduling.PoolName("abc"[i%3:i%3+1]), 100, nil)
	}
	w.tick(0)
	w.starts(nodes...)
	if got := testing.AllocsPerRun(100, func() {
		w.tick(time.Millisecond)
		if plan := w.Heartbeat(w.now, nodes); len(plan.Starts) > 0 {
			t.Fatalf("%d jobs start", len(plan.Starts))
		}
	}); got > 0 {
		t.Errorf("%v allocations a round", got)
	}
}

// TestNoAllocationOfStarts: jobs that end, and others that start in their place, take no
// memory either.
func TestNoAllocationOfStarts(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	w.node("n", 8)
	w.operation("o1", "a", 1<<40, nil)
	w.operation("o2", "b", 1<<40, nil)
	jobs := []scheduling.JobID{"1", "2", "3", "4", "5", "6", "7", "8"}
	nodes := []scheduling.NodeID{"n"}
	round := func() {
		w.tick(time.Millisecond)
		plan := w.Heartbeat(w.now, nodes)
		if len(plan.Starts) != len(jobs) {
			t.Fatalf("%d jobs start", len(plan.Starts))
		}
		for i, s := range plan.Starts {
			must(t, w.Commit(s.Ticket, jobs[i], w.now))
		}
		for _, job := range jobs {
			must(t, w.RemoveAllocation(job))
		}
	}
	round()
	if got := testing.AllocsPerRun(100, round); got > 0 {
		t.Errorf("%v allocations a round", got)
	}
}

// TestNoAllocationOfPreemption: neither do jobs that are preempted, and their claims; nor
// looks for victims that find none.
func TestNoAllocationOfPreemption(t *testing.T) {
	tree := options{"fair_share_starvation_timeout": "0s", "preemptive_scheduling_backoff": "0s", "preemption_satisfaction_threshold": 0.5, "aggressive_preemption_satisfaction_threshold": 0.1}
	w := newWorld(t, tree, map[scheduling.PoolName]pool{"a": {options: options{"preemption_rate_limit": 1000000.0}}, "b": {}})
	w.node("n", 8)
	w.operation("greedy", "a", 100, nil)
	w.operation("late", "b", 100, nil)
	for i := range 8 {
		must(t, w.AddAllocation(engine.Allocation{
			Job: scheduling.JobID(fmt.Sprint("g", i)), Operation: "greedy", Task: "t", Node: "n", Resources: resource.Amounts{UserSlots: 1, CPU: 100}, Started: begin}))
	}
	nodes := []scheduling.NodeID{"n"}
	w.tick(0)
	w.tick(time.Second)
	w.tick(time.Second)
	round := func() {
		w.now = w.now.Add(time.Second)
		plan := w.Heartbeat(w.now, nodes)
		if len(plan.Preempts) != 1 {
			t.Fatalf("preempted %v", plan.Preempts)
		}
		w.Stay(plan.Preempts[0].Job)
	}
	round()
	if got := testing.AllocsPerRun(100, round); got > 0 {
		t.Errorf("%v allocations a preemption", got)
	}
}

// TestNoAllocationOfGangs: neither do gangs that wait, within reach or not.
func TestNoAllocationOfGangs(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	nodes := []scheduling.NodeID{"n1", "n2"}
	d.node("n1", 4)
	d.node("n2", 4)
	d.wants("long", "a", 6, slotsOf(1), nil)
	d.pass(time.Second, time.Second, nodes...)
	for i := range 5 {
		d.gang(scheduling.OperationID(fmt.Sprint("large", i)), "b", int64(50+i), slotsOf(1))
	}
	d.gang("gang", "b", 6, slotsOf(1))
	d.pass(2*time.Second, time.Second, nodes...)
	if g := d.viewOf("gang"); g.Gathered != 2 {
		t.Fatalf("the gang is %+v, want one that gathers", g)
	}
	if got := testing.AllocsPerRun(100, func() {
		d.tick(time.Millisecond)
		if plan := d.Heartbeat(d.now, nodes); len(plan.Starts) > 0 {
			t.Fatalf("%d jobs start", len(plan.Starts))
		}
	}); got > 0 {
		t.Errorf("%v allocations a round", got)
	}
}

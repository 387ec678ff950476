package engine_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
)

// kept is a full node of 8 slots of small jobs, when a large one of another pool comes, to
// which it is due. Nobody starves. The last slot of the small jobs has just come free.
func kept(t *testing.T, tree options, pools map[scheduling.PoolName]pool) *drive {
	t.Helper()
	if pools == nil {
		pools = map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}}
	}
	d := newDrive(t, calm(tree), pools)
	d.node("n", 8)
	d.wants("small", "a", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n")
	d.wantRuns(runs{"small": 8})
	d.wants("large", "b", 1, slotsOf(3), nil)
	d.pass(2*time.Second, time.Second, "n")
	d.kill("small", 1)
	d.pass(time.Second, time.Second, "n")
	return d
}

// reservedCount is how often a look at a node found what is free kept for others.
func (d *drive) reservedCount() (n uint64) {
	d.t.Helper()
	facts, err := d.Facts("small")
	must(d.t, err)
	for _, r := range facts.Refusals {
		if r.Cause == allocation.Reserved {
			n += r.Count
		}
	}
	return n
}

// TestWhatIsFreeIsKept for a large job until that fits; then others may start as before.
func TestWhatIsFreeIsKept(t *testing.T) {
	d := kept(t, nil, nil)
	d.wantRuns(runs{"small": 7})
	d.kill("small", 1)
	d.pass(5*time.Second, time.Second, "n")
	d.wantRuns(runs{"small": 6})
	if now, _ := d.Pressing(); !now || d.reservedCount() == 0 {
		t.Errorf("pressing: %v; %d looks found what is kept", now, d.reservedCount())
	}
	d.kill("small", 1)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"small": 5, "large": 1})
	d.tick(time.Second)
	if now, _ := d.Pressing(); now {
		t.Error("something is kept still")
	}
	d.kill("small", 1)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"small": 5, "large": 1})
	d.wantVictims()
}

// TestWhatIsKeptEnds: then the small jobs get what was kept.
func TestWhatIsKeptEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		tree   options
		change func(d *drive)
		// within is when it has ended.
		within time.Duration
	}{
		"when its time is over":          {change: func(d *drive) { d.pass(57*time.Second, time.Second, "n") }, within: 4 * time.Second},
		"when the tree's time is over":   {tree: options{"gang_timeout": "10s"}, change: func(d *drive) { d.pass(7*time.Second, time.Second, "n") }, within: 4 * time.Second},
		"when the job is wanted no more": {change: func(d *drive) { must(d.t, d.SetDemand("large", "t", 0, 0, slotsOf(3))) }, within: 2 * time.Second},
		"when it needs another amount":   {change: func(d *drive) { must(d.t, d.SetDemand("large", "t", 0, 1, slotsOf(9))) }, within: 2 * time.Second},
		"when the operation has gone":    {change: func(d *drive) { must(d.t, d.RemoveOperation("large")) }, within: 2 * time.Second},
		"when the operation is suspended": {change: func(d *drive) {
			op := d.record("large", "b", nil)
			op.Suspended = true
			must(d.t, d.SetOperation(op))
		}, within: 2 * time.Second},
		"when the operation is in another pool": {change: func(d *drive) {
			must(d.t, d.SetDemand("large", "t", 0, 1, slotsOf(9)))
			must(d.t, d.SetOperation(d.record("large", "c", nil)))
		}, within: 2 * time.Second},
		"when limits forbid the job": {change: func(d *drive) {
			must(d.t, d.SetOperation(d.record("large", "b", options{"resource_limits": options{"cpu": 2.0}})))
		}, within: 2 * time.Second},
		"when it is not due any more": {change: func(d *drive) {
			d.tree(calm(nil), map[scheduling.PoolName]pool{"a": {options: options{"weight": 10.0}}, "b": {}, "c": {}})
			d.wants("more", "a", 100, slotsOf(1), nil)
		}, within: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := kept(t, tc.tree, nil)
			d.wantRuns(runs{"small": 7})
			tc.change(d)
			if got := len(d.running); got != 7 {
				t.Fatalf("%d jobs run before it ends, want 7", got)
			}
			d.pass(tc.within, time.Second, "n")
			if got := len(d.running); got != 8 || d.runs()["large"] != 0 {
				t.Errorf("running %v, want 8 jobs without the large one", d.runs())
			}
		})
	}
}

// TestWhatIsKeptCountsAsHad: a job of all eight slots waits for jobs of one slot to end. What is idle
// meanwhile is at the expense of who it is kept for, and not of those that have to wait.
func TestWhatIsKeptCountsAsHad(t *testing.T) {
	d := newDrive(t, calm(nil), map[scheduling.PoolName]pool{"small": {options: options{"weight": 3.0}}, "large": {}})
	d.node("n", 8)
	for i := range 8 {
		d.wants(scheduling.OperationID(fmt.Sprintf("s%d", i)), "small", 5, slotsOf(1), nil)
		d.work(8*time.Second, time.Second, time.Minute, "n")
	}
	d.wants("l", "large", 5, slotsOf(8), nil)
	had := d.work(3*time.Hour, time.Second, time.Minute, "n")
	if small, large := had["small"]/(8*3*3600), had["large"]/(8*3*3600); small < .7 || large < .1 {
		t.Errorf("of 0.75 the small ones have had %.3f, the large one %.3f of 0.25", small, large)
	}
}

// TestOthersComeBetween: after its time others have as long, and then it is kept again.
func TestOthersComeBetween(t *testing.T) {
	d := kept(t, options{"gang_timeout": "20s"}, nil)
	d.pass(20*time.Second, time.Second, "n")
	d.wantRuns(runs{"small": 8})
	for range 2 {
		d.kill("small", 1)
		d.pass(9*time.Second, time.Second, "n")
		d.wantRuns(runs{"small": 8})
	}
	d.pass(3*time.Second, time.Second, "n")
	for range 3 {
		d.kill("small", 1)
		d.pass(time.Second, time.Second, "n")
	}
	d.wantRuns(runs{"small": 5, "large": 1})
}

// TestWhoGetsWhatIsKept: those that come before do; others do not.
func TestWhoGetsWhatIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		pools map[scheduling.PoolName]pool
		add   func(d *drive)
		want  runs
	}{
		"nobody":                 {nil, func(*drive) {}, runs{"small": 7}},
		"an operation behind it": {nil, func(d *drive) { d.wants("other", "a", 9, slotsOf(1), nil) }, runs{"small": 7}},
		"one that was promised it": {map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {options: options{"strong_guarantee_resources": options{"cpu": 2.0, "user_slots": 2.0}}}},
			func(d *drive) { d.wants("first", "c", 2, slotsOf(1), nil) }, runs{"small": 7, "first": 1}},
		"one behind it in its pool": {nil, func(d *drive) { d.wants("beside", "b", 1, slotsOf(1), nil) }, runs{"small": 7}},
	} {
		t.Run(name, func(t *testing.T) {
			d := kept(t, options{"enable_guarantee_priority_scheduling": true}, tc.pools)
			tc.add(d)
			d.pass(3*time.Second, time.Second, "n")
			d.wantRuns(tc.want)
		})
	}
}

// TestWhatIsNotKept: jobs for which nothing is kept.
func TestWhatIsNotKept(t *testing.T) {
	for name, tc := range map[string]struct {
		pools map[scheduling.PoolName]pool
		set   func(d *drive)
	}{
		"one that is not due":              {map[scheduling.PoolName]pool{"a": {options: options{"weight": 9.0}}, "b": {}, "c": {}}, nil},
		"one that is larger than the node": {nil, func(d *drive) { must(d.t, d.SetDemand("large", "t", 0, 1, slotsOf(9))) }},
		"one above its limits":             {map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"resource_limits": options{"cpu": 2.0}}}, "c": {}}, nil},
		"one that may not use the node": {nil, func(d *drive) {
			must(d.t, d.SetOperation(d.record("large", "b", options{"scheduling_tag_filter": "gpu"})))
		}},
		"one that packs": {nil, func(d *drive) {
			must(d.t, d.SetOperation(d.record("large", "b", options{"packing": options{"enable": true}})))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pools := tc.pools
			if pools == nil {
				pools = map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}}
			}
			d := newDrive(t, calm(nil), pools)
			d.node("n", 8)
			d.wants("small", "a", 100, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n")
			d.wants("large", "b", 1, slotsOf(3), nil)
			if tc.set != nil {
				tc.set(d)
			}
			for range 3 {
				d.kill("small", 1)
				d.pass(time.Second, time.Second, "n")
				if got := d.runs()["small"]; got != 8 {
					t.Fatalf("%d small jobs run, want 8", got)
				}
			}
		})
	}
}

// TestOneJobKeepsOneNode: for each job that is due one node keeps what is free, and no more.
func TestOneJobKeepsOneNode(t *testing.T) {
	for _, jobs := range []int64{1, 2} {
		d := newDrive(t, calm(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}})
		nodes := []scheduling.NodeID{"n1", "n2", "n3"}
		for _, n := range nodes {
			d.node(n, 4)
		}
		d.wants("small", "a", 100, slotsOf(1), nil)
		d.pass(2*time.Second, time.Second, nodes...)
		d.wants("large", "b", jobs, slotsOf(3), nil)
		d.pass(2*time.Second, time.Second, nodes...)
		for _, n := range nodes {
			for job, a := range d.running {
				if a.Node == n {
					delete(d.running, job)
					must(t, d.RemoveAllocation(job))
					break
				}
			}
		}
		d.pass(5*time.Second, time.Second, nodes...)
		if got := 12 - d.runs()["small"]; got != int(jobs) {
			t.Errorf("%d nodes keep what is free for %d jobs", got, jobs)
		}
	}
}

// TestANodeThatGoes takes with it what it keeps.
func TestANodeThatGoes(t *testing.T) {
	d := kept(t, nil, nil)
	d.wantRuns(runs{"small": 7})
	for job := range d.running {
		delete(d.running, job)
		must(t, d.RemoveAllocation(job))
	}
	must(t, d.RemoveNode("n"))
	d.tick(time.Second)
	if now, _ := d.Pressing(); now {
		t.Error("something is kept on a node that has gone")
	}
	d.node("m", 8)
	must(t, d.SetDemand("small", "t", 0, 100, slotsOf(1)))
	d.pass(2*time.Second, time.Second, "m")
	d.wantRuns(runs{"small": 5, "large": 1})
}

// TestWhatIsKeptIsKeptFromTheStarving, too, where their pool has its fair share: what is free
// is not for its operations, however little each of them has.
func TestWhatIsKeptIsKeptFromTheStarving(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"}}})
	d.node("n", 8)
	for i := range 30 {
		d.wants(scheduling.OperationID(fmt.Sprintf("one%03d", i)), "a", 1, slotsOf(1), nil)
	}
	d.pass(10*time.Second, time.Second, "n")
	d.wants("large", "b", 1, slotsOf(3), nil)
	for left := 7; left > 4; left-- {
		d.pass(2*time.Second, time.Second, "n")
		for job := range d.running {
			d.finish(job)
			break
		}
		d.pass(10*time.Second, time.Second, "n")
		if ones := len(d.running) - d.runs()["large"]; ones != left {
			t.Fatalf("%d of the small operations run, want %d", ones, left)
		}
	}
	if d.runs()["large"] != 1 {
		t.Error("the large job does not run")
	}
	d.wantVictims()
}

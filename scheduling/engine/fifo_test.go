package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// queue is a pool with two operations that wait, beside one with an operation that holds
// all eight slots of the only node. Half of them are the queue's, and nobody has to leave.
func queue(t *testing.T, of, first options) *drive {
	t.Helper()
	d := newDrive(t, options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"},
		map[scheduling.PoolName]pool{"a": {}, "queue": {options: of}})
	d.node("n", 8)
	d.wants("greedy", "a", 100, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"greedy": 8})
	d.wants("first", "queue", 3, slotsOf(1), first)
	d.wants("second", "queue", 3, slotsOf(1), nil)
	return d
}

// TestFIFOIsStrict: what comes free bit by bit goes to the operation that is first in its
// pool's order, as long as it has jobs that may start there, and not to the one that has
// less of its fair share.
func TestFIFOIsStrict(t *testing.T) {
	fifo := func(more options) options {
		o := options{"mode": "fifo"}
		for name, value := range more {
			o[name] = value
		}
		return o
	}
	for name, tc := range map[string]struct {
		of, first options
		change    func(d *drive)
		// want is who has the slots that come free, one after the other.
		want []scheduling.OperationID
	}{
		"as long as it has jobs": {of: fifo(nil), want: []scheduling.OperationID{"first", "first", "first", "second"}},
		// The one that got its slot later has had less over time.
		"a fair-share pool takes turns": {of: nil, want: []scheduling.OperationID{"first", "second", "second", "first"}},
		"the heavier is first": {of: fifo(nil), change: func(d *drive) { must(d.t, d.SetOperation(d.record("second", "queue", options{"weight": 2.0}))) },
			want: []scheduling.OperationID{"second", "second", "second", "first"}},
		"the one with fewer jobs is first": {of: fifo(options{"fifo_sort_parameters": []any{"pending_job_count"}}),
			change: func(d *drive) { must(d.t, d.SetDemand("second", "t", 0, 2, slotsOf(1))) }, want: []scheduling.OperationID{"second", "second", "first", "first"}},
		"one at its limits lets the next pass": {of: fifo(nil), first: options{"resource_limits": options{"user_slots": 1.0}},
			want: []scheduling.OperationID{"first", "second", "second", "second"}},
		"one at its ratio lets the next pass": {of: fifo(nil), first: options{"max_share_ratio": 0.25},
			want: []scheduling.OperationID{"first", "first", "second", "second"}},
		"one that may not use the node lets the next pass": {of: fifo(nil), first: options{"scheduling_tag_filter": "gpu"},
			want: []scheduling.OperationID{"second", "second", "second"}},
		"one whose jobs are too large for the node lets the next pass": {of: fifo(nil), change: func(d *drive) { must(d.t, d.SetDemand("first", "t", 0, 3, slotsOf(9))) },
			want: []scheduling.OperationID{"second", "second", "second"}},
		"one that is suspended lets the next pass": {of: fifo(nil), change: func(d *drive) {
			op := d.record("first", "queue", nil)
			op.Suspended = true
			must(d.t, d.SetOperation(op))
		}, want: []scheduling.OperationID{"second", "second", "second"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := queue(t, tc.of, tc.first)
			if tc.change != nil {
				tc.change(d)
			}
			for i, want := range tc.want {
				before := d.runs()
				d.kill("greedy", 1)
				d.pass(2*time.Second, time.Second, "n")
				if now := d.runs(); now[want] != before[want]+1 {
					t.Fatalf("slot %d: %v run, %v did before, want one more of %s", i, now, before, want)
				}
			}
		})
	}
}

// TestFIFOPoolPreempts: also what others have to give back goes to the first one.
func TestFIFOPoolPreempts(t *testing.T) {
	tree := options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "queue": {options: options{"mode": "fifo"}}})
	d.node("n", 8)
	d.wants("greedy", "a", 100, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wants("first", "queue", 3, slotsOf(1), nil)
	d.wants("second", "queue", 5, slotsOf(1), nil)
	for i, want := range []runs{{"greedy": 7, "first": 1}, {"greedy": 6, "first": 2}, {"greedy": 5, "first": 3}, {"greedy": 4, "first": 3, "second": 1}} {
		for len(d.victims) <= i {
			d.pass(time.Second, time.Second, "n")
		}
		d.pass(time.Second/2, time.Second/2, "n")
		d.wantRuns(want)
	}
}

// gangFirst is a queue whose first operation is a gang of six jobs, of use only together,
// on a cluster of eight slots of which four are held by an operation in another pool.
func gangFirst(t *testing.T, tree, of options) *drive {
	t.Helper()
	set := options{"enable_step_function_for_gang_operations": true, "fair_share_starvation_timeout": "1m", "enable_improved_fair_share_by_fit_factor_computation": true}
	for name, value := range tree {
		set[name] = value
	}
	d := newDrive(t, set, map[scheduling.PoolName]pool{"a": {options: options{"strong_guarantee_resources": options{"cpu": 4.0, "user_slots": 4.0}}}, "queue": {options: of}})
	d.node("n", 8)
	d.wants("other", "a", 4, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.gang("gang", "queue", 6, slotsOf(1))
	must(t, d.SetGang("gang", true))
	d.wants("second", "queue", 3, slotsOf(1), nil)
	return d
}

func (d *drive) fairSlots(id scheduling.OperationID) float64 {
	for _, op := range d.Snapshot().Operations {
		if op.ID == id {
			return 8 * op.Shares.FairShare[resource.UserSlots]
		}
	}
	return -1
}

// TestFIFOGangHoldsUp: a gang that does not fit into the fair share of its pool leaves those
// behind it without one (F.8.1). What it gathers is held for it; where it cannot start, what
// is free is not left idle, and those behind use it until the gang can.
func TestFIFOGangHoldsUp(t *testing.T) {
	t.Run("it gathers", func(t *testing.T) {
		d := gangFirst(t, nil, options{"mode": "fifo"})
		d.pass(2*time.Second, time.Second, "n")
		if gang, second := d.fairSlots("gang"), d.fairSlots("second"); gang != 0 || second != 0 {
			t.Errorf("fair shares of %v and %v slots, want none", gang, second)
		}
		d.wantRuns(runs{"other": 4})
		if view := d.viewOf("gang"); view.Gathered != 4 {
			t.Errorf("the gang is %+v, want 4 gathered", view)
		}
		d.kill("other", 2)
		d.pass(time.Second, time.Second, "n")
		d.wantRuns(runs{"other": 2, "gang": 6})
	})
	t.Run("it is too large", func(t *testing.T) {
		d := gangFirst(t, nil, options{"mode": "fifo"})
		must(t, d.SetTaskGang("gang", "t", engine.Gang{Size: 9}))
		must(t, d.SetDemand("gang", "t", 0, 9, slotsOf(1)))
		d.pass(2*time.Second, time.Second, "n")
		d.wantRuns(runs{"other": 4, "second": 3})
	})
	t.Run("it steps back", func(t *testing.T) {
		tree := options{"enable_fifo_children_reordering_for_guarantee_utilization": true}
		d := gangFirst(t, tree, options{"mode": "fifo", "strong_guarantee_resources": options{"cpu": 4.0, "user_slots": 4.0},
			"enable_fifo_children_reordering_for_guarantee_utilization": true})
		d.tick(time.Second)
		if second := d.fairSlots("second"); second < 2.99 {
			t.Errorf("the one behind has a fair share of %v slots, want 3", second)
		}
		d.beat("n")
		if got := d.runs(); got["second"] != 3 {
			t.Errorf("%v run, want the one behind first", got)
		}
	})
}

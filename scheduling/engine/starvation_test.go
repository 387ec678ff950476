package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// TestStarvation waits for the timeouts of a pool and of the operations in it.
func TestStarvation(t *testing.T) {
	const normal, below = preemption.Normal, preemption.BelowFairShare
	const non, starving, aggressive = preemption.NonStarving, preemption.Starving, preemption.AggressivelyStarving
	type seen struct {
		status     preemption.Status
		starvation preemption.Starvation
	}
	guaranteed := options{"strong_guarantee_resources": options{"cpu": 2.0}, "min_share_preemption_timeout": "5s"}
	cases := map[string]struct {
		tree, pool, of          options
		jobs                    int64
		after                   time.Duration
		wantPool, wantOperation seen
	}{
		"at once":                        {nil, nil, nil, 9, 0, seen{below, non}, seen{below, non}},
		"after the tree's timeout":       {nil, nil, nil, 9, 31 * time.Second, seen{below, starving}, seen{below, starving}},
		"not in the moment of it":        {nil, nil, nil, 9, 30 * time.Second, seen{below, non}, seen{below, non}},
		"nothing is wanted":              {nil, nil, nil, 0, time.Hour, seen{normal, non}, seen{normal, non}},
		"pools do not starve":            {options{"enable_pool_starvation": false}, nil, nil, 9, time.Hour, seen{below, non}, seen{below, starving}},
		"the pool's own timeout":         {nil, options{"fair_share_starvation_timeout": "10s"}, nil, 9, 11 * time.Second, seen{below, starving}, seen{below, starving}},
		"a longer one of the operation":  {nil, nil, options{"fair_share_starvation_timeout": "1m"}, 9, 31 * time.Second, seen{below, starving}, seen{below, non}},
		"a shorter one of the operation": {nil, nil, options{"fair_share_starvation_timeout": "2s"}, 9, 3 * time.Second, seen{below, non}, seen{below, starving}},
		"one beyond the aggressive": {options{"enable_aggressive_starvation": true}, nil, options{"fair_share_starvation_timeout": "5m"}, 9, 4 * time.Minute,
			seen{below, aggressive}, seen{below, non}},
		"aggressively":            {options{"enable_aggressive_starvation": true}, nil, nil, 9, 121 * time.Second, seen{below, aggressive}, seen{below, aggressive}},
		"the min share's timeout": {nil, guaranteed, nil, 9, 6 * time.Second, seen{below, starving}, seen{below, starving}},
		"no tolerance":            {nil, options{"fair_share_starvation_tolerance": 0.0}, nil, 9, time.Hour, seen{normal, non}, seen{normal, non}},
		"no tolerance, but all it demands is its share": {nil, options{"fair_share_starvation_tolerance": 0.0}, nil, 1, time.Hour,
			seen{normal, non}, seen{below, starving}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.tree, map[scheduling.PoolName]pool{"a": {options: tc.pool}})
			w.node("n", 4)
			w.operation("o", "a", tc.jobs, tc.of)
			w.tick(0)
			since := w.now
			if tc.after > 0 {
				w.tick(tc.after)
			}
			s := w.Snapshot()
			root, p, op := s.Pools[0].Shares.Clock, s.Pools[1].Shares.Clock, s.Operations[0].Shares.Clock
			if root.Status != normal || root.Starvation != non {
				t.Errorf("the root is %s, %s", root.Status, root.Starvation)
			}
			if got := (seen{p.Status, p.Starvation}); got != tc.wantPool {
				t.Errorf("the pool is %s, %s; want %s, %s", p.Status, p.Starvation, tc.wantPool.status, tc.wantPool.starvation)
			}
			if got := (seen{op.Status, op.Starvation}); got != tc.wantOperation {
				t.Errorf("the operation is %s, %s; want %s, %s", op.Status, op.Starvation, tc.wantOperation.status, tc.wantOperation.starvation)
			}
			if op.Status == below && !op.Since.Equal(since) {
				t.Errorf("below since %v, want %v", op.Since, since)
			}
			of := s.Operations[0].Attributes(s.Total)
			if got, want := fmt.Sprintf("%v %v %v", of["scheduling_status"], of["starvation_status"], of["starving"]), fmt.Sprintf("%v %v %v", op.Status, op.Starvation, op.Starvation != non); got != want {
				t.Errorf("attributes say %s, want %s", got, want)
			}
			w.starts("n")
			w.tick(time.Hour)
			if got := w.Snapshot().Operations[0].Shares.Clock; got != (preemption.Clock{}) {
				t.Errorf("it has its jobs and is %+v", got)
			}
		})
	}
}

// TestWithItsMinShare an element does not starve by the timeout of that, and settings
// that change hold at once.
func TestWithItsMinShare(t *testing.T) {
	guaranteed := options{"strong_guarantee_resources": options{"cpu": 2.0}, "min_share_preemption_timeout": "5s"}
	w := newWorld(t, nil, map[scheduling.PoolName]pool{"a": {options: guaranteed}})
	w.node("n1", 2)
	w.node("n2", 2)
	w.operation("o", "a", 9, nil)
	w.tick(0)
	w.wantStarts(starts{"o": 2}, "n1")
	want := func(after time.Duration, status preemption.Status, starvation preemption.Starvation) {
		t.Helper()
		w.tick(after)
		s := w.Snapshot()
		for _, got := range []preemption.Clock{s.Pools[1].Shares.Clock, s.Operations[0].Shares.Clock} {
			if got.Status != status || got.Starvation != starvation {
				t.Fatalf("%s, %s; want %s, %s", got.Status, got.Starvation, status, starvation)
			}
		}
	}
	want(0, preemption.BelowFairShare, preemption.NonStarving)
	want(6*time.Second, preemption.BelowFairShare, preemption.NonStarving)
	w.tree(nil, map[scheduling.PoolName]pool{"a": {options: options{"fair_share_starvation_timeout": "3s"}}})
	want(0, preemption.BelowFairShare, preemption.Starving)
	w.tree(nil, map[scheduling.PoolName]pool{"a": {options: options{"fair_share_starvation_tolerance": 0.0}}})
	want(0, preemption.Normal, preemption.NonStarving)
}

// TestAbsoluteTolerance: where the tree says so, an operation that lacks less than the least of its
// jobs is not below its fair share.
func TestAbsoluteTolerance(t *testing.T) {
	absolute := options{"enable_absolute_fair_share_starvation_tolerance": true}
	for name, tc := range map[string]struct {
		tree options
		// The other operation has all of the node but for one job.
		slots int64
		want  preemption.Status
	}{
		"half a job is missing":                        {nil, 3, preemption.BelowFairShare},
		"half a job is missing, and that is tolerated": {absolute, 3, preemption.Normal},
		"more than a job is missing":                   {absolute, 5, preemption.BelowFairShare},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.tree, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			w.node("n", tc.slots)
			w.operation("other", "b", tc.slots-1, nil)
			w.tick(0)
			w.wantStarts(starts{"other": int(tc.slots) - 1}, "n")
			must(t, w.SetDemand("other", "t", 0, 99, resource.Amounts{UserSlots: 1, CPU: 100}))
			w.operation("o", "a", 9, nil)
			w.tick(time.Millisecond)
			w.wantStarts(starts{"o": 1}, "n")
			w.tick(time.Millisecond)
			for _, op := range w.Snapshot().Operations {
				if got := op.Shares.Clock.Status; op.ID == "o" && got != tc.want {
					t.Errorf("it is %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// TestGuaranteeIsHad: a pool that has 85% of its strong guarantee is within the tolerance
// of its fair share, and starves all the same, until it has all of it.
func TestGuaranteeIsHad(t *testing.T) {
	half := options{"strong_guarantee_resources": options{"user_slots": 20.0, "cpu": 20.0}}
	d := newDrive(t, options{"preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"sure": {options: half}, "greedy": {options: half}})
	d.node("n", 40)
	d.wants("sure", "sure", 17, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wants("greedy", "greedy", 40, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wantRuns(runs{"sure": 17, "greedy": 23})
	d.pending["sure"] = 10
	must(t, d.SetDemand("sure", "t", 0, 10, slotsOf(1)))
	d.pass(15*time.Second, time.Second, "n")
	clocks := func() (p, op preemption.Clock) {
		s := d.Snapshot()
		for _, v := range s.Pools {
			if v.Name == "sure" {
				p = v.Shares.Clock
			}
		}
		for _, v := range s.Operations {
			if v.ID == "sure" {
				op = v.Shares.Clock
			}
		}
		return p, op
	}
	want := func(starvation preemption.Starvation, belowMin bool) {
		t.Helper()
		p, op := clocks()
		for name, c := range map[string]preemption.Clock{"pool": p, "operation": op} {
			// Its whole pool starves for less than is tolerated, in the end.
			below := belowMin && name == "pool"
			if c.Status != preemption.Normal || c.Starvation != starvation || c.MinSince.IsZero() == belowMin || c.Since.IsZero() == below {
				t.Errorf("the %s is %+v, want normal, %s", name, c, starvation)
			}
		}
	}
	want(preemption.NonStarving, true)
	d.wantVictims()
	x, err := d.Explain("sure", d.now)
	must(t, err)
	if f := fact(t, x, explain.FactBelowFair); f.Setting != "min_share_preemption_timeout" || !strings.Contains(f.Text, "it has been below its min share since") {
		t.Errorf("explained as %+v", f)
	}
	d.pass(2*time.Second, time.Second, "n")
	want(preemption.Starving, true)
	d.pass(time.Minute, time.Second, "n")
	want(preemption.NonStarving, false)
	if since := d.victims[0].Reason.Since; since.IsZero() {
		t.Errorf("the first victim goes for who has been below its share since %v", since)
	}
	d.wantRuns(runs{"sure": 20, "greedy": 20})
	d.wantVictims("greedy-040 preemption", "greedy-039 preemption", "greedy-038 preemption")
}

// TestMinShareIsWithinTheFairShare: who cannot have its part of the guarantee does not
// starve for it.
func TestMinShareIsWithinTheFairShare(t *testing.T) {
	sure := options{"strong_guarantee_resources": options{"user_slots": 6.0, "cpu": 6.0}}
	for name, tc := range map[string]struct{ pool, of options }{
		"an operation at its limits":            {sure, options{"resource_limits": options{"user_slots": 2.0}}},
		"a pool at its own":                     {options{"strong_guarantee_resources": sure["strong_guarantee_resources"], "resource_limits": options{"user_slots": 2.0}}, nil},
		"an operation that has all it asks for": {options{"strong_guarantee_resources": sure["strong_guarantee_resources"]}, options{"resource_limits": options{"user_slots": 2.0, "cpu": 2.0}, "apply_specified_resource_limits_to_demand": true}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil, map[scheduling.PoolName]pool{"sure": {options: tc.pool}, "greedy": {}})
			d.node("n", 8)
			d.wants("sure", "sure", 10, slotsOf(1), tc.of)
			d.wants("greedy", "greedy", 10, slotsOf(1), nil)
			d.pass(time.Minute, time.Second, "n")
			d.wantRuns(runs{"sure": 2, "greedy": 6})
			for _, v := range d.Snapshot().Pools {
				if v.Shares.Clock != (preemption.Clock{}) {
					t.Errorf("pool %s is %+v", v.Name, v.Shares.Clock)
				}
			}
			d.wantVictims()
		})
	}
	t.Run("behind others in a FIFO pool", func(t *testing.T) {
		d := newDrive(t, nil, map[scheduling.PoolName]pool{"sure": {options: options{"mode": "fifo", "strong_guarantee_resources": sure["strong_guarantee_resources"]}}, "greedy": {}})
		d.node("n", 8)
		d.wants("first", "sure", 10, slotsOf(1), nil)
		d.wants("second", "sure", 10, slotsOf(1), nil)
		d.wants("greedy", "greedy", 2, slotsOf(1), nil)
		d.pass(time.Minute, time.Second, "n")
		for _, v := range d.Snapshot().Operations {
			if v.Shares.Clock != (preemption.Clock{}) {
				t.Errorf("%s is %+v", v.ID, v.Shares.Clock)
			}
		}
		d.wantVictims()
	})
}

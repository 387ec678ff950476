package engine_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
)

// calm is a tree in which nobody starves while a story lasts, with more options.
func calm(more options) options {
	set := options{"fair_share_starvation_timeout": "24h", "fair_share_aggressive_starvation_timeout": "48h"}
	maps.Copy(set, more)
	return set
}

// many adds n operations, called after their pool, that want so many jobs each.
func (d *drive) many(n int, in scheduling.PoolName, jobs, slots int64, document options) {
	d.t.Helper()
	for i := range n {
		d.wants(scheduling.OperationID(fmt.Sprintf("%s%d", in, i+1)), in, jobs, slotsOf(slots), document)
	}
}

// work lets so much time pass in steps. Jobs end when they have run so long, and others are
// wanted in their place. It returns the slot seconds of each operation and pool, by id.
func (d *drive) work(how, step, job time.Duration, nodes ...scheduling.NodeID) map[string]float64 {
	d.t.Helper()
	had := map[string]float64{}
	pools := map[scheduling.OperationID]scheduling.PoolName{}
	for _, op := range d.Snapshot().Operations {
		pools[op.ID] = op.Pool
	}
	for end := d.now.Add(how); d.now.Before(end); {
		for _, id := range slices.Sorted(maps.Keys(d.running)) {
			if a := d.running[id]; d.now.Sub(a.Started) >= job {
				delete(d.going, id)
				d.end(id)
			}
		}
		d.pass(step, step, nodes...)
		for _, a := range d.running {
			used := float64(a.Resources.UserSlots) * step.Seconds()
			had[string(a.Operation)] += used
			had[string(pools[a.Operation])] += used
		}
	}
	return had
}

// TestPoolsHaveTheirSharesHoweverManyOperations: of three equal pools one has one operation
// and comes late, when operations of the others have less than a job each. By the least
// satisfied operation one of theirs is always before it.
func TestPoolsHaveTheirSharesHoweverManyOperations(t *testing.T) {
	off := options{"use_pool_satisfaction_for_scheduling": false}
	third := map[scheduling.PoolName]int{"x": 4, "y": 4, "z": 4}
	for name, tc := range map[string]struct {
		tree, of options
		want     map[scheduling.PoolName]int
	}{
		"by their own satisfaction":                    {nil, nil, third},
		"by that of operations":                        {off, nil, map[scheduling.PoolName]int{"x": 6, "y": 6, "z": 0}},
		"by that of operations, and the pools say not": {off, options{"use_pool_satisfaction_for_scheduling": true}, third},
		"the pools alone go by their operations":       {nil, off, map[scheduling.PoolName]int{"x": 6, "y": 6, "z": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, calm(tc.tree), map[scheduling.PoolName]pool{"x": {options: tc.of}, "y": {options: tc.of}, "z": {options: tc.of}})
			d.node("n", 12)
			d.many(8, "x", 8, 1, nil)
			d.many(8, "y", 8, 1, nil)
			d.work(2*time.Minute, time.Second, time.Minute, "n")
			d.wants("late", "z", 20, slotsOf(1), nil)
			had := d.work(20*time.Minute, time.Second, time.Minute, "n")
			for p, want := range tc.want {
				if got := had[string(p)] / (20 * 60); math.Abs(got-float64(want)) > 1 {
					t.Errorf("pool %s has had %.2f slots, want about %d; all: %v", p, got, want, had)
				}
			}
		})
	}
}

// TestPartsOfAJobTakeTurns: fair shares that are no whole number of jobs are had over time.
func TestPartsOfAJobTakeTurns(t *testing.T) {
	type weights = map[scheduling.PoolName]float64
	for name, tc := range map[string]struct {
		slots, job int64
		weights    weights
		// off: by the satisfaction of operations, which knows no debts, it is not so.
		off bool
	}{
		"three pools and two jobs":   {slots: 2, job: 1, weights: weights{"a": 1, "b": 1, "c": 1}},
		"one job, one is heavier":    {slots: 1, job: 1, weights: weights{"a": 3, "b": 1}, off: true},
		"one job, one is much so":    {slots: 1, job: 1, weights: weights{"a": 9, "b": 1}, off: true},
		"large jobs":                 {slots: 16, job: 8, weights: weights{"a": 5, "b": 2, "c": 1}, off: true},
		"a half of a job more":       {slots: 4, job: 1, weights: weights{"a": 5, "b": 3}},
		"more pools than jobs":       {slots: 2, job: 1, weights: weights{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}},
		"whole jobs, and a part too": {slots: 6, job: 1, weights: weights{"a": 10, "b": 1, "c": 1}, off: true},
	} {
		for _, inPools := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, in pools: %v", name, inPools), func(t *testing.T) {
				for _, own := range []bool{true, false} {
					if own || tc.off {
						worst := partsOf(t, tc.slots, tc.job, tc.weights, inPools, own)
						if own != (worst < .1) {
							t.Errorf("by own satisfaction: %v; off by %.1f%% of the fair share at most", own, 100*worst)
						}
					}
				}
			})
		}
	}
}

// partsOf is how far what pools, or operations of a pool, have had in an hour of jobs of a
// minute is from their fair shares at most, as a part of those.
func partsOf(t *testing.T, slots, job int64, weights map[scheduling.PoolName]float64, inPools, own bool) (worst float64) {
	pools, sum := map[scheduling.PoolName]pool{}, 0.
	for name, weight := range weights {
		sum += weight
		if inPools {
			pools[name] = pool{options: options{"weight": weight}}
		}
	}
	if !inPools {
		pools["all"] = pool{}
	}
	d := newDrive(t, calm(options{"use_pool_satisfaction_for_scheduling": own}), pools)
	d.node("n", slots)
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if inPools {
			d.many(2, name, 20, job, nil)
		} else {
			d.wants(scheduling.OperationID(name), "all", 40, slotsOf(job), options{"weight": weights[name]})
		}
	}
	had := d.work(time.Hour, 5*time.Second, time.Minute, "n")
	for name, weight := range weights {
		fair := weight / sum * float64(slots) * 3600
		worst = max(worst, math.Abs(had[string(name)]-fair)/fair)
	}
	return worst
}

// TestFIFOPoolHasNoDebts: its operations are served by rank alone.
func TestFIFOPoolHasNoDebts(t *testing.T) {
	d := newDrive(t, calm(nil), map[scheduling.PoolName]pool{"queue": {options: options{"mode": "fifo"}}})
	d.node("n", 2)
	d.wants("first", "queue", 100, slotsOf(1), nil)
	d.wants("second", "queue", 100, slotsOf(1), nil)
	d.work(10*time.Minute, 5*time.Second, time.Minute, "n")
	d.wantRuns(runs{"first": 2})
}

// inPools counts the running jobs of pools.
func (d *drive) inPools() map[scheduling.PoolName]int {
	got, running := map[scheduling.PoolName]int{}, d.runs()
	for _, op := range d.Snapshot().Operations {
		got[op.Pool] += running[op.ID]
	}
	return got
}

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/preemption"
)

// TestMaxShareRatioHoldsUsage: though all else is idle, no more is used than the part
// of what the parent may have.
func TestMaxShareRatioHoldsUsage(t *testing.T) {
	half, quarter := options{"max_share_ratio": 0.5}, options{"max_share_ratio": 0.25}
	for name, tc := range map[string]struct {
		pools map[scheduling.PoolName]pool
		of    options
		want  int
	}{
		"of a pool":               {map[scheduling.PoolName]pool{"a": {options: quarter}}, nil, 4},
		"of an operation":         {map[scheduling.PoolName]pool{"a": {}}, quarter, 4},
		"of both":                 {map[scheduling.PoolName]pool{"a": {options: half}}, quarter, 2},
		"of a pool below another": {map[scheduling.PoolName]pool{"z": {options: half}, "a": {parent: "z", options: half}}, nil, 4},
		"of one below a limit":    {map[scheduling.PoolName]pool{"z": {options: options{"resource_limits": options{"cpu": 8.0}}}, "a": {parent: "z", options: quarter}}, nil, 2},
		"of one with a limit":     {map[scheduling.PoolName]pool{"a": {options: options{"max_share_ratio": 0.25, "resource_limits": options{"user_slots": 3.0}}}}, nil, 3},
		"of all":                  {map[scheduling.PoolName]pool{"a": {options: options{"max_share_ratio": 1.0}}}, nil, 16},
		"of nothing":              {map[scheduling.PoolName]pool{"a": {options: options{"max_share_ratio": 0.0}}}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, tc.pools)
			w.node("n", 16)
			w.operation("o", "a", 100, tc.of)
			w.tick(0)
			want := starts{}
			if tc.want > 0 {
				want["o"] = tc.want
			}
			w.wantStarts(want, "n")
			w.tick(time.Second)
			w.wantStarts(starts{}, "n")
		})
	}
}

// TestMaxShareRatioIsSetAnew changes it while jobs wait: a new ratio holds from the
// next update on, and the old one until then; a first one lets nothing start before.
func TestMaxShareRatioIsSetAnew(t *testing.T) {
	ratio := func(r float64) map[scheduling.PoolName]pool {
		return map[scheduling.PoolName]pool{"a": {options: options{"max_share_ratio": r}}}
	}
	w := newWorld(t, nil, ratio(0.25))
	w.node("n", 16)
	w.operation("o", "a", 100, nil)
	w.wantStarts(starts{}, "n")
	w.tick(0)
	w.wantStarts(starts{"o": 4}, "n")
	w.tree(nil, ratio(0.5))
	w.wantStarts(starts{}, "n")
	w.tick(time.Second)
	w.wantStarts(starts{"o": 4}, "n")
	w.tree(nil, map[scheduling.PoolName]pool{"a": {}})
	w.wantStarts(starts{"o": 8}, "n")
}

// TestNobodyLeavesForOneAtItsCeiling: of operations that starve because their ceilings
// are less than a job, none has others preempted, as it could not start; those whose
// ceiling is a job have.
func TestNobodyLeavesForOneAtItsCeiling(t *testing.T) {
	for name, tc := range map[string]struct {
		ratio     float64
		tolerance options
		want      int
	}{
		"of no whole job":                 {0.09, nil, 0},
		"of no whole job, with tolerance": {0.09, options{"resource_limits_overcommit_tolerance": options{"user_slots": 1.0}}, 0},
		"of a job":                        {0.1, nil, 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"},
				map[scheduling.PoolName]pool{"a": {}, "b": {options: tc.tolerance}})
			d.node("n", 10)
			d.wants("greedy", "a", 20, slotsOf(1), nil)
			d.pass(time.Second, time.Second, "n")
			for i := range 9 {
				d.wants(scheduling.OperationID(fmt.Sprintf("late-%d", i)), "b", 5, slotsOf(1), options{"max_share_ratio": tc.ratio})
			}
			d.pass(2*time.Minute, time.Second, "n")
			starving := 0
			for _, op := range d.Snapshot().Operations {
				if op.Shares.Clock.Starvation != preemption.NonStarving {
					starving++
				}
			}
			if got := len(d.victims); got != tc.want || starving == 0 {
				t.Errorf("%d victims while %d starve, want %d: %v", got, starving, tc.want, d.victims)
			}
		})
	}
}

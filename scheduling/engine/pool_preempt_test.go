package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// soon is a tree in which who is below the fair share starves after five seconds, with more
// options.
func soon(more options) options {
	set := options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}
	maps.Copy(set, more)
	return set
}

// oneEach fills the nodes with operations of one job of one slot each, in pool a, the last
// one started last.
func oneEach(t *testing.T, tree options, pools map[scheduling.PoolName]pool, of options, nodes ...scheduling.NodeID) *drive {
	t.Helper()
	d := newDrive(t, tree, pools)
	for _, n := range nodes {
		d.node(n, 8)
	}
	for i := range 8 * len(nodes) {
		d.wants(scheduling.OperationID(fmt.Sprintf("one%03d", i+1)), "a", 1, slotsOf(1), of)
		if i%8 == 7 {
			d.pass(time.Second, time.Second, nodes...)
		}
	}
	d.pass(time.Second, time.Second, nodes...)
	if got := len(d.running); got != 8*len(nodes) {
		t.Fatalf("%d jobs run, want %d", got, 8*len(nodes))
	}
	return d
}

var twoRoots = map[scheduling.PoolName]pool{"a": {}, "b": {}}

// TestPoolsPreemptOneJobOperations: what a pool has beyond its fair share goes, though each
// of its operations has no more than its own; the latest started first, to the nearest job
// and no further.
func TestPoolsPreemptOneJobOperations(t *testing.T) {
	d := oneEach(t, soon(nil), twoRoots, nil, "n")
	d.wants("late", "b", 8, slotsOf(1), nil)
	d.pass(2*time.Minute, time.Second, "n")
	d.wantVictims("one008-008 preemption", "one007-007 preemption", "one006-006 preemption", "one005-005 preemption")
	if got := d.runs()["late"]; got != 4 {
		t.Errorf("%d late jobs run, want 4", got)
	}
}

// TestLargeJobsGetRoomAmongSmallOperations: 64 operations of one cpu each are all over four
// nodes of 16, and two jobs of 8 cpu come.
func TestLargeJobsGetRoomAmongSmallOperations(t *testing.T) {
	aggressive := options{"enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "20s", "aggressive_preemption_satisfaction_threshold": 0.5}
	for name, tc := range map[string]struct {
		tree options
		pool scheduling.PoolName
		want int
		kind lifecycle.PreemptionKind
	}{
		"of another pool":                        {soon(nil), "b", 2, lifecycle.Preemption},
		"of the same pool, aggressively":         {soon(aggressive), "a", 2, lifecycle.AggressivePreemption},
		"of the same pool, and not aggressively": {soon(nil), "a", 0, 0},
		"of the same pool, all is protected": {soon(options{"enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "20s",
			"aggressive_preemption_satisfaction_threshold": 1.0}), "a", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, tc.tree, twoRoots)
			nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4"}
			for _, n := range nodes {
				d.node(n, 16)
			}
			for i := range 64 {
				d.wants(scheduling.OperationID(fmt.Sprintf("one%02d", i)), "a", 1, slotsOf(1), nil)
			}
			d.pass(2*time.Second, time.Second, nodes...)
			// In its own pool a part of 16 of 64 is due to it by weight.
			d.wants("large", tc.pool, 2, slotsOf(8), options{"weight": 100.0})
			d.pass(5*time.Minute, time.Second, nodes...)
			if got := d.runs()["large"]; got != tc.want || d.kinds()[tc.kind] != len(d.victims) || len(d.victims) < 8*tc.want {
				t.Errorf("%d large jobs run, want %d; preempted %d, %v", got, tc.want, len(d.victims), d.kinds())
			}
			d.victims = nil
			d.pass(10*time.Minute, 2*time.Second, nodes...)
			d.wantVictims()
		})
	}
}

// TestWhoIsSparedByPools: what a pool, an operation or the tree has set for its jobs holds
// for those that go for other pools too.
func TestWhoIsSparedByPools(t *testing.T) {
	for name, tc := range map[string]struct {
		tree, pool, of options
		want           int
		kind           lifecycle.PreemptionKind
		block          preemption.Block
	}{
		"nobody":                         {want: 4, kind: lifecycle.Preemption},
		"the pool forbids it":            {pool: options{"allow_normal_preemption": false}, block: preemption.BlockedByPool},
		"jobs that have not run long":    {pool: options{"min_run_time": "1h"}, block: preemption.BlockedByRunTime},
		"those of an operation":          {of: options{"min_run_time": "1h"}, block: preemption.BlockedByRunTime},
		"no more than the rate":          {pool: options{"preemption_rate_limit": 1.0}, want: 1, kind: lifecycle.Preemption, block: preemption.BlockedByRate},
		"as many as operations keep":     {of: options{"max_unpreemptable_running_job_count": 1.0}},
		"none of them is kept":           {of: options{"max_unpreemptable_running_job_count": 0.0}, want: 4, kind: lifecycle.Preemption},
		"a threshold of the pool":        {pool: options{"preemption_satisfaction_threshold": 1.5}, want: 2, kind: lifecycle.Preemption},
		"a tree in which no pool starve": {tree: options{"enable_pool_starvation": false}, want: 4, kind: lifecycle.Preemption},
		"those that leave by themselves": {of: graceful, want: 4, kind: lifecycle.GracefulPreemption},
	} {
		t.Run(name, func(t *testing.T) {
			d := oneEach(t, soon(tc.tree), map[scheduling.PoolName]pool{"a": {options: tc.pool}, "b": {}}, tc.of, "n")
			d.wants("late", "b", 8, slotsOf(1), nil)
			d.pass(40*time.Second, time.Second, "n")
			if len(d.victims) != tc.want || d.kinds()[tc.kind] != tc.want {
				t.Errorf("preempted %d, want %d; %v", len(d.victims), tc.want, d.kinds())
			}
			blocked := 0
			for i := range 8 {
				facts, err := d.Facts(scheduling.OperationID(fmt.Sprintf("one%03d", i+1)))
				must(t, err)
				blocked += int(facts.Spared[tc.block])
			}
			if tc.block != 0 && blocked == 0 {
				t.Error("nobody is noted as spared")
			}
		})
	}
}

// TestGuaranteesAreNotPreempted: a starving pool takes nothing of what another one has by
// its guarantee, however large its jobs are.
func TestGuaranteesAreNotPreempted(t *testing.T) {
	for size := int64(1); size <= 5; size++ {
		for _, stage := range []options{soon(nil), soon(options{"enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "20s"})} {
			t.Run(fmt.Sprintf("jobs of %d slots, aggressively: %v", size, stage["enable_aggressive_starvation"] == true), func(t *testing.T) {
				d := newDrive(t, stage, map[scheduling.PoolName]pool{
					"promised": {options: options{"strong_guarantee_resources": options{"cpu": 5.0, "user_slots": 5.0}}}, "other": {}, "late": {},
				})
				d.node("n", 12)
				// One of its jobs is beyond its guarantee.
				d.many(6, "promised", 1, 1, nil)
				d.many(6, "other", 1, 1, nil)
				d.pass(3*time.Second, time.Second, "n")
				d.wants("op", "late", 3, slotsOf(size), nil)
				for range 300 {
					d.pass(time.Second, time.Second, "n")
					if got := d.inPools()["promised"]; got < 5 {
						t.Fatalf("%d jobs of the pool with a guarantee of 5 run; preempted %v", got, d.victims)
					}
				}
				if len(d.victims) == 0 && size <= 3 {
					t.Error("nobody was preempted")
				}
			})
		}
	}
}

// TestPreemptionOfPoolsEnds: under constant demand nobody is preempted any more after some
// hours, whatever the jobs of pools are like.
func TestPreemptionOfPoolsEnds(t *testing.T) {
	type wanted struct {
		operations  int
		jobs, slots int64
		weight      float64
	}
	type all = map[scheduling.PoolName]wanted
	for name, tc := range map[string]all{
		"two pools alike":                 {"a": {8, 4, 1, 1}, "b": {8, 4, 1, 1}},
		"one operation and many":          {"a": {16, 1, 1, 1}, "b": {1, 16, 1, 1}},
		"shares of parts of a job":        {"a": {5, 9, 1, 1}, "b": {5, 9, 1, 1}, "c": {5, 9, 1, 1}},
		"large jobs and small ones":       {"a": {20, 1, 1, 1}, "b": {1, 9, 6, 1}},
		"three sizes":                     {"a": {20, 1, 1, 1}, "b": {2, 9, 4, 1}, "c": {2, 9, 3, 2}},
		"a job is more than a fair share": {"a": {20, 1, 1, 1}, "b": {1, 4, 8, 0.25}},
		"none fits into a fair share":     {"a": {1, 4, 8, 1}, "b": {1, 4, 8, 1}, "c": {1, 4, 8, 1}, "d": {1, 4, 8, 1}},
		"four weights":                    {"a": {3, 9, 1, 1}, "b": {3, 9, 2, 2}, "c": {3, 9, 3, 3}, "d": {3, 9, 5, 4}},
	} {
		for _, aggressive := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, aggressively: %v", name, aggressive), func(t *testing.T) {
				pools := map[scheduling.PoolName]pool{}
				for p, w := range tc {
					pools[p] = pool{options: options{"weight": w.weight}}
				}
				d := newDrive(t, soon(options{"enable_aggressive_starvation": aggressive, "fair_share_aggressive_starvation_timeout": "20s"}), pools)
				d.node("n1", 8)
				d.node("n2", 8)
				for _, p := range slices.Sorted(maps.Keys(tc)) {
					// Those that come first have all.
					d.many(tc[p].operations, p, tc[p].jobs, tc[p].slots, nil)
					d.pass(30*time.Second, time.Second, "n1", "n2")
				}
				d.pass(10*time.Minute, time.Second, "n1", "n2")
				d.pass(8*time.Hour, 20*time.Second, "n1", "n2")
				d.victims = nil
				d.pass(4*time.Hour, 20*time.Second, "n1", "n2")
				if len(d.victims) > 0 {
					t.Errorf("%d more are preempted; running %v", len(d.victims), d.inPools())
				}
			})
		}
	}
}

// TestReasonOfAPool: a victim that goes for a pool is told which one, and since when that
// has been below its fair share.
func TestReasonOfAPool(t *testing.T) {
	d := oneEach(t, soon(nil), twoRoots, nil, "n")
	d.wants("late", "b", 8, slotsOf(1), options{"fair_share_starvation_timeout": "1h"})
	came := d.now
	for len(d.victims) == 0 {
		d.pass(time.Second, time.Second, "n")
	}
	v := d.victims[0]
	if r := v.Reason; r.Pool != "b" || r.Since.Sub(came) > 2*time.Second || r.Resource != resource.UserSlots {
		t.Errorf("reason %+v", r)
	}
	if got := v.Message(); !strings.Contains(got, "pool b") || v.For != (engine.Beneficiary{Operation: "late", Task: "t", Resources: slotsOf(1)}) {
		t.Errorf("message %q, for %+v", got, v.For)
	}
}

// TestGracefulOperationsOfOneJob leave as the share of their pool falls, though each has no
// more than its own; as many as are beyond it, and as many come back as it grows.
func TestGracefulOperationsOfOneJob(t *testing.T) {
	d := oneEach(t, calm(nil), twoRoots, graceful, "n")
	d.wants("batch", "b", 8, slotsOf(1), nil)
	d.pass(10*time.Second, time.Second, "n")
	d.wantVictims("one008-008 graceful_preemption", "one007-007 graceful_preemption", "one006-006 graceful_preemption", "one005-005 graceful_preemption")
	d.pass(5*time.Minute, time.Second, "n")
	d.wantVictims()
	if got := d.inPools(); got["a"] != 4 || got["b"] != 4 {
		t.Fatalf("running %v, want four each", got)
	}
	d.world.tree(calm(nil), map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"weight": 3.0}}})
	d.pass(10*time.Second, time.Second, "n")
	d.wantVictims("one004-004 graceful_preemption", "one003-003 graceful_preemption")
	// Nobody takes the place of those that have gone, nor do they come back, while the others
	// have work.
	d.pass(5*time.Minute, time.Second, "n")
	d.wantVictims()
	if got := d.inPools(); got["a"] != 2 || got["b"] != 6 {
		t.Fatalf("running %v, want two and six", got)
	}
	must(t, d.SetDemand("batch", "t", 0, 0, slotsOf(1)))
	d.kill("batch", 4)
	d.pass(10*time.Second, time.Second, "n")
	if got := d.inPools(); got["a"] != 6 || got["b"] != 2 {
		t.Errorf("running %v, want six and two", got)
	}
	d.wantVictims()
}

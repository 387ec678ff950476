package engine_test

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

type runs = map[scheduling.OperationID]int

// twoPools is a node of 4 slots full of the jobs of a greedy operation, started one a
// second, when one of another pool comes.
func twoPools(t *testing.T, tree, greedy, other options, of options) *drive {
	t.Helper()
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {options: greedy}, "b": {options: other}})
	d.node("n", 4)
	d.wants("greedy", "a", 0, slotsOf(1), of)
	for range 4 {
		d.tick(time.Second)
		d.pending["greedy"]++
		must(t, d.SetDemand("greedy", "t", 0, d.pending["greedy"], slotsOf(1)))
		d.beat("n")
	}
	d.pending["greedy"] = 10
	must(t, d.SetDemand("greedy", "t", 0, 10, slotsOf(1)))
	d.wantRuns(runs{"greedy": 4})
	d.wants("late", "b", 10, slotsOf(1), nil)
	return d
}

// TestStarvingTakesItsShare: after the timeout, never before, one job a backoff, of the
// latest started, until it has its fair share and no more.
func TestStarvingTakesItsShare(t *testing.T) {
	d := twoPools(t, options{"fair_share_starvation_timeout": "10s", "preemptive_scheduling_backoff": "3s"}, nil, nil, nil)
	d.pass(10*time.Second, time.Second, "n")
	d.wantVictims()
	d.pass(2*time.Second, time.Second, "n")
	d.wantVictims("greedy-004 preemption")
	d.pass(2*time.Second, time.Second, "n")
	d.wantVictims()
	d.wantRuns(runs{"greedy": 3, "late": 1})
	d.pass(time.Minute, time.Second, "n")
	d.wantVictims("greedy-003 preemption")
	d.wantRuns(runs{"greedy": 2, "late": 2})
}

// TestWhyPreempted: a victim knows for whom it goes, for how long, and why.
func TestWhyPreempted(t *testing.T) {
	d := twoPools(t, options{"fair_share_starvation_timeout": "10s", "allocation_preemption_timeout": "7s"}, nil, nil, nil)
	for len(d.victims) == 0 {
		d.pass(time.Second, time.Second, "n")
	}
	v := d.victims[0]
	if v.Operation != "greedy" || v.Node != "n" || v.Timeout != 7*time.Second || v.Kind != lifecycle.Preemption ||
		v.For != (engine.Beneficiary{Operation: "late", Task: "t", Resources: slotsOf(1)}) {
		t.Errorf("preempted %+v", v)
	}
	if r := v.Reason; r.Usage != 1 || r.Fair != 0.5 || r.Threshold != 1 || r.Kept != 0.5 || r.Resource != resource.UserSlots || r.Since.IsZero() {
		t.Errorf("reason %+v", r)
	}
	for _, want := range []string{"operation late", "below its fair share since", "operation greedy uses 100.0% of all user_slots", "fair share is 50.0%"} {
		if got := v.Message(); !strings.Contains(got, want) {
			t.Errorf("message %q lacks %q", got, want)
		}
	}
}

// TestWhoIsSpared: the ways in which jobs of the greedy operation are none that others may
// preempt.
func TestWhoIsSpared(t *testing.T) {
	timeout := options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}
	with := func(more options) options {
		all := options{}
		for _, o := range []options{timeout, more} {
			for k, v := range o {
				all[k] = v
			}
		}
		return all
	}
	for name, tc := range map[string]struct {
		tree, pool, of options
		want           int
		block          preemption.Block
	}{
		"nobody":                                   {timeout, nil, nil, 2, 0},
		"the pool forbids it":                      {timeout, options{"allow_normal_preemption": false}, nil, 0, preemption.BlockedByPool},
		"jobs that have not run long":              {timeout, options{"min_run_time": "1h"}, nil, 0, preemption.BlockedByRunTime},
		"jobs that have not run long, by themself": {timeout, nil, options{"min_run_time": "1h"}, 0, preemption.BlockedByRunTime},
		"few jobs":                                 {timeout, nil, options{"max_unpreemptable_running_job_count": 3.0}, 1, 0},
		"a threshold":                              {with(options{"preemption_satisfaction_threshold": 1.4}), nil, nil, 1, 0},
		"no more than the rate":                    {timeout, options{"preemption_rate_limit": 1.0}, nil, 1, preemption.BlockedByRate},
		"a rate of none":                           {timeout, options{"preemption_rate_limit": 0.0}, nil, 0, preemption.BlockedByRate},
	} {
		t.Run(name, func(t *testing.T) {
			d := twoPools(t, tc.tree, tc.pool, nil, tc.of)
			d.pass(30*time.Second, time.Second, "n")
			if len(d.victims) != tc.want {
				t.Errorf("preempted %v, want %d", d.victims, tc.want)
			}
			facts, err := d.Facts("greedy")
			must(t, err)
			if tc.block != 0 && facts.Spared[tc.block] == 0 {
				t.Errorf("spared %v, want some by %v", facts.Spared, tc.block)
			}
		})
	}
}

// TestRateLimit lets as many go in any minute as the pool says.
func TestRateLimit(t *testing.T) {
	d := twoPools(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}, options{"preemption_rate_limit": 1.0}, nil, nil)
	d.pass(50*time.Second, time.Second, "n")
	d.wantVictims("greedy-004 preemption")
	d.pass(50*time.Second, time.Second, "n")
	d.wantVictims("greedy-003 preemption")
}

// TestHalfOfANode: small jobs of operations that have just their fair share are all over
// the cluster, and a job of half a node finds no room. It starts only where there is
// aggressive starvation (P6).
func TestHalfOfANode(t *testing.T) {
	for name, tc := range map[string]struct {
		tree options
		want int
	}{
		"ordinary starvation":   {options{"fair_share_starvation_timeout": "5s"}, 0},
		"aggressive starvation": {options{"fair_share_starvation_timeout": "5s", "enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "20s"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, tc.tree, map[scheduling.PoolName]pool{"small": {options: options{"weight": 3.0}}, "large": {}})
			nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4"}
			for _, n := range nodes {
				d.node(n, 4)
			}
			d.wants("small", "small", 100, slotsOf(1), nil)
			// 3 of each 4 slots are those of small jobs; what is free is in pieces.
			d.wants("filler", "large", 4, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, nodes...)
			for job, a := range d.running {
				if a.Operation == "filler" {
					d.end(job)
				}
			}
			must(t, d.SetDemand("filler", "t", 0, 0, slotsOf(1)))
			must(t, d.SetOperation(func() engine.Operation { op := d.record("small", "small", nil); op.Suspended = true; return op }()))
			d.wants("half", "large", 1, slotsOf(2), nil)
			if d.runs()["small"] != 12 {
				t.Fatalf("running %v, want 12 small ones", d.runs())
			}
			must(t, d.SetOperation(d.record("small", "small", options{"resource_limits": options{"user_slots": 12.0}})))
			d.pass(19*time.Second, time.Second, nodes...)
			d.wantVictims()
			d.pass(30*time.Second, time.Second, nodes...)
			if got := d.runs()["half"]; got != tc.want {
				t.Errorf("%d jobs of half a node run, want %d; preempted %v", got, tc.want, d.victims)
			}
			if tc.want > 0 && (len(d.victims) != 1 || d.victims[0].Kind != lifecycle.AggressivePreemption) {
				t.Errorf("preempted %v, want one job aggressively", d.victims)
			}
		})
	}
}

// TestViolatedLimits: those started last go, of the operation or pool whose limits fell.
func TestViolatedLimits(t *testing.T) {
	two := options{"resource_limits": options{"user_slots": 2.0}}
	for name, tc := range map[string]struct {
		change  func(d *drive)
		victims int
		message string
	}{
		"of the operation": {func(d *drive) { must(d.t, d.SetOperation(d.record("o", "low", two))) }, 2, "operation o uses 4 of user_slots, but its limit is 2"},
		"of its pool": {func(d *drive) {
			d.tree(nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high", options: two}})
		}, 2, "pool low uses 4 of user_slots, but its limit is 2"},
		"of a pool above": {func(d *drive) {
			d.tree(nil, map[scheduling.PoolName]pool{"high": {options: two}, "low": {parent: "high"}})
		}, 2, "pool high uses 4 of user_slots, but its limit is 2"},
		"to nothing": {func(d *drive) {
			must(d.t, d.SetOperation(d.record("o", "low", options{"resource_limits": options{"user_slots": 0.0}})))
		}, 4, "operation o uses 4 of user_slots, but its limit is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high"}})
			d.node("n", 8)
			d.wants("o", "low", 0, slotsOf(1), options{"min_run_time": "1h"})
			for range 4 {
				d.pending["o"]++
				must(t, d.SetDemand("o", "t", 0, d.pending["o"], slotsOf(1)))
				d.pass(time.Second, time.Second, "n")
			}
			d.wantRuns(runs{"o": 4})
			tc.change(d)
			d.pass(time.Minute, time.Second, "n")
			if len(d.victims) != tc.victims || d.victims[0].Message() != tc.message || d.victims[0].Job != "o-004" || !d.victims[0].For.IsZero() {
				t.Fatalf("preempted %+v, want %d and %q", d.victims, tc.victims, tc.message)
			}
			if got := d.kinds()[lifecycle.ResourceLimitsViolated]; got != tc.victims {
				t.Errorf("%v, want %d for limits", d.kinds(), tc.victims)
			}
		})
	}
}

// TestReasonsHaveUnits: amounts in the reason of a preemption are as people have them.
func TestReasonsHaveUnits(t *testing.T) {
	for name, tc := range map[string]struct {
		kind        resource.Kind
		used, limit int64
		want        string
	}{
		"memory": {resource.Memory, 3 << 30, 20132660, "operation o uses 3 GiB of memory, but its limit is 19.2 MiB"},
		"cores":  {resource.CPU, 250, 100, "operation o uses 2.5 of cpu, but its limit is 1"},
		"GPUs":   {resource.GPU, 2, 1, "operation o uses 2 of gpu, but its limit is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := engine.Preempt{Operation: "o", Kind: lifecycle.ResourceLimitsViolated, Reason: explain.Reason{Resource: tc.kind, Used: tc.used, Limit: tc.limit}}
			if got := p.Message(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestShrunkNode keeps those that are least preemptible.
func TestShrunkNode(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n", 6)
	d.wants("beyond", "a", 5, slotsOf(1), nil)
	d.tick(time.Second)
	d.beat("n")
	d.pending["beyond"] = 5
	must(t, d.SetDemand("beyond", "t", 0, 5, slotsOf(1)))
	d.tick(time.Second)
	d.wants("fair", "b", 5, slotsOf(1), nil)
	d.tick(time.Second)
	d.beat("n")
	d.wantRuns(runs{"beyond": 5, "fair": 1})
	d.node("n", 3)
	d.pass(20*time.Second, time.Second, "n")
	d.wantVictims("beyond-005 resource_overcommit", "beyond-004 resource_overcommit", "beyond-003 resource_overcommit")
	d.wantRuns(runs{"beyond": 2, "fair": 1})
}

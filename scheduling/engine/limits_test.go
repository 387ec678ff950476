package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
)

var limitNodes = []scheduling.NodeID{"n1", "n2", "n3", "n4"}

// spread has four nodes with the operations o1 to o4 of pool low, below high, started one a
// second: each runs one job there, which is all that it wants.
func spread(t *testing.T, tree, of options) *drive {
	t.Helper()
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high"}})
	for _, n := range limitNodes {
		d.node(n, 2)
	}
	for i := range 4 {
		id := scheduling.OperationID(fmt.Sprint("o", i+1))
		d.wants(id, "low", 1, slotsOf(1), of)
		d.tick(time.Second)
		d.beat(limitNodes[i])
	}
	d.wantRuns(runs{"o1": 1, "o2": 1, "o3": 1, "o4": 1})
	return d
}

// TestLimitsAreRepaired: of four operations of one job each, none of which is preemptible,
// those started last go when a limit of a pool above falls to two cores, whatever protects
// them from others.
func TestLimitsAreRepaired(t *testing.T) {
	low := func(o options) func(*drive) {
		return func(d *drive) {
			d.tree(nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high", options: o}})
		}
	}
	limit := func(cpu float64) options { return options{"resource_limits": options{"cpu": cpu}} }
	with := func(o options, name string, value any) options {
		o[name] = value
		return o
	}
	last := []string{"o4-004 resource_limits_violated", "o3-003 resource_limits_violated"}
	for name, tc := range map[string]struct {
		of     options
		change func(d *drive)
		want   []string
		says   string
	}{
		"of their pool": {nil, low(limit(2)), last, "pool low uses 4 of cpu, but its limit is 2"},
		"of a pool above": {nil, func(d *drive) {
			d.tree(nil, map[scheduling.PoolName]pool{"high": {options: limit(2)}, "low": {parent: "high"}})
		}, last, "pool high uses 4 of cpu, but its limit is 2"},
		"that is no multiple of a job":      {nil, low(limit(2.5)), last, "pool low uses 4 of cpu, but its limit is 2.5"},
		"of what no job uses":               {nil, low(options{"resource_limits": options{"gpu": 0.0, "cpu": 4.0}}), nil, ""},
		"of a pool that forbids preemption": {nil, low(with(with(limit(2), "allow_normal_preemption", false), "preemption_rate_limit", 0.0)), last, ""},
		"though they have just begun":       {options{"min_run_time": "1h"}, low(limit(2)), last, ""},
		"though they are never preempted":   {options{"max_unpreemptable_running_job_count": 5.0}, low(limit(2)), last, ""},
		"though they leave gracefully":      {options{"preemption_mode": "graceful"}, low(limit(2)), last, ""},
		"by a move": {nil, func(d *drive) {
			d.tree(nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high"}, "narrow": {options: limit(2)}})
			d.tree(nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "narrow"}, "narrow": {options: limit(2)}})
		}, last, "pool narrow uses 4 of cpu, but its limit is 2"},
		"of an operation that moves": {nil, func(d *drive) {
			d.tree(nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high"}, "none": {options: limit(0.5)}})
			must(d.t, d.SetOperation(d.record("o2", "none", nil)))
		}, []string{"o2-002 resource_limits_violated"}, "pool none uses 1 of cpu, but its limit is 0.5"},
		"of the operation too": {nil, func(d *drive) {
			low(limit(2))(d)
			must(d.t, d.SetOperation(d.record("o1", "low", limit(0))))
		}, []string{"o4-004 resource_limits_violated", "o1-001 resource_limits_violated"}, "pool low uses 4 of cpu, but its limit is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			d := spread(t, nil, tc.of)
			tc.change(d)
			d.tick(time.Second)
			// They go in whatever order their nodes are heard.
			d.beat("n4", "n1", "n3", "n2")
			for _, v := range d.victims {
				if !v.For.IsZero() {
					t.Errorf("%s goes for %v", v.Job, v.For)
				}
			}
			if tc.says != "" && (len(d.victims) == 0 || d.victims[0].Message() != tc.says) {
				t.Errorf("preempted %+v, want %q", d.victims, tc.says)
			}
			d.wantVictims(tc.want...)
			d.pass(time.Minute, time.Second, limitNodes...)
			d.wantVictims()
		})
	}
}

// TestTheChoiceIsOfAllNodes: a node that is heard first loses nothing while the jobs that
// have to go are elsewhere; and those go once their nodes are heard.
func TestTheChoiceIsOfAllNodes(t *testing.T) {
	d := spread(t, nil, nil)
	d.tree(nil, map[scheduling.PoolName]pool{"high": {options: options{"resource_limits": options{"cpu": 2.0}}}, "low": {parent: "high"}})
	d.pass(5*time.Second, time.Second, "n1", "n2")
	d.wantVictims()
	d.pass(5*time.Second, time.Second, "n3")
	d.wantVictims("o3-003 resource_limits_violated")
	// One of those that were to stay ends, so that the last one may stay.
	d.end("o1-001")
	must(t, d.RemoveOperation("o1"))
	d.beat("n4")
	d.wantVictims()
}

// TestWhatLeavesForLimits has the short time, in either mode.
func TestWhatLeavesForLimits(t *testing.T) {
	tree := options{"allocation_preemption_timeout": "7s", "allocation_graceful_preemption_timeout": "9m"}
	for _, mode := range []string{"normal", "graceful"} {
		t.Run(mode, func(t *testing.T) {
			d := spread(t, tree, options{"preemption_mode": mode})
			d.takes = time.Hour
			d.tree(tree, map[scheduling.PoolName]pool{"high": {options: options{"resource_limits": options{"cpu": 2.0}}}, "low": {parent: "high"}})
			// What is leaving has not gone, and is no usage: no more are told to go.
			d.pass(6*time.Second, time.Second, limitNodes...)
			if len(d.victims) != 2 || d.victims[0].Timeout != 7*time.Second || d.victims[1].Kind != lifecycle.ResourceLimitsViolated {
				t.Errorf("preempted %+v, want two with 7 s", d.victims)
			}
		})
	}
}

// TestPreemptibleGoFirst: the choice is by level, then by start, across operations.
func TestPreemptibleGoFirst(t *testing.T) {
	tree := options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"}
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"p": {}, "a": {parent: "p"}, "b": {parent: "p"}})
	d.node("n1", 3)
	d.node("n2", 3)
	d.wants("greedy", "a", 5, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n1", "n2")
	d.pending["greedy"] = 9
	must(t, d.SetDemand("greedy", "t", 0, 9, slotsOf(1)))
	d.wants("late", "b", 9, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n1", "n2")
	d.wantRuns(runs{"greedy": 5, "late": 1})
	d.tree(tree, map[scheduling.PoolName]pool{
		"p": {options: options{"resource_limits": options{"user_slots": 4.0}}}, "a": {parent: "p"}, "b": {parent: "p"}})
	d.pass(time.Second, time.Second, "n1", "n2")
	d.wantVictims("greedy-005 resource_limits_violated", "greedy-004 resource_limits_violated")
}

// TestCeilingsAreRepaired: what exceeds max_share_ratio goes too, once that has lasted: a
// node that comes back in time costs nobody anything.
func TestCeilingsAreRepaired(t *testing.T) {
	pools := func(ratio any) map[scheduling.PoolName]pool {
		return map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high", options: options{"max_share_ratio": ratio}}}
	}
	last := []string{"o3-003 resource_limits_violated", "o4-004 resource_limits_violated"}
	for name, tc := range map[string]struct {
		change, back func(d *drive)
		want         []string
		says         string
	}{
		"a ratio":                        {func(d *drive) { d.tree(nil, pools(0.25)) }, nil, last, "pool low uses 4 of user_slots, but its max_share_ratio allows 2"},
		"a ratio that is raised in time": {func(d *drive) { d.tree(nil, pools(0.25)) }, func(d *drive) { d.tree(nil, pools(0.5)) }, nil, ""},
		"a ratio that is taken back":     {func(d *drive) { d.tree(nil, pools(0.25)) }, func(d *drive) { d.tree(nil, map[scheduling.PoolName]pool{"high": {}, "low": {parent: "high"}}) }, nil, ""},
		"a ratio of an operation": {func(d *drive) { must(d.t, d.SetOperation(d.record("o2", "low", options{"max_share_ratio": 0.0}))) }, nil,
			[]string{"o2-002 resource_limits_violated"}, "operation o2 uses 1 of user_slots, but its max_share_ratio allows 0"},
		"a node that goes": {func(d *drive) {
			d.tree(nil, pools(0.5))
			must(d.t, d.RemoveNode("n5"))
			must(d.t, d.SetNode("n1", slotsOf(2), false))
			must(d.t, d.SetNode("n2", slotsOf(2), false))
		}, nil, last, "pool low uses 4 of user_slots, but its max_share_ratio allows 2"},
		"a node that comes back": {func(d *drive) {
			d.tree(nil, pools(0.5))
			must(d.t, d.SetNode("n1", slotsOf(2), false))
		}, func(d *drive) { d.node("n1", 2) }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := spread(t, nil, nil)
			d.node("n5", 0)
			tc.change(d)
			d.pass(10*time.Second, time.Second, limitNodes...)
			d.wantVictims()
			if tc.back != nil {
				tc.back(d)
			}
			d.pass(20*time.Second, time.Second, limitNodes...)
			if tc.says != "" && (len(d.victims) == 0 || d.victims[0].Message() != tc.says) {
				t.Errorf("preempted %+v, want %q", d.victims, tc.says)
			}
			d.wantVictims(tc.want...)
			d.pass(time.Minute, time.Second, limitNodes...)
			d.wantVictims()
		})
	}
}

// TestClaimsGoBeforeJobs: what is held for a job that has not started is given back before
// any job goes.
func TestClaimsGoBeforeJobs(t *testing.T) {
	tree := options{"fair_share_starvation_timeout": "5s"}
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n", 4)
	d.wants("greedy", "a", 9, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wants("late", "b", 9, slotsOf(1), nil)
	d.takes = time.Hour
	for len(d.Snapshot().Claims) == 0 {
		d.pass(time.Second, time.Second, "n")
	}
	d.victims = nil
	d.tree(tree, map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"resource_limits": options{"user_slots": 0.0}}}})
	d.pass(time.Second, time.Second, "n")
	d.wantVictims()
	if claims := d.Snapshot().Claims; len(claims) != 0 {
		t.Errorf("claims are %+v", claims)
	}
	facts, err := d.Facts("late")
	must(t, err)
	if facts.Ended.End != engine.ClaimOverLimits || !strings.Contains(facts.Ended.End.String(), "limits") {
		t.Errorf("the claim ended: %s", facts.Ended.End)
	}
}

package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// TestGuaranteesFirst: an operation below what guarantees promise comes before those that
// are less satisfied, where this is on.
func TestGuaranteesFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		tree options
		want starts
	}{
		"by default": {nil, starts{"promised": 1, "other": 1}},
		"off":        {options{"enable_guarantee_priority_scheduling": false}, starts{"other": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.tree, map[scheduling.PoolName]pool{
				"a": {options: options{"strong_guarantee_resources": options{"cpu": 6.0}, "compute_promised_guarantee_fair_share": true}}, "b": {options: options{"weight": 10.0}},
			})
			w.node("full", 5)
			w.node("n", 2)
			w.node("far", 3)
			w.operation("promised", "a", 0, nil)
			w.operation("other", "b", 0, nil)
			must(t, w.SetDemand("promised", "t", 0, 10, resource.Amounts{UserSlots: 1, CPU: 100}))
			w.tick(0)
			w.wantStarts(starts{"promised": 5}, "full")
			must(t, w.SetDemand("other", "t", 0, 10, resource.Amounts{UserSlots: 1, CPU: 100}))
			w.tick(time.Second)
			w.wantStarts(tc.want, "n")
		})
	}
}

// TestMinSpare: nodes with less than this free are given nothing.
func TestMinSpare(t *testing.T) {
	for name, tc := range map[string]struct {
		spare options
		want  int
	}{
		"nothing":         {nil, 5},
		"half of the cpu": {options{"min_spare_allocation_resources_on_node": options{"cpu": 0.5, "user_slots": 1.0}}, 3},
		"a slot":          {options{"min_spare_allocation_resources_on_node": options{"user_slots": 1.0}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.spare, map[scheduling.PoolName]pool{"a": {}})
			must(t, w.SetNode("n", resource.Amounts{UserSlots: 5, CPU: 100}, true))
			w.operation("o", "a", 5, nil)
			must(t, w.SetDemand("o", "t", 0, 5, resource.Amounts{UserSlots: 1, CPU: 20}))
			w.tick(0)
			w.wantStarts(starts{"o": tc.want}, "n")
			facts, err := w.Facts("o")
			must(t, err)
			if tc.want == 3 && (len(facts.Refusals) != 1 || facts.Refusals[0].Cause.String() != "scarce" || facts.Refusals[0].Of != scheduling.RootPool) {
				t.Errorf("refusals %+v", facts.Refusals)
			}
		})
	}
}

// TestMaxSchedulableInFIFO: beyond so many, those of a FIFO pool without fair share wait,
// though there is room.
func TestMaxSchedulableInFIFO(t *testing.T) {
	w := newWorld(t, options{"max_schedulable_element_count_in_fifo_pool": 2.0}, map[scheduling.PoolName]pool{
		"a": {options: options{"mode": "fifo", "max_share_ratio": 0.5}}})
	w.node("n", 8)
	w.operation("first", "a", 2, nil)
	w.operation("second", "a", 10, nil)
	w.operation("third", "a", 10, nil)
	must(t, w.SetOperation(w.record("second", "a", options{"scheduling_tag_filter": "elsewhere"})))
	w.awaited("far", 8, "elsewhere")
	w.tick(0)
	w.wantStarts(starts{"first": 2}, "n")
	w.tree(options{"max_schedulable_element_count_in_fifo_pool": 3.0}, map[scheduling.PoolName]pool{"a": {options: options{"mode": "fifo", "max_share_ratio": 0.5}}})
	w.tick(time.Second)
	w.wantStarts(starts{"third": 2}, "n")
}

// TestPacking: a job waits for a node that fits it better, and starts where it is all the
// same when nothing else can.
func TestPacking(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	for i := range 3 {
		must(t, w.SetNode(scheduling.NodeID(fmt.Sprint("good", i)), resource.Amounts{UserSlots: 1, CPU: 1000, Memory: 1000}, true))
	}
	must(t, w.SetNode("bad", resource.Amounts{UserSlots: 2, CPU: 1000, Memory: 50}, true))
	w.operation("packed", "a", 0, options{"packing": options{"enable": true}})
	needs := resource.Amounts{UserSlots: 1, CPU: 10, Memory: 10}
	must(t, w.SetDemand("packed", "t", 0, 10, needs))
	w.tick(0)
	w.wantStarts(starts{"packed": 3}, "good0", "good1", "good2")
	w.operation("other", "b", 0, nil)
	must(t, w.SetDemand("other", "t", 0, 1, needs))
	w.tick(time.Second)
	// The other takes its slot; the bad node is not for the packed one.
	w.wantStarts(starts{"other": 1}, "bad")
	w.wantStarts(starts{"packed": 1}, "bad")
	facts, err := w.Facts("packed")
	must(t, err)
	found := false
	for _, r := range facts.Refusals {
		found = found || r.Cause.String() == "unpacked" && r.Node == "bad"
	}
	if !found {
		t.Errorf("refusals %+v", facts.Refusals)
	}
}

// TestLimitTolerance: with a tolerance a starving operation may take the place of others
// in a pool that is at its limits; without, it may not.
func TestLimitTolerance(t *testing.T) {
	for name, tc := range map[string]struct {
		tolerance options
		want      runs
	}{
		"without": {nil, runs{"greedy": 2}},
		"with":    {options{"user_slots": 1.0, "cpu": 1.0}, runs{"greedy": 1, "late": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := options{"resource_limits": options{"user_slots": 2.0}}
			if tc.tolerance != nil {
				limits["resource_limits_overcommit_tolerance"] = tc.tolerance
			}
			d := newDrive(t, options{"fair_share_starvation_timeout": "5s"}, map[scheduling.PoolName]pool{"p": {options: limits}, "a": {parent: "p"}, "b": {parent: "p"}, "z": {}})
			d.node("n", 4)
			d.wants("greedy", "a", 3, slotsOf(1), nil)
			d.pass(time.Second, time.Second, "n")
			d.wants("late", "b", 3, slotsOf(1), nil)
			d.wants("outside", "z", 0, slotsOf(1), nil)
			d.pass(time.Minute, time.Second, "n")
			d.wantRuns(tc.want)
			if d.kinds()[lifecycle.ResourceLimitsViolated] != 0 {
				t.Errorf("preempted %+v", d.victims)
			}
		})
	}
}

// TestPriorityScope: with operation_only, that a pool starves helps nobody in it.
func TestPriorityScope(t *testing.T) {
	for scope, want := range map[string]int{"operation_and_ancestors": 1, "operation_only": 0} {
		t.Run(scope, func(t *testing.T) {
			d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "scheduling_preemption_priority_scope": scope, "fair_share_starvation_tolerance": 1.0},
				map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.node("n", 4)
			d.wants("greedy", "a", 4, slotsOf(1), nil)
			d.pass(time.Second, time.Second, "n")
			d.pending["greedy"] = 10
			must(t, d.SetDemand("greedy", "t", 0, 10, slotsOf(1)))
			d.wants("patient", "b", 1, slotsOf(1), options{"fair_share_starvation_timeout": "1h"})
			d.pass(20*time.Second, time.Second, "n")
			if len(d.victims) != want {
				t.Errorf("preempted %+v, want %d", d.victims, want)
			}
		})
	}
}

// TestFactsOfRefusals: who was left out where, for the want of what, by whose limits.
func TestFactsOfRefusals(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{
		"a": {options: options{"resource_limits": options{"user_slots": 1.0}}}, "low": {parent: "a"}, "b": {}, "g": {options: options{"scheduling_tag_filter": "gpu"}}})
	d.node("n", 2)
	must(t, d.SetNode("quiet", slotsOf(5), true, "gpu"))
	d.wants("limited", "low", 3, slotsOf(1), nil)
	d.wants("large", "b", 3, slotsOf(5), nil)
	d.wants("tagged", "g", 3, slotsOf(1), nil)
	d.pass(time.Second, time.Second, "n")
	type refusal struct {
		cause, of, by string
		lacks         resource.Kind
	}
	for id, want := range map[scheduling.OperationID]refusal{
		"limited": {"limited", "a", "a", resource.UserSlots},
		"large":   {"lacking", "b", "", resource.UserSlots},
		"tagged":  {"unmatched", "g", "g", 0},
	} {
		facts, err := d.Facts(id)
		must(t, err)
		got := refusal{}
		if len(facts.Refusals) > 0 {
			r := facts.Refusals[0]
			got = refusal{r.Cause.String(), string(r.Of), string(r.By), r.Resource}
			if r.Node != "n" || !r.At.Equal(d.now) || r.Count != 1 {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", id, got, want)
		}
	}
	if x, err := d.ExplainPool("a", d.now); err != nil || !slices.ContainsFunc(x.Facts, func(f explain.Fact) bool { return f.Code == explain.FactRefused }) {
		t.Errorf("refusals of pool a: %+v, %v", x.Facts, err)
	}
	if _, err := d.Facts("nobody"); err == nil {
		t.Error("there are facts of nobody")
	}
}

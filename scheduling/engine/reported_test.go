package engine_test

import (
	"math"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// poolAttribute is an attribute of a pool as readers see it.
func (d *drive) poolAttribute(of scheduling.PoolName, name string) any {
	d.t.Helper()
	s := d.Snapshot()
	for _, p := range s.Pools {
		if p.Name == of {
			return p.Attributes(s.Total)[name]
		}
	}
	d.t.Fatalf("no pool %s", of)
	return nil
}

// opAttribute is that of an operation.
func (d *drive) opAttribute(of scheduling.OperationID, name string) any {
	d.t.Helper()
	return d.seen(of).Attributes(d.Snapshot().Total)[name]
}

func wantFigure(t *testing.T, what string, got any, want float64) {
	t.Helper()
	if v, ok := got.(float64); !ok || math.Abs(v-want) > 1e-4 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestGuaranteedRatio is what is had when everybody asks without end, also of pools that
// are empty: guarantees first, and what they leave by weight.
func TestGuaranteedRatio(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{
		"a": {options: options{"strong_guarantee_resources": options{"cpu": 4.0}}}, "b": {options: options{"weight": 3.0}}, "people": {},
		"default": {}, "narrow": {options: options{"resource_limits": options{"cpu": 1.0}}},
	})
	d.node("n", 16)
	d.wants("o", "people", 1, slotsOf(1), nil)
	d.tick(time.Second)
	// 16 cpus less 4 guaranteed and 1 that narrow has at most are divided by 1, 3, 1 and 1.
	for name, want := range map[scheduling.PoolName]float64{
		scheduling.RootPool: 1, "a": (4 + 11./6) / 16, "b": 5.5 / 16, "people": 11. / 6 / 16, "default": 11. / 6 / 16, "narrow": 1. / 16,
	} {
		wantFigure(t, "guaranteed_ratio of "+string(name), d.poolAttribute(name, "guaranteed_ratio"), want)
	}
	wantFigure(t, "guaranteed_ratio of an operation alone in its pool", d.opAttribute("o", "guaranteed_ratio"), 11./6/16)
}

// TestMinShareRatio follows from settings: it is there while nobody asks for anything.
func TestMinShareRatio(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {options: options{"min_share_resources": options{"cpu": 4.0}}}})
	d.node("n", 16)
	d.wants("o", "a", 1, slotsOf(1), options{"weight": 3.0})
	d.wants("idle", "a", 0, slotsOf(1), nil)
	d.tick(time.Second)
	wantFigure(t, "of the pool", d.poolAttribute("a", "min_share_ratio"), 0.25)
	wantFigure(t, "of one with 3 of the 4 parts", d.opAttribute("o", "min_share_ratio"), 0.1875)
	wantFigure(t, "of an idle one", d.opAttribute("idle", "min_share_ratio"), 0.0625)
}

// TestFairShareRatioOfDifferentResources: two operations that need different resources most
// have more than the half of these each, and half of the cluster each.
func TestFairShareRatioOfDifferentResources(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	must(t, d.SetNode("n", resource.Amounts{UserSlots: 1000, CPU: resource.Cores(100), Memory: 100}, true))
	d.wants("cpu", "a", 1000, resource.Amounts{UserSlots: 1, CPU: resource.Cores(10), Memory: 1}, nil)
	d.wants("memory", "b", 1000, resource.Amounts{UserSlots: 1, CPU: resource.Cores(1), Memory: 10}, nil)
	d.tick(time.Second)
	for id, k := range map[scheduling.OperationID]resource.Kind{"cpu": resource.CPU, "memory": resource.Memory} {
		wantFigure(t, "fair_share_ratio of "+string(id), d.opAttribute(id, "fair_share_ratio"), 0.5)
		wantFigure(t, "fair_share of it", d.opAttribute(id, "fair_share").(map[string]any)[k.String()], 10./11)
		wantFigure(t, "dominant_fair_share of it", d.opAttribute(id, "detailed_dominant_fair_share").(map[string]any)["total"], 10./11)
	}
	wantFigure(t, "fair_share_ratio of a pool", d.poolAttribute("a", "fair_share_ratio"), 0.5)
	wantFigure(t, "fair_share_ratio of the root", d.poolAttribute(scheduling.RootPool, "fair_share_ratio"), 1)
}

// TestReportedUsage: what jobs hold that leave is used until they have gone, and what is held
// for a job that waits for them is not yet.
func TestReportedUsage(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.takes = time.Minute
	d.node("n", 4)
	d.wants("old", "a", 4, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n")
	d.wants("new", "b", 2, slotsOf(1), nil)
	d.pass(6*time.Second, time.Second, "n")
	leaving := float64(len(d.going))
	if leaving == 0 {
		t.Fatal("nobody leaves")
	}
	wantFigure(t, "usage_ratio of the one whose jobs leave", d.opAttribute("old", "usage_ratio"), 1)
	wantFigure(t, "usage_ratio of the one that waits", d.opAttribute("new", "usage_ratio"), 0)
	wantFigure(t, "claimed_ratio of it", d.opAttribute("new", "claimed_ratio"), leaving/4)
	wantFigure(t, "usage_ratio of its pool", d.poolAttribute("b", "usage_ratio"), 0)
	wantFigure(t, "claimed_resources of its pool", d.poolAttribute("b", "claimed_resources").(map[string]any)["cpu"], leaving)
	wantFigure(t, "usage_ratio of the root", d.poolAttribute(scheduling.RootPool, "usage_ratio"), 1)
	wantFigure(t, "claimed_ratio of the root", d.poolAttribute(scheduling.RootPool, "claimed_ratio"), leaving/4)
	// What it has, and what is held for it, counts where it is decided who has to leave.
	if v := d.seen("new"); v.Shares.Usage != slotsOf(int64(leaving)) {
		t.Errorf("decisions count %v as its usage", v.Shares.Usage)
	}
}

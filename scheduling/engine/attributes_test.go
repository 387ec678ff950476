package engine_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
)

// TestAttributes wants every attribute under its name, with values that JSON has.
func TestAttributes(t *testing.T) {
	shared := []string{
		"weight", "fair_share", "fair_share_ratio", "fair_resources", "detailed_fair_share", "detailed_dominant_fair_share", "usage_share", "usage_share_ratio",
		"usage_ratio", "claimed_ratio", "claimed_resources", "demand_share", "demand_ratio", "limits_share", "guaranteed_ratio", "guaranteed_share", "min_share", "min_share_ratio",
		"demanded_min_share", "strong_guarantee_share",
		"estimated_guarantee_resources", "estimated_guarantee_share", "promised_guarantee_fair_share", "limited_resource_demand", "satisfaction_ratio",
		"local_satisfaction_ratio", "scheduling_status", "starvation_status", "starving", "below_fair_share_since", "below_min_share_since", "dominant_resource", "resource_usage",
		"resource_demand", "resource_limits_exceeded", "fifo_index", "effective_fifo_index",
	}
	ofPools := []string{
		"strong_guarantee_share_by_tier", "inferred_strong_guarantee_resources", "accumulated_resource_ratio_volume",
		"alerts", "accumulated_resource_volume", "integral_pool_capacity", "integral_pool_capacity_volume", "specified_burst_ratio", "total_burst_ratio",
		"specified_resource_flow_ratio", "total_resource_flow_ratio",
	}
	ofOperations := []string{"scheduling_index", "running_job_count", "pending_job_count"}

	w := newWorld(t, options{"integral_guarantees": options{"smooth_period": "1s"}}, map[scheduling.PoolName]pool{
		"a": {options: options{"strong_guarantee_resources": options{"cpu": 1.0}, "min_share_preemption_timeout": "5s", "max_unpreemptable_running_job_count": 2.0}},
		"b": {options: options{"integral_guarantees": options{"guarantee_type": "burst", "resource_flow": options{"cpu": 1.0}, "burst_guarantee_resources": options{"cpu": 2.0}}}},
	})
	w.node("n", 4)
	w.operation("o", "a", 3, options{"max_unpreemptable_running_job_count": 1.0})
	w.operation("p", "b", 9, nil)
	since := w.now
	w.tick(0)
	w.tick(10 * time.Second)
	w.starts("n")
	s := w.Snapshot()
	attributes := map[string]map[string]any{
		"a": s.Pools[1].Attributes(s.Total), "b": s.Pools[2].Attributes(s.Total),
		"o": s.Operations[0].Attributes(s.Total), "p": s.Operations[1].Attributes(s.Total),
	}
	const ofBurstPools = "estimated_burst_usage_duration_seconds"
	for id, names := range map[string][]string{"a": slices.Concat(shared, ofPools), "b": slices.Concat(shared, ofPools, []string{ofBurstPools}), "o": slices.Concat(shared, ofOperations)} {
		if got := slices.Sorted(maps.Keys(attributes[id])); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
			t.Errorf("%s has %v,\nwant %v", id, got, slices.Sorted(slices.Values(names)))
		}
	}
	for id, of := range attributes {
		for name, value := range of {
			if !plain(value) {
				t.Errorf("%s of %s is a %T", name, id, value)
			}
		}
	}
	// Of 4 cpus pool a has 1 by guarantee, b 2 by burst, and they divide the rest.
	for _, want := range []struct {
		of, name string
		value    any
	}{
		{"a", "fair_share_ratio", 0.375}, {"o", "fair_share_ratio", 0.375}, {"b", "fair_share_ratio", 0.625},
		{"a", "detailed_dominant_fair_share", map[string]any{"total": 0.375, "strong_guarantee": 0.25, "integral_guarantee": 0.0, "weight_proportional": 0.125}},
		{"b", "detailed_dominant_fair_share", map[string]any{"total": 0.625, "strong_guarantee": 0.0, "integral_guarantee": 0.5, "weight_proportional": 0.125}},
		{"a", "min_share_ratio", 0.25}, {"o", "min_share_ratio", 0.25}, {"b", "min_share_ratio", 0.0},
		{"a", "demand_ratio", 0.75},
		{"b", "specified_resource_flow_ratio", 0.25}, {"b", "total_burst_ratio", 0.5}, {"b", "accumulated_resource_ratio_volume", 2.5}, {"b", "integral_pool_capacity", 86400 * 0.25},
		{"b", ofBurstPools, 10.0},
		{"a", "starvation_status", "starving"}, {"b", "starvation_status", "non_starving"}, {"a", "starving", true},
		{"a", "below_fair_share_since", since.Format(time.RFC3339Nano)}, {"a", "dominant_resource", "user_slots"},
		{"p", "fifo_index", nil},
	} {
		if got := attributes[want.of][want.name]; !reflect.DeepEqual(got, want.value) {
			t.Errorf("%s of %s is %v, want %v", want.name, want.of, got, want.value)
		}
	}
}

// TestSnapshotOfOne wants a pool, or an operation, by itself to be what it is among all.
func TestSnapshotOfOne(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{
		"a": {options: options{"strong_guarantee_resources": options{"cpu": 3.0}}}, "b": {options: options{"strong_guarantee_resources": options{"cpu": 3.0}}},
	})
	w.node("n", 4)
	for _, id := range []scheduling.OperationID{"o", "p", "q"} {
		w.operation(id, "a", 3, nil)
	}
	w.tick(time.Second)
	w.starts("n")
	all := w.Snapshot()
	if len(all.Pools[0].Alerts) == 0 {
		t.Fatal("the guarantees are not more than there is")
	}
	for _, want := range all.Pools {
		if got := engine.SnapshotOf(w.Engine, want.Name, ""); !reflect.DeepEqual(got.Pools, []engine.PoolView{want}) || len(got.Operations)+len(got.Nodes) > 0 || got.Total != all.Total {
			t.Errorf("pool %s: got %+v, want %+v", want.Name, got, want)
		}
	}
	for _, want := range all.Operations {
		if got := engine.SnapshotOf(w.Engine, "", want.ID); !reflect.DeepEqual(got.Operations, []engine.OperationView{want}) || len(got.Pools)+len(got.Nodes) > 0 {
			t.Errorf("operation %s: got %+v, want %+v", want.ID, got, want)
		}
	}
	if got := engine.SnapshotOf(w.Engine, "nosuch", "nosuch"); len(got.Pools)+len(got.Operations) > 0 {
		t.Errorf("got %+v of nothing", got)
	}
}

func plain(value any) bool {
	switch v := value.(type) {
	case nil, bool, string, float64:
		return true
	case []any:
		return !slices.ContainsFunc(v, func(of any) bool { return !plain(of) })
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(of any) bool { return !plain(of) })
	}
	return false
}

package scheduler

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// TestAttributes wants every attribute by its name, of a pool and of an operation,
// and that they say what the list of elements says.
func TestAttributes(t *testing.T) {
	w := newWorld(t)
	options, err := structpb.NewStruct(map[string]any{
		"integral_guarantees": map[string]any{"guarantee_type": "burst", "resource_flow": map[string]any{"user_slots": 1}, "burst_guarantee_resources": map[string]any{"user_slots": 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "saves", Options: options}}}}})
	w.register("n1", 1, 2)
	w.run("a", string(scheduling.DefaultPool), 3)
	tree, err := NewTree(engine.Default(), w.seed())
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	if err := tree.Tick(now); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Tree: scheduling.DefaultTree, Term: 3}
	shared := []string{
		"fair_share_ratio", "guaranteed_ratio", "min_share_ratio", "usage_ratio", "demand_ratio", "dominant_resource", "scheduling_status",
		"detailed_fair_share", "detailed_dominant_fair_share", "fair_resources", "usage_share", "demand_share", "limits_share", "strong_guarantee_share",
		"estimated_guarantee_resources", "estimated_guarantee_share", "promised_guarantee_fair_share", "limited_resource_demand", "satisfaction_ratio",
		"local_satisfaction_ratio", "starvation_status", "starving", "below_fair_share_since", "below_min_share_since", "resource_limits_exceeded",
	}
	for name, test := range map[string]struct {
		of   *actorpb.SchedulerViewRequest
		more []string
	}{
		"a pool": {&actorpb.SchedulerViewRequest{Pool: "saves"}, []string{
			"strong_guarantee_share_by_tier", "inferred_strong_guarantee_resources", "accumulated_resource_ratio_volume", "accumulated_resource_volume",
			"integral_pool_capacity", "specified_burst_ratio", "specified_resource_flow_ratio", "total_burst_ratio", "total_resource_flow_ratio",
			"estimated_burst_usage_duration_seconds", "alerts",
		}},
		"an operation": {&actorpb.SchedulerViewRequest{Operation: "a"}, []string{"scheduling_index", "fifo_index", "effective_fifo_index", "pending_job_count", "running_job_count"}},
	} {
		t.Run(name, func(t *testing.T) {
			view := tree.view(cfg, test.of, now)
			if len(view.GetElements()) != 1 || len(view.GetNodes()) != 0 {
				t.Fatalf("got %d elements and %d nodes, want the one that was asked for", len(view.GetElements()), len(view.GetNodes()))
			}
			e := view.GetElements()[0]
			fields := e.GetAttributes().GetFields()
			for _, name := range append(test.more, shared...) {
				if _, ok := fields[name]; !ok {
					t.Errorf("there is no %s", name)
				}
			}
			if got := fields["fair_share_ratio"].GetNumberValue(); got != e.GetFairShare() {
				t.Errorf("fair_share_ratio %v, want %v", got, e.GetFairShare())
			}
		})
	}
	all := tree.view(cfg, &actorpb.SchedulerViewRequest{}, now)
	for _, e := range all.GetElements() {
		switch {
		case e.GetAttributes() != nil:
			t.Errorf("%s: attributes that nobody asked for", e.GetId())
		case e.GetId() == "saves" && (e.GetVolume() == nil || e.GetVolumeCapacityRatio() <= 0):
			t.Errorf("saves: volume %v with room for %v", e.GetVolume(), e.GetVolumeCapacityRatio())
		case e.GetId() == string(scheduling.RootPool) && (len(e.GetAlerts()) != 1 || !strings.Contains(e.GetAlerts()[0], "guarantees of saves exceed the resources")):
			t.Errorf("a burst of more slots than there are: alerts %q", e.GetAlerts())
		case e.GetId() == "a" && (e.GetSchedulingStatus() != "below_fair_share" || e.GetFairShare() != 1):
			t.Errorf("a: %s with a fair share of %v", e.GetSchedulingStatus(), e.GetFairShare())
		}
	}
}

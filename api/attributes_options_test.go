package api

import (
	"reflect"
	"testing"

	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// TestOptionsAreAttributes: every option of a tree, a pool and an operation has a path, by its
// aliases and with '-' for '_' too: as it was set, or else what holds.
func TestOptionsAreAttributes(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"tree_options": {"integral_guarantees": {"relaxed_share_multiplier_limit": 2}, "max_ephemeral_pool_per_user": 3, "min_share_preemption_timeout": "7s"}},
		{"create": {"name": "saves", "options": {"mode": "fifo", "fifo_sort_parameters": ["start_time"], "max_share_ratio": 0.5, "resource_limits": {"cpu": 8},
			"min_share_resources": {"cpu": 2}, "max_unpreemptable_running_job_count": 4, "preemption_rate_limit": 9, "scheduling_tag_filter": "ssd & !slow",
			"integral_guarantees": {"guarantee_type": "burst", "resource_flow": {"cpu": 1}, "burst_guarantee_resources": {"cpu": 2}}}}},
		{"create": {"name": "plain"}}]}`)
	id := at(t, s.get("OperationService/Start", startBody(1, `, "pool": "plain", "max_share_ratio": 0.25, "resource_limits": {"user_slots": 2}`)), "operation_id").(string)
	get := func(path string) any {
		return s.get("AttributeService/Get", `{"path": "scheduler/pool_trees/default/`+path+`"}`)["value"]
	}
	for of, options := range map[string]any{"": pooltree.TreeOptions{}, "pools/saves/": pooltree.PoolOptions{}, "pools/plain/": pooltree.PoolOptions{},
		"pools/<Root>/": pooltree.PoolOptions{}, "operations/" + id + "/": pooltree.OperationOptions{}} {
		for _, f := range option.Fields(options) {
			get(of + f.Path)
		}
	}
	for path, want := range map[string]any{
		"max_ephemeral_pools_per_user":                                   3.0,
		"max-ephemeral-pool-per-user":                                    3.0,
		"integral_guarantees/relaxed_share_multiplier_limit":             2.0,
		"fair-share_preemption_timeout":                                  "30s",
		"pools/saves/mode":                                               "fifo",
		"pools/saves/fifo_sort_parameters":                               []any{"start_time"},
		"pools/saves/max_share_ratio":                                    0.5,
		"pools/saves/resource_limits":                                    map[string]any{"cpu": 8.0},
		"pools/saves/strong_guarantee_resources/cpu":                     2.0,
		"pools/saves/min_share_resources/cpu":                            2.0,
		"pools/saves/max_unpreemptable_running_job_count":                4.0,
		"pools/saves/preemption_rate_limit":                              9.0,
		"pools/saves/scheduling_tag_filter":                              "ssd & !slow",
		"pools/saves/integral-guarantees/resource_flow/cpu":              1.0,
		"pools/saves/integral_guarantees/guarantee_type":                 "burst",
		"pools/saves/integral_guarantees/relaxed_share_multiplier_limit": 2.0,
		"pools/saves/min_share_preemption_timeout":                       "7s",
		"pools/plain/mode":                                               "fair_share",
		"pools/plain/weight":                                             1.0,
		"pools/plain/resource_limits":                                    map[string]any{},
		"pools/plain/strong_guarantee_resources":                         map[string]any{},
		"pools/plain/integral_guarantees/guarantee_type":                 "none",
		"pools/plain/create_ephemeral_subpools":                          false,
		"pools/plain/preemption_rate_limit":                              nil,
		"pools/plain/ephemeral_subpool_config/mode":                      nil,
		"operations/" + id + "/max_share_ratio":                          0.25,
		"operations/" + id + "/resource_limits":                          map[string]any{"user_slots": 2.0},
		"operations/" + id + "/packing/enable":                           false,
	} {
		if got := get(path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

package api

import (
	"maps"
	"strings"
	"sync"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// effectivePool returns the settings that hold for a pool, by the names of its
// options.
func effectivePool(e pooltree.Effective) map[string]any {
	out := map[string]any{
		"weight":                                   e.Weight,
		"max_share_ratio":                          e.MaxShareRatio,
		"mode":                                     e.Mode,
		"fifo_sort_parameters":                     list(e.FIFOSort),
		"max_operation_count":                      float64(e.MaxOperationCount),
		"max_running_operation_count":              float64(e.MaxRunningOperationCount),
		"resource_limits":                          limits(e.Limits),
		"scheduling_tag_filter":                    e.TagFilter.String(),
		"forbid_immediate_operations":              e.ForbidImmediate,
		"enable_lightweight_operations":            e.Lightweight,
		"enable_step_function_for_gang_operations": e.GangStepFunction,
		"enable_fifo_children_reordering_for_guarantee_utilization": e.FIFOReordering,
		"allow_gang_operations":                e.AllowGangs,
		"enable_pool_starvation":               e.CanStarve,
		"use_pool_satisfaction_for_scheduling": e.PoolSatisfaction,
	}
	maps.Copy(out, e.Starvation.Document())
	maps.Copy(out, e.Preemption.Document())
	return out
}

// unsetPool returns what holds for a pool where it does not say, of those options that
// effectivePool does not have.
func unsetPool(s pooltree.Settings) map[string]any {
	return map[string]any{
		"strong_guarantee_resources":                            map[string]any{},
		"create_ephemeral_subpools":                             false,
		"compute_promised_guarantee_fair_share":                 false,
		"enable_priority_strong_guarantee_adjustment":           false,
		"enable_priority_strong_guarantee_adjustment_donorship": false,
		"always_allow_gang_operations":                          false,
		"allow_children_guarantees":                             true,
		"integral_guarantees": map[string]any{
			"guarantee_type": pooltree.NoIntegral, "resource_flow": map[string]any{}, "burst_guarantee_resources": map[string]any{},
			"relaxed_share_multiplier_limit": s.RelaxedShareMultiplierLimit, "can_accept_free_volume": true,
			"should_distribute_free_volume_among_children": s.DistributeFreeVolume,
		},
	}
}

// addOptions adds to what holds the options that were set, as they were, and null for those of
// which neither is known.
func addOptions(holds map[string]any, options any) {
	written := option.Write(options)
	for _, f := range option.Fields(options) {
		in, set := holds, written
		names := strings.Split(f.Path, "/")
		name := names[len(names)-1]
		for _, group := range names[:len(names)-1] {
			if _, known := in[group].(map[string]any); !known {
				in[group] = map[string]any{}
			}
			in = in[group].(map[string]any)
			set, _ = set[group].(map[string]any)
		}
		value, isSet := set[name]
		if _, known := in[name]; isSet || !known {
			in[name] = value
		}
	}
}

// optionNames are the names of options by their aliases.
var optionNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, options := range []any{pooltree.TreeOptions{}, pooltree.PoolOptions{}, pooltree.OperationOptions{}} {
		for _, f := range option.Fields(options) {
			for _, alias := range f.Aliases {
				names[alias] = f.Path[strings.LastIndex(f.Path, "/")+1:]
			}
		}
	}
	return names
})

// effectiveIn returns what holds for an operation in a tree with these pools.
func effectiveIn(pools pooltree.Tree, in *statepb.OperationTree) (pooltree.EffectiveOperation, error) {
	options, err := pooltree.ReadOperationOptions(in.GetOptions().AsMap())
	if err != nil {
		return pooltree.EffectiveOperation{}, err
	}
	pool, err := pools.Effective(scheduling.PoolName(in.GetPool()))
	return options.Effective(pool), err
}

// boundedIn returns which settings of an operation do not hold as they are in a tree.
func boundedIn(pools pooltree.Tree, in *statepb.OperationTree) ([]string, error) {
	options, err := pooltree.ReadOperationOptions(in.GetOptions().AsMap())
	if err != nil {
		return nil, err
	}
	pool, err := pools.Effective(scheduling.PoolName(in.GetPool()))
	return options.Bounded(scheduling.PoolName(in.GetPool()), pool), err
}

// effectiveOperation returns the settings that hold for an operation in a tree.
func effectiveOperation(e pooltree.EffectiveOperation) map[string]any {
	out := map[string]any{
		"weight":                e.Weight,
		"max_share_ratio":       e.MaxShareRatio,
		"resource_limits":       limits(e.Limits),
		"scheduling_tag_filter": e.TagFilter.String(),
		"apply_specified_resource_limits_to_demand": e.LimitsBoundDemand,
		"preemption_mode": e.PreemptionMode(),
		"packing":         e.Packing.Document(),
	}
	maps.Copy(out, e.Starvation.Document())
	return out
}

// effectiveTree returns what holds in a tree with these options, null where nothing is set
// and nothing bounds it.
func effectiveTree(options pooltree.TreeOptions) map[string]any {
	holds := option.Write(options.Complete())
	addOptions(holds, options)
	return holds
}

// limits returns the amounts that are limited, by resource.
func limits(a resource.Amounts) map[string]any {
	out := map[string]any{}
	for name, amount := range a.Map() {
		k, err := resource.ParseKind(name)
		if err == nil && a.Of(k) < resource.Infinite.Of(k) {
			out[name] = amount
		}
	}
	for i := range resource.Count {
		if k := resource.Kind(i); a.Of(k) == 0 {
			out[k.String()] = 0.0
		}
	}
	return out
}

// list returns names as a list of a document.
func list(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = name
	}
	return out
}

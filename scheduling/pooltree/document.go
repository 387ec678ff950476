package pooltree

import (
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// Document returns the options by their names, as the API shows them. What holds
// without bounds is nil.
func (s EffectiveStarvation) Document() map[string]any {
	out := map[string]any{
		"fair_share_starvation_timeout":                option.FormatDuration(s.FairShareTimeout),
		"min_share_preemption_timeout":                 option.FormatDuration(s.MinShareTimeout),
		"fair_share_aggressive_starvation_timeout":     option.FormatDuration(s.AggressiveTimeout),
		"fair_share_starvation_tolerance":              s.Tolerance,
		"fair_share_starvation_timeout_lower_bound":    option.FormatDuration(s.FairShareTimeoutBound),
		"min_share_preemption_timeout_lower_bound":     option.FormatDuration(s.MinShareTimeoutBound),
		"fair_share_starvation_tolerance_upper_bound":  s.ToleranceBound,
		"enable_aggressive_starvation":                 s.EnableAggressive,
		"preemption_satisfaction_threshold":            s.Satisfaction,
		"aggressive_preemption_satisfaction_threshold": s.AggressiveThreshold,
		"waiting_for_resources_on_node_timeout":        option.FormatDuration(s.WaitingTimeout),
		"allocation_preemption_timeout":                option.FormatDuration(s.PreemptionTimeout),
		"allocation_graceful_preemption_timeout":       option.FormatDuration(s.GracefulTimeout),
		"min_run_time":                                 option.FormatDuration(s.MinRunTime),
		"non_preemptible_resource_usage_threshold":     nil,
	}
	if s.NonPreemptible != nil {
		out["non_preemptible_resource_usage_threshold"] = s.NonPreemptible.WriteOption()
	}
	return out
}

// Document returns the options by their names, as the API shows them. What holds
// without bounds is nil.
func (p EffectivePoolPreemption) Document() map[string]any {
	out := map[string]any{
		"allow_normal_preemption":              p.AllowNormal,
		"allow_aggressive_preemption":          p.AllowAggressive,
		"preemption_rate_limit":                nil,
		"resource_limits_overcommit_tolerance": above0(p.LimitTolerance),
	}
	if p.RateLimit != NoRateLimit {
		out["preemption_rate_limit"] = float64(p.RateLimit)
	}
	return out
}

// Document returns the options by their names, as the API shows them.
func (p EffectivePacking) Document() map[string]any {
	return map[string]any{
		"enable":                          p.Enable,
		"metric":                          p.Metric,
		"max_better_past_snapshots":       float64(p.MaxBetter),
		"absolute_metric_value_tolerance": p.AbsoluteTolerance,
		"relative_metric_value_tolerance": p.RelativeTolerance,
		"min_window_size_for_schedule":    float64(p.MinWindowSize),
		"max_heartbeat_window_size":       float64(p.MaxWindowSize),
		"max_heartbeat_age":               option.FormatDuration(p.MaxHeartbeatAge),
	}
}

// PreemptionMode is the mode by its name.
func (e EffectiveOperation) PreemptionMode() string {
	if e.Graceful {
		return PreemptGracefully
	}
	return PreemptNormally
}

// above0 returns the amounts of which there are some.
func above0(a resource.Amounts) map[string]any {
	named := Resources{Amounts: a}
	for k := range named.Named {
		named.Named[k] = a.Of(resource.Kind(k)) > 0
	}
	return named.WriteOption().(map[string]any)
}

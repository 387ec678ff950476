package engine

import (
	"maps"
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Attributes returns the results of the last update for a pool, by name (F.17.5, G5): numbers,
// texts, booleans, nil, and lists and objects of these. total is Snapshot.Total. Attributes that
// follow from settings alone are left out.
func (p PoolView) Attributes(total resource.Amounts) map[string]any {
	of := shareAttributes(p.Shares, total)
	tiers := make([]any, len(p.Tiers))
	for i, tier := range p.Tiers {
		tiers[i] = vector(tier)
	}
	alerts := make([]any, len(p.Alerts))
	for i, alert := range p.Alerts {
		alerts[i] = alert
	}
	g := p.Integral
	maps.Copy(of, map[string]any{
		"alerts":                              alerts,
		"satisfaction_ratio":                  p.Shares.Attributes.PoolSatisfaction,
		"strong_guarantee_share_by_tier":      tiers,
		"inferred_strong_guarantee_resources": amounts(p.InferredGuarantee),
		"accumulated_resource_ratio_volume":   g.RatioVolume,
		"accumulated_resource_volume":         volume(g.Volume),
		"integral_pool_capacity":              g.RatioCapacity,
		"integral_pool_capacity_volume":       volume(g.Capacity),
		"specified_burst_ratio":               g.SpecifiedBurstRatio,
		"specified_resource_flow_ratio":       g.SpecifiedFlowRatio,
		"total_burst_ratio":                   g.TotalBurstRatio,
		"total_resource_flow_ratio":           g.TotalFlowRatio,
	})
	if g.Type == fairshare.Burst {
		of["estimated_burst_usage_duration_seconds"] = nil
		if g.Lasts {
			of["estimated_burst_usage_duration_seconds"] = g.BurstDuration.Seconds()
		}
	}
	return of
}

// Attributes returns the results of the last update for an operation, in the same form as
// PoolView.Attributes does.
func (op OperationView) Attributes(total resource.Amounts) map[string]any {
	of := shareAttributes(op.Shares, total)
	pending := int64(0)
	for _, t := range op.Tasks {
		pending += t.Effective
	}
	maps.Copy(of, map[string]any{
		"satisfaction_ratio": op.Shares.Attributes.LocalSatisfaction,
		"running_job_count":  float64(op.Allocations),
		"pending_job_count":  float64(pending),
		"scheduling_index":   index(op.SchedulingIndex),
	})
	return of
}

// shareAttributes are the attributes that pools and operations have in common (S1, F.17.5).
func shareAttributes(s Shares, total resource.Amounts) map[string]any {
	a, running := s.Attributes, s.Running()
	dominant := resource.Dominant(running, total)
	if running.IsZero() {
		dominant = resource.Dominant(s.DemandShare.Amounts(total), total)
	}
	of := map[string]any{
		"weight":                        s.Weight,
		"fifo_index":                    index(int(a.FIFOIndex)),
		"effective_fifo_index":          index(int(a.EffectiveFIFOIndex)),
		"fair_share_ratio":              a.FairShareRatio,
		"guaranteed_ratio":              a.GuaranteedRatio,
		"guaranteed_share":              vector(a.GuaranteedShare),
		"min_share_ratio":               a.SpecifiedMinShare.MaxComponent(),
		"min_share":                     vector(a.SpecifiedMinShare),
		"demanded_min_share":            vector(a.MinShare),
		"usage_ratio":                   s.RunningShare.MaxComponent(),
		"usage_share_ratio":             s.RunningShare.MaxComponent(),
		"claimed_ratio":                 s.ClaimedShare.MaxComponent(),
		"claimed_resources":             amounts(s.Claimed),
		"demand_ratio":                  s.DemandShare.MaxComponent(),
		"dominant_resource":             dominant.String(),
		"detailed_fair_share":           parts(a.Parts),
		"detailed_dominant_fair_share":  dominantParts(a.Parts),
		"fair_share":                    vector(s.FairShare),
		"fair_resources":                amounts(s.FairShare.Amounts(total)),
		"usage_share":                   vector(s.RunningShare),
		"demand_share":                  vector(s.DemandShare),
		"limits_share":                  vector(a.LimitsShare),
		"strong_guarantee_share":        vector(a.StrongGuaranteeShare),
		"estimated_guarantee_share":     vector(a.EstimatedGuaranteeShare),
		"estimated_guarantee_resources": amounts(a.EstimatedGuaranteeShare.Amounts(total)),
		"promised_guarantee_fair_share": parts(a.Promised),
		"limited_resource_demand":       amounts(a.LimitedDemand),
		"resource_usage":                amounts(running),
		"resource_demand":               amounts(s.DemandShare.Amounts(total)),
		"local_satisfaction_ratio":      a.LocalSatisfaction,
		"resource_limits_exceeded":      s.Exceeding(),
		"scheduling_status":             s.Clock.Status.String(),
		"starvation_status":             s.Clock.Starvation.String(),
		"starving":                      s.Clock.Starvation != preemption.NonStarving,
	}
	for name, since := range map[string]time.Time{"below_fair_share_since": s.Clock.Since, "below_min_share_since": s.Clock.MinSince} {
		of[name] = nil
		if !since.IsZero() {
			of[name] = since.UTC().Format(time.RFC3339Nano)
		}
	}
	return of
}

// Running is what running jobs hold, including those told to leave and those about to start.
func (s Shares) Running() resource.Amounts { return s.Held().Sub(s.Claimed) }

// Held is the sum of Usage and Leaving, to which limits apply when a job is to start.
func (s Shares) Held() resource.Amounts { return s.Usage.Add(s.Leaving) }

// Exceeding reports whether usage exceeds the limits.
func (s Shares) Exceeding() bool { return !s.Usage.Fits(s.Limits) }

func parts(p fairshare.Parts) map[string]any {
	return map[string]any{
		"total": vector(p.Total), "strong_guarantee": vector(p.Strong), "integral_guarantee": vector(p.Integral), "weight_proportional": vector(p.Proportional),
	}
}

// dominantParts are the parts of the fair share in the resource whose share is greatest.
func dominantParts(p fairshare.Parts) map[string]any {
	best := p.Total.MaxKind(resource.CPU)
	return map[string]any{
		"total": p.Total[best], "strong_guarantee": p.Strong[best], "integral_guarantee": p.Integral[best], "weight_proportional": p.Proportional[best],
	}
}

func vector(v resource.Vector) map[string]any { return plain(v.Map()) }

func volume(v resource.Volume) map[string]any { return plain(v.Map()) }

func amounts(a resource.Amounts) map[string]any {
	out := make(map[string]any, resource.Count)
	for i := range resource.Count {
		k := resource.Kind(i)
		out[k.String()] = float64(a.Of(k))
	}
	out[resource.CPU.String()] = a.CPU.Cores()
	return out
}

func plain(m map[string]float64) map[string]any {
	out := make(map[string]any, len(m))
	for name, value := range m {
		out[name] = value
	}
	return out
}

// index returns i as a number, or nil if i is negative.
func index(i int) any {
	if i < 0 {
		return nil
	}
	return float64(i)
}

package scheduler

import (
	"fmt"
	"maps"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// poolStatus says whether a pool has what it ought to have (P1). Pools that have
// gone, and the root, are normal.
func (t *Tree) poolStatus(p engine.PoolView) preemption.Status {
	e, err := t.current.Effective(p.Name)
	if err != nil || p.Name == scheduling.RootPool {
		return preemption.Normal
	}
	return preemption.PoolStatus(sharesOf(p.Shares), e.Starvation.Tolerance)
}

// operationStatus says whether an operation has what it ought to have.
func (t *Tree) operationStatus(op engine.OperationView) preemption.Status {
	e, err := t.current.Effective(op.Pool)
	if err != nil {
		return preemption.Normal
	}
	tolerance := t.set[string(op.ID)].options.Effective(e).Starvation.Tolerance
	return preemption.OperationStatus(sharesOf(op.Shares), tolerance, pendingJobs(op) > 0, nil)
}

func sharesOf(s engine.Shares) preemption.Shares {
	return preemption.Shares{Usage: s.UsageShare, Fair: s.FairShare, Demand: s.DemandShare}
}

// pendingJobs are those that may start.
func pendingJobs(op engine.OperationView) (pending int64) {
	for _, task := range op.Tasks {
		pending += task.Effective
	}
	return pending
}

// poolAttributes are what the engine finds of a pool, by name (F.17.5, G5).
func poolAttributes(p engine.PoolView, total resource.Amounts) map[string]any {
	of := shareAttributes(p.Shares, total)
	tiers := make([]any, len(p.Tiers))
	for i, tier := range p.Tiers {
		tiers[i] = vector(tier)
	}
	g := p.Integral
	maps.Copy(of, map[string]any{
		"satisfaction_ratio":                     p.Shares.Attributes.PoolSatisfaction,
		"strong_guarantee_share_by_tier":         tiers,
		"inferred_strong_guarantee_resources":    amounts(p.InferredGuarantee),
		"min_share_ratio":                        p.Shares.Attributes.StrongGuaranteeShare.Min(p.Shares.DemandShare).MaxComponent(),
		"accumulated_resource_ratio_volume":      g.RatioVolume,
		"accumulated_resource_volume":            volume(g.Volume),
		"integral_pool_capacity":                 volume(g.Capacity),
		"integral_pool_capacity_ratio":           g.Capacity.MinRatio(total),
		"specified_burst_ratio":                  g.SpecifiedBurstRatio,
		"specified_resource_flow_ratio":          g.SpecifiedFlowRatio,
		"total_burst_ratio":                      g.TotalBurstRatio,
		"total_resource_flow_ratio":              g.TotalFlowRatio,
		"estimated_burst_usage_duration_seconds": nil,
	})
	if g.Type == fairshare.Burst && g.Lasts {
		of["estimated_burst_usage_duration_seconds"] = g.BurstDuration.Seconds()
	}
	return of
}

// operationAttributes are what the engine finds of an operation, by name (F.17.5).
// Its min share is its part, by weight, of that of its pool (R5b).
func operationAttributes(op engine.OperationView, s engine.Snapshot) map[string]any {
	of := shareAttributes(op.Shares, s.Total)
	of["satisfaction_ratio"] = op.Shares.Attributes.LocalSatisfaction
	of["running_job_count"], of["pending_job_count"] = float64(op.Allocations), float64(pendingJobs(op))
	of["fifo_index"], of["effective_fifo_index"] = index(op.Shares.Attributes.FIFOIndex), index(op.Shares.Attributes.EffectiveFIFOIndex)
	of["min_share_ratio"] = minShare(op, s).MaxComponent()
	return of
}

// minShare is the min share of the operation's pool divided among its operations by
// weight, capped by demand.
func minShare(op engine.OperationView, s engine.Snapshot) resource.Vector {
	var pool resource.Vector
	for _, p := range s.Pools {
		if p.Name == op.Pool {
			pool = p.Shares.Attributes.StrongGuaranteeShare.Min(p.Shares.DemandShare)
		}
	}
	weights := 0.0
	for _, other := range s.Operations {
		if other.Pool == op.Pool {
			weights += other.Weight
		}
	}
	if weights <= 0 {
		return resource.Vector{}
	}
	return pool.Scale(op.Weight / weights).Min(op.Shares.DemandShare)
}

// shareAttributes are those that pools and operations have alike (S1, F.17.5).
func shareAttributes(s engine.Shares, total resource.Amounts) map[string]any {
	a := s.Attributes
	dominant := resource.Dominant(s.Usage, total)
	if s.Usage.IsZero() {
		dominant = resource.Dominant(s.DemandShare.Amounts(total), total)
	}
	return map[string]any{
		"weight":                        s.Weight,
		"fair_share_ratio":              s.FairShare.MaxComponent(),
		"guaranteed_ratio":              a.EstimatedGuaranteeShare.MaxComponent(),
		"usage_ratio":                   s.UsageShare.MaxComponent(),
		"demand_ratio":                  s.DemandShare.MaxComponent(),
		"dominant_resource":             dominant.String(),
		"detailed_fair_share":           parts(a.Parts),
		"detailed_dominant_fair_share":  dominantParts(a.Parts),
		"fair_share":                    vector(s.FairShare),
		"fair_resources":                amounts(s.FairShare.Amounts(total)),
		"usage_share":                   vector(s.UsageShare),
		"demand_share":                  vector(s.DemandShare),
		"limits_share":                  vector(a.LimitsShare),
		"strong_guarantee_share":        vector(a.StrongGuaranteeShare),
		"estimated_guarantee_share":     vector(a.EstimatedGuaranteeShare),
		"estimated_guarantee_resources": amounts(a.EstimatedGuaranteeShare.Amounts(total)),
		"promised_guarantee_fair_share": parts(a.Promised),
		"limited_resource_demand":       amounts(a.LimitedDemand),
		"resource_usage":                amounts(s.Usage),
		"resource_demand":               amounts(s.DemandShare.Amounts(total)),
		"local_satisfaction_ratio":      a.LocalSatisfaction,
	}
}

func parts(p fairshare.Parts) map[string]any {
	return map[string]any{
		"total": vector(p.Total), "strong_guarantee": vector(p.Strong), "integral_guarantee": vector(p.Integral), "weight_proportional": vector(p.Proportional),
	}
}

// dominantParts are those of the resource of which the share is greatest.
func dominantParts(p fairshare.Parts) map[string]any {
	best := resource.CPU
	for i, part := range p.Total {
		if part > p.Total[best] {
			best = resource.Kind(i)
		}
	}
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

// index is nil where there is none.
func index(i int) any {
	if i < 0 {
		return nil
	}
	return float64(i)
}

// attributesOf returns attributes as a message.
func attributesOf(of map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(of)
	if err != nil {
		// Invariant: the functions above make what a message can hold.
		panic(fmt.Sprintf("attributes: %v", err))
	}
	return s
}

// volumeView is the volume of a pool that has, or has had, integral guarantees; nil
// of others.
func volumeView(p engine.PoolView) *statepb.PoolVolume {
	if p.Integral.Type == fairshare.NoIntegral && p.Integral.Volume.IsZero() {
		return nil
	}
	v := p.Integral.Volume
	return &statepb.PoolVolume{
		Pool: string(p.Name), UserSlots: v.Of(resource.UserSlots), CpuHundredths: int64(v.CPU), Gpu: v.Of(resource.GPU), Memory: v.Of(resource.Memory),
		Network: v.Of(resource.Network),
	}
}

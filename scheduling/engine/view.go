package engine

import (
	"cmp"
	"slices"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

func (tr *tree) viewPool(p *pool, into []PoolView) []PoolView {
	v := PoolView{
		Name:              p.name,
		ID:                p.id,
		Shares:            tr.viewShares(&p.element, p.claimed()),
		Effective:         p.effective,
		InferredGuarantee: p.share.Pool.InferredGuarantee,
		Tiers:             p.share.Pool.Tiers,
		Integral:          viewIntegral(p.share.Pool, tr.cluster.total),
	}
	if p.parent != nil {
		v.Parent = p.parent.name
	}
	into = append(into, v)
	below := slices.SortedFunc(slices.Values(p.pools), func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	for _, c := range below {
		into = tr.viewPool(c, into)
	}
	return into
}

func (tr *tree) viewShares(of *element, claimed resource.Amounts) Shares {
	s, order := of.share, of.order
	v := Shares{
		Weight:       s.Weight,
		Usage:        order.Usage(),
		Leaving:      order.Leaving(),
		Claimed:      claimed,
		UsageShare:   resource.Share(order.Usage(), tr.cluster.total),
		ClaimedShare: resource.Share(claimed, tr.cluster.total),
		DemandShare:  s.DemandShare,
		FairShare:    s.FairShare,
		Satisfaction: order.Satisfaction(),
		Limits:       of.limits,
		Clock:        of.clock,
		Attributes: Attributes{
			Result:            s.Result,
			Parts:             s.Parts(),
			Promised:          s.PromisedParts(),
			GuaranteedRatio:   tr.shares.GuaranteedRatio(s),
			SpecifiedMinShare: s.SpecifiedMinShare(),
			LimitedDemand:     s.LimitedDemandShare.Amounts(tr.cluster.total),
		},
	}
	v.RunningShare = resource.Share(v.Running(), tr.cluster.total)
	return v
}

// claimed is what is held for jobs of the operation that have not started.
func (op *operation) claimed() (sum resource.Amounts) {
	for _, c := range op.claims {
		sum = sum.Add(c.resources)
	}
	return sum
}

// claimed is that of all operations in the pool and below.
func (p *pool) claimed() (sum resource.Amounts) {
	for _, op := range p.operations {
		sum = sum.Add(op.claimed())
	}
	for _, c := range p.pools {
		sum = sum.Add(c.claimed())
	}
	return sum
}

func viewIntegral(p *fairshare.Pool, total resource.Amounts) Integral {
	v := Integral{
		Type:          p.Integral.Type,
		Volume:        p.Volume,
		RatioVolume:   p.Volume.MinRatio(total),
		Capacity:      p.Capacity,
		RatioCapacity: p.Capacity.MinRatio(total),
		Ratios:        p.Ratios,
	}
	v.BurstDuration, v.Lasts = p.BurstDuration(total)
	return v
}

func (gs *gangs) viewOperation(op *operation) OperationView {
	v := OperationView{
		Operation:       op.Operation,
		Removed:         op.removed,
		Shares:          gs.tree.viewShares(&op.element, op.claimed()),
		Effective:       op.effective,
		SchedulingIndex: -1,
		Tasks:           make([]TaskView, 0, len(op.tasks)),
		Allocations:     op.held,
		Leaving:         op.leavers,
		Bounds:          *op.groups.Bounds(),
	}
	for _, t := range op.tasks {
		v.Allocations -= int(t.inFlight)
		v.Tasks = append(v.Tasks, TaskView{Name: t.Name, Group: t.Group, Pending: t.pending, InFlight: t.inFlight, Claimed: t.claimed, Effective: t.effective(), PerJob: t.perJob, Out: t.out, Gang: gs.view(op, t.Name)})
	}
	return v
}

func (h *holding) view() Holding {
	v := Holding{Ticket: h.ticket, Allocation: Allocation{
		Job: h.Job, Operation: h.operation.ID, Task: h.task.Name, Group: h.task.Group, Node: h.node.id, Resources: h.Resources, Started: h.Started,
	}, Level: h.Level()}
	if l := h.leaving; l != nil {
		v.Leaving, v.Deadline, v.Kind, v.Reason = true, l.deadline, l.kind, l.reason
		if l.claim != nil {
			v.For = l.claim.beneficiary()
		}
	}
	return v
}

package engine

import (
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// update finds fair shares, and how pools and operations fare by them.
type update struct {
	*tree

	gangs *gangs

	// ticked is the time of the last one, alerts what it found wrong.
	ticked time.Time
	alerts []fairshare.Alert
	// below says that somebody was below its fair share or its min share.
	below bool
}

// prepare gives the update what changed since the last one.
func (u *update) prepare(p *pool, now time.Time) {
	for _, c := range p.pools {
		u.prepare(c, now)
	}
	p.rate.Forget(now)
	p.share.Limits = u.cluster.limitsOf(p.effective.Limits, p.filter)
	for _, op := range p.operations {
		op.share.Usage = op.order.Usage()
		op.share.Demand, op.share.PendingJobs = op.demand()
		op.share.Limits = u.cluster.limitsOf(op.effective.Limits, op.filter)
		u.prepareBest(op, now)
	}
}

// prepareBest finds the best allocation share of an operation, if it is time to. One
// that asks for nothing has no shape.
func (u *update) prepareBest(op *operation, now time.Time) {
	if op.share.Demand.IsZero() {
		op.bestAt, op.share.BestAllocation = time.Time{}, resource.Ones
		return
	}
	if !u.cluster.nodesChanged && !op.bestAt.IsZero() && now.Sub(op.bestAt) < u.moment.settings.BestAllocationSharePeriod {
		return
	}
	op.bestAt = now
	op.share.BestAllocation = fairshare.BestAllocationShare(op.share.Demand, u.cluster.total, u.cluster.memory)
}

// publish gives the result of the update to the order of scheduling, and to the groups
// of allocations.
func (u *update) publish(p *pool, passed time.Duration) {
	var kinds allocation.Kinds
	for _, c := range p.pools {
		c.bound(c.effective.Limits, ceiling(c.share, p.share.LimitsShare, u.cluster.total))
		c.order.SetRank(rank(c.share))
		c.surplus = p.surplus || u.surplus(p, c.share)
		u.publish(c, passed)
		kinds = kinds.And(c.order.Kinds())
		parts := c.share.Parts()
		c.promised = parts.Strong.Add(parts.Integral)
		c.order.SetPromised(c.promised)
		u.owe(&c.element, passed, c.effective.PoolSatisfaction)
	}
	for _, op := range p.operations {
		s := op.share
		op.bound(op.effective.Limits, ceiling(s, p.share.LimitsShare, u.cluster.total))
		op.order.SetRank(rank(s))
		op.order.SetShares(s.FairShare, s.DemandShare, u.cluster.total, allocation.Kinds{})
		kinds = kinds.And(op.order.Kinds())
		promised := resource.Vector{}
		if u.moment.settings.Preemption.GuaranteePriority {
			promised = s.PromisedParts().Total
		}
		op.order.SetPromised(promised)
		u.owe(&op.element, passed, p.effective.PoolSatisfaction)
		op.order.SetEnabled(op.active() && !p.surplus && !u.surplus(p, s))
		op.groups.SetBounds(u.tree.bounds(op))
	}
	p.order.SetShares(p.share.FairShare, p.share.DemandShare, u.cluster.total, kinds)
}

// surplus elements are those of a FIFO pool that have no fair share and come after as
// many as may be scheduled (F.13).
func (u *update) surplus(p *pool, s *fairshare.Element) bool {
	most := u.moment.settings.Preemption.MaxSchedulableInFIFO
	return p.effective.Mode == pooltree.FIFO && s.FairShare.MaxComponent() <= resource.Epsilon && rank(s) >= most
}

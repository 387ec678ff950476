package engine

import (
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// update computes fair shares and, from these, which pools and operations starve.
type update struct {
	*gangs

	// ticked is the time of the last update. alerts are the problems that the update found.
	ticked time.Time
	alerts []fairshare.Alert
	// below says that some element was below its fair share or its min share.
	below bool
	// changed are the operations whose input is not that of the last update. whole says that more has
	// changed than that.
	changed []*fairshare.Element
	whole   bool
}

// divide computes the fair shares: if only operations have changed, at the cost of these.
func (u *update) divide(now time.Time) (fairshare.Report, error) {
	clear(u.changed)
	u.changed, u.whole = u.changed[:0], u.moment.stale
	u.prepare(u.tree.root, now)
	if u.whole {
		return u.tree.shares.Update(u.cluster.total, now)
	}
	return u.tree.shares.UpdateChanged(u.cluster.total, now, u.changed)
}

// input is what of an operation the update reads.
type input struct {
	usage, demand, limits resource.Amounts
	pending               int64
	best                  resource.Vector
}

func inputOf(s *fairshare.Element) input {
	return input{s.Usage, s.Demand, s.Limits, s.PendingJobs, s.BestAllocation}
}

// prepare sets the input of the update: usage, demand and limits.
func (u *update) prepare(p *pool, now time.Time) {
	for _, c := range p.pools {
		u.prepare(c, now)
	}
	p.rate.Forget(now)
	limits := u.cluster.limitsOf(p.effective.Limits, p.filter)
	u.whole = u.whole || limits != p.share.Limits
	p.share.Limits = limits
	for _, op := range p.operations {
		s, before := op.share, inputOf(op.share)
		s.Usage = op.order.Usage()
		s.Demand, s.PendingJobs = op.demand()
		s.Limits = u.cluster.limitsOf(op.effective.Limits, op.filter)
		u.prepareBest(op, now)
		if inputOf(s) != before {
			u.changed = append(u.changed, s)
		}
	}
}

// prepareBest computes the best allocation share of an operation, if it is time to. An operation
// without demand has no best allocation share.
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

// publish passes the result of the update to the order of scheduling and to the groups of
// allocations.
func (u *update) publish(p *pool, passed time.Duration) {
	var kinds allocation.Kinds
	for _, c := range p.pools {
		c.bound(c.limits, ceiling(c.share, p.share.LimitsShare, u.cluster.total))
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
		op.bound(op.limits, ceiling(s, p.share.LimitsShare, u.cluster.total))
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

// surplus reports whether an element of a FIFO pool has no fair share, and the elements before it
// are already as many as may be scheduled (F.13).
func (u *update) surplus(p *pool, s *fairshare.Element) bool {
	most := u.moment.settings.Preemption.MaxSchedulableInFIFO
	return p.fifo && s.FairShare.MaxComponent() <= resource.Epsilon && rank(s) >= most
}

// starve updates the starvation clocks of p and of all elements below it from the shares of an
// update (F.11).
func (u *update) starve(p *pool, now time.Time) {
	for _, c := range p.pools {
		u.starve(c, now)
	}
	for _, op := range p.operations {
		s, limits := sharesOf(op.share), op.effective.Starvation
		t := u.tree.timeoutsOf(op)
		if g := u.gangs.gathering; g != nil && g.operation == op {
			// What is held for a gang that gathers is useless until there is room for all of it.
			s.Usage = s.Usage.Sub(resource.Share(gathered(op.claims, g), u.cluster.total))
		}
		// Jobs that already hold a claim no longer count as waiting to start.
		waits := op.share.Schedulable() && op.share.PendingJobs > 0
		op.least = u.leastOf(op)
		status := preemption.OperationStatus(s, limits.Tolerance, waits, op.least)
		op.clock.Judge(now, status, status == preemption.BelowFairShare, waits && preemption.BelowMinShare(s), t)
		u.below = u.below || !op.clock.From().IsZero()
		op.fromStarving = u.moment.settings.Preemption.FromStarving
	}
	if p.parent == nil {
		return
	}
	s := sharesOf(p.share)
	status := preemption.PoolStatus(s, p.effective.Starvation.Tolerance)
	p.clock.Judge(now, status, status == preemption.BelowFairShare || p.lacks(), preemption.BelowMinShare(s), p.timeouts())
	u.below = u.below || !p.clock.From().IsZero()
}

// lacks reports whether one more whole job would bring a pool nearer to its fair share, even within
// the tolerance: a pool of many jobs would otherwise never get that job. A pool whose tolerance is
// 0 does not starve for its fair share.
func (p *pool) lacks() bool {
	next := p.order.Next()
	return p.effective.Starvation.Tolerance > 0 && next != resource.Infinite &&
		p.order.Lack(resource.Amounts{}, next) > resource.Epsilon && starver{pool: p}.owed(next, resource.Amounts{}, resource.Amounts{})
}

// timeouts returns the timeouts after which a pool starves. They are lengthened, in proportion, if
// the pool lacks less of its fair share than is tolerated.
func (p *pool) timeouts() preemption.Timeouts {
	t, k := timeouts(p.effective.Starvation, p.effective.CanStarve), p.order.Decisive(p.order.Next())
	missing := p.share.FairShare[k] - p.share.UsageShare[k]
	if missing <= 0 {
		return t
	}
	return t.Lengthened((1 - p.effective.Starvation.Tolerance) * p.share.FairShare[k] / missing)
}

func sharesOf(e *fairshare.Element) preemption.Shares {
	return preemption.Shares{Usage: e.UsageShare, Fair: e.FairShare, Min: e.MinShare, Demand: e.DemandShare}
}

// timeoutsOf returns the timeouts after which an operation starves. They are shorter if it has few
// jobs to start.
func (tr *tree) timeoutsOf(op *operation) preemption.Timeouts {
	return timeouts(op.effective.Starvation, true).Shortened(op.share.PendingJobs, tr.moment.settings.Preemption.CountCoefficient)
}

func timeouts(s pooltree.EffectiveStarvation, canStarve bool) preemption.Timeouts {
	return preemption.Timeouts{
		CanStarve: canStarve, FairShare: s.FairShareTimeout, MinShare: s.MinShareTimeout,
		CanStarveAggressively: s.EnableAggressive, Aggressive: s.AggressiveTimeout,
	}
}

// leastOf returns the smallest amount of each resource that any waiting job of an operation needs,
// as a share. It is nil if no job waits, or if the tree does not tolerate deficits smaller than
// such a job.
func (u *update) leastOf(op *operation) *resource.Vector {
	if !u.moment.settings.Preemption.AbsoluteTolerance {
		return nil
	}
	needs := resource.Infinite
	for i := range op.tasks {
		if t := &op.tasks[i]; t.effective() > 0 && !t.out {
			needs = needs.Min(t.perJob)
		}
	}
	if needs == resource.Infinite {
		return nil
	}
	share := resource.Share(needs, u.cluster.total)
	return &share
}

package engine

import (
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// starve tells p, and all below, how they fare by the shares of an update (F.11).
func (u *update) starve(p *pool, now time.Time) {
	for _, c := range p.pools {
		u.starve(c, now)
	}
	for _, op := range p.operations {
		s, limits := sharesOf(op.share), op.effective.Starvation
		t := u.tree.timeoutsOf(op)
		if g := u.gangs.gathering; g != nil && g.operation == op {
			// Of a gang that gathers, nothing is had until all of it is.
			s.Usage = s.Usage.Sub(resource.Share(g.gathered(), u.cluster.total))
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

// leastOf is the share of the least that a waiting job of an operation needs of each resource, if
// the tree tolerates that less is missing.
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

// lacks reports whether one more job is missing to the fair share of a pool, be it less than
// is tolerated: a pool of many jobs would have less for ever. A pool whose tolerance is 0 does
// not starve for its fair share.
func (p *pool) lacks() bool {
	next := p.order.Next()
	return p.effective.Starvation.Tolerance > 0 && next != resource.Infinite &&
		p.order.Lack(resource.Amounts{}, next) > resource.Epsilon && starver{pool: p}.owed(next, resource.Amounts{}, resource.Amounts{})
}

// timeouts are those of a pool: the less is missing of what is tolerated, the longer.
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

// timeoutsOf are those of an operation, for as many jobs as it has to start.
func (tr *tree) timeoutsOf(op *operation) preemption.Timeouts {
	return timeouts(op.effective.Starvation, true).Shortened(op.share.PendingJobs, tr.moment.settings.Preemption.CountCoefficient)
}

func timeouts(s pooltree.EffectiveStarvation, canStarve bool) preemption.Timeouts {
	return preemption.Timeouts{
		CanStarve: canStarve, FairShare: s.FairShareTimeout, MinShare: s.MinShareTimeout,
		CanStarveAggressively: s.EnableAggressive, Aggressive: s.AggressiveTimeout,
	}
}

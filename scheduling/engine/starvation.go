package engine

import (
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
)

// starve tells p, and all below, how they fare by the shares of an update (F.11).
func (e *Engine) starve(p *pool, now time.Time) {
	for _, c := range p.pools {
		e.starve(c, now)
	}
	for _, op := range p.operations {
		s, limits := sharesOf(op.share), op.effective.Starvation
		t := e.timeoutsOf(op)
		// Who only waits for what leaves has no jobs to start.
		waits := op.share.Schedulable() && op.share.PendingJobs > 0
		op.hunger.Judge(now, preemption.OperationStatus(s, limits.Tolerance, waits, nil), belowMin(op.share), t)
		op.fromStarving = e.settings.Preemption.FromStarving
	}
	status := preemption.Normal
	if p.parent != nil {
		status = preemption.PoolStatus(sharesOf(p.share), p.effective.Starvation.Tolerance)
	}
	p.hunger.Judge(now, status, belowMin(p.share), timeouts(p.effective.Starvation, p.effective.CanStarve))
}

func sharesOf(e *fairshare.Element) preemption.Shares {
	return preemption.Shares{Usage: e.UsageShare, Fair: e.FairShare, Demand: e.DemandShare}
}

// belowMin reports whether an element uses less than it can insist on (R5b).
func belowMin(e *fairshare.Element) bool {
	s := preemption.Shares{Usage: e.UsageShare, Fair: e.MinShare, Demand: e.DemandShare}
	return preemption.PoolStatus(s, 1) == preemption.BelowFairShare
}

// timeoutsOf are those of an operation, for as many jobs as it has to start.
func (e *Engine) timeoutsOf(op *operation) preemption.Timeouts {
	return timeouts(op.effective.Starvation, true).Shortened(op.share.PendingJobs, e.settings.Preemption.CountCoefficient)
}

func timeouts(s pooltree.EffectiveStarvation, canStarve bool) preemption.Timeouts {
	return preemption.Timeouts{
		CanStarve: canStarve, FairShare: s.FairShareTimeout, MinShare: s.MinShareTimeout,
		CanStarveAggressively: s.EnableAggressive, Aggressive: s.AggressiveTimeout,
	}
}

package engine

import (
	"cmp"
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// graceful has jobs leave ahead of need whose operations want that.
type graceful struct {
	*holdings

	victims *selector
	repair  *repair

	// any says that there are such operations.
	any     bool
	scratch []*holding
}

// dismiss has those allocations of a node go that their operations want to go as soon as
// they are beyond the fair share, the latest started first (J.3.1): that of the operation,
// or that of its pool to the nearest job, of operations that have more than their own.
func (gr *graceful) dismiss(n *node, now time.Time, plan *Plan) {
	if !gr.any {
		return
	}
	all := gr.scratch[:0]
	for _, h := range n.held {
		op := h.operation
		if op.effective.Graceful && h.Grouped() && h.repair != gr.repair.round && now.Sub(h.Started) >= op.effective.Starvation.MinRunTime &&
			(h.Level() == preemption.Preemptible || op.pool.exceeds(h)) {
			all = append(all, h)
		}
	}
	gr.scratch = all
	slices.SortFunc(all, laterFirst)
	gr.victims.selections++
	for _, h := range all {
		op := h.operation
		if (h.Gracefully() || gr.goesForPool(h, now)) && !gr.victims.secured(op, h.Resources) && gr.victims.rate(h, now) {
			gr.holdings.preempt(h, now, lifecycle.GracefulPreemption, nil, gr.victims.beyond(h, preemption.NormalStage, turn{}), plan)
			op.settled, op.settledIn = op.order.Usage(), gr.moment.age
		}
	}
}

// goesForPool reports whether h is one of the latest of what its pool has beyond its fair
// share, and does not have to go for limits.
func (gr *graceful) goesForPool(h *holding, now time.Time) bool {
	op := h.operation
	if op.pool.parent == nil || !op.pool.exceeds(h) || op.order.Satisfaction() <= op.kept()+resource.Epsilon || !gr.victims.latest(h) {
		return false
	}
	_, violates := gr.repair.exceeds((*allocation.Element).Usage, h, now)
	return !violates
}

// withheld reports whether an operation that is preempted gracefully has its part: a job
// that starts would be told to go at once, or take the place of one that has been told and
// has not gone. It starts one that brings its pool nearer to the fair share, or that is all
// within its own; below the root, one that brings it nearer to its own. But in the age in
// which some were told to go, in which only what it uses itself moves its share, it starts
// none that brings it above what it was left with.
func (gr *graceful) withheld(op *operation, needs resource.Amounts) bool {
	if !op.effective.Graceful {
		return false
	}
	held := op.order.Usage().Add(op.order.Leaving())
	switch {
	case !op.groups.Bounds().Below(held), op.settledIn == gr.moment.age && !held.Add(needs).Fits(op.settled):
		return true
	case op.pool.parent == nil:
		return !op.order.Owed(needs, .5)
	default:
		return !op.order.Owed(needs, 1) && !op.pool.order.Owed(needs, .5)
	}
}

func laterFirst(a, b *holding) int {
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Job, a.Job))
}

// easiestFirst puts the most preemptible first, and of those the latest started.
func easiestFirst(a, b *holding) int {
	return a.Easier(&b.Member)
}

// rated reports whether preemptions of this kind count in rates: those of a node that has
// too little, and those above limits, have to be.
func rated(kind lifecycle.PreemptionKind) bool {
	switch kind {
	case lifecycle.Preemption, lifecycle.AggressivePreemption, lifecycle.GracefulPreemption:
		return true
	default:
		return false
	}
}

// rate reports whether one more job of the operation of h may be preempted in this
// minute.
func (sel *selector) rate(h *holding, now time.Time) bool {
	if !sel.tree.rated {
		return true
	}
	for p := h.operation.pool; p != nil; p = p.parent {
		if limit := p.effective.Preemption.RateLimit; limit != pooltree.NoRateLimit && p.rate.Left(now, limit) <= 0 {
			return false
		}
	}
	return true
}

// withinRates keeps those candidates, the first ones that would go, that may all be
// preempted in this minute.
func (sel *selector) withinRates(candidates []*holding, now time.Time, spared func(*holding, preemption.Block)) []*holding {
	kept := candidates[:0]
	for _, h := range candidates {
		if !sel.rate(h, now) {
			spared(h, preemption.BlockedByRate)
			continue
		}
		kept = append(kept, h)
		h.operation.pool.taken(now, true)
	}
	for _, h := range kept {
		h.operation.pool.taken(now, false)
	}
	return kept
}

// taken counts a preemption at a time in the rates of p and all above that have a limit,
// or takes it back.
func (p *pool) taken(at time.Time, count bool) {
	for ; p != nil; p = p.parent {
		switch {
		case p.effective.Preemption.RateLimit == pooltree.NoRateLimit:
		case count:
			p.rate.Take(at)
		default:
			p.rate.Undo(at)
		}
	}
}

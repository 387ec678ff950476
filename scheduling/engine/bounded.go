package engine

import (
	"cmp"
	"slices"
	"time"

	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// dismiss has those allocations of a node go that their operations want to go as soon as
// they are beyond the fair share, the latest started first (J.3.1).
func (e *Engine) dismiss(n *node, now time.Time, plan *Plan) {
	if !e.gracefully {
		return
	}
	all := e.scratch[:0]
	for _, h := range n.held {
		op := h.operation
		if op.effective.Graceful && h.Grouped() && h.Level() == preemption.Preemptible && now.Sub(h.Started) >= op.effective.Starvation.MinRunTime {
			all = append(all, h)
		}
	}
	e.scratch = all
	slices.SortFunc(all, laterFirst)
	for _, h := range all {
		if h.Gracefully() && e.rate(h, now) {
			e.preempt(h, now, lifecycle.GracefulPreemption, nil, e.beyond(h, preemption.NormalStage, starver{}), plan)
			h.operation.settled = settled{usage: h.operation.order.Usage(), bound: h.operation.graceBound(), is: true, fresh: true}
		}
	}
}

// settled is what an operation that is preempted gracefully was left with the last time,
// and the bound that it was cut at: the greater one of that before and that after, for a
// fair share also depends on what is used.
type settled struct {
	usage, bound resource.Amounts
	is, fresh    bool
}

// settleGrace takes the bound of an update, once those that were told have gone.
func (op *operation) settleGrace() {
	if op.settled.fresh && op.leavers == 0 {
		op.settled.bound, op.settled.fresh = op.settled.bound.Max(op.graceBound()), false
	}
}

// graceBound is the fair share times the threshold.
func (op *operation) graceBound() resource.Amounts {
	b := op.groups.Bounds()
	return b.Fair.Scale(b.Threshold).Amounts(b.Total)
}

// withheld reports whether an operation that is preempted gracefully has its part: a job
// that starts would be told to go at once, or take the place of one that has been told and
// has not gone. Once some were told, it starts no more than it was left with, until its
// share has grown by a job: one that moves by less than that moves nothing back and forth.
func (op *operation) withheld(needs resource.Amounts) bool {
	if !op.effective.Graceful {
		return false
	}
	held := op.order.Usage().Add(op.order.Leaving())
	if !op.groups.Bounds().Below(held) {
		return true
	}
	if !op.settled.is || held.Add(needs).Fits(op.settled.usage) {
		return false
	}
	grown := op.graceBound().Sub(op.settled.bound)
	for k := range resource.Kind(resource.Count) {
		if n := needs.Of(k); n > 0 && grown.Of(k) >= n {
			return false
		}
	}
	return true
}

// enforce has those allocations of a node go that could be victims in a stage, and of
// which the operation or a pool above uses more than its limits: the most preemptible
// and latest started first, while this is so.
func (e *Engine) enforce(stage preemption.Stage, n *node, now time.Time, plan *Plan) {
	all := e.scratch[:0]
	for _, h := range n.held {
		if h.Grouped() && stage.Takes(h.Level()) && !h.operation.effective.Graceful {
			all = append(all, h)
		}
	}
	e.scratch = all
	slices.SortFunc(all, easiestFirst)
	for _, h := range all {
		if reason, exceeds := h.exceeds(); exceeds {
			e.preempt(h, now, lifecycle.ResourceLimitsViolated, nil, reason, plan)
		}
	}
}

// exceeds reports whether the operation of h, or a pool above it, the nearest first, uses
// more than its limits of something that h holds.
func (h *holding) exceeds() (Reason, bool) {
	op := h.operation
	if r, exceeds := violation(op.order.Usage(), op.effective.Limits, h.Resources); exceeds {
		return r, true
	}
	for p := op.pool; p != nil; p = p.parent {
		if r, exceeds := violation(p.order.Usage(), p.effective.Limits, h.Resources); exceeds {
			r.Pool = p.name
			return r, true
		}
	}
	return Reason{}, false
}

// violation is the first resource of which more is used than the limit, and of which one
// holds something.
func violation(usage, limits, holds resource.Amounts) (Reason, bool) {
	if usage.Fits(limits) {
		return Reason{}, false
	}
	for k := range resource.Kind(resource.Count) {
		if usage.Of(k) > limits.Of(k) && holds.Of(k) > 0 {
			return Reason{Resource: k, Used: usage.Of(k), Limit: limits.Of(k)}, true
		}
	}
	return Reason{}, false
}

func laterFirst(a, b *holding) int {
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Job, a.Job))
}

// easiestFirst puts the most preemptible first, and of those the latest started.
func easiestFirst(a, b *holding) int {
	return cmp.Or(cmp.Compare(b.Level(), a.Level()), laterFirst(a, b))
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
func (e *Engine) rate(h *holding, now time.Time) bool {
	if !e.rated {
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
func (e *Engine) withinRates(candidates []*holding, now time.Time) []*holding {
	kept := candidates[:0]
	for _, h := range candidates {
		if !e.rate(h, now) {
			h.operation.spared[preemption.BlockedByRate]++
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

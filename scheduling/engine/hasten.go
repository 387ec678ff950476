package engine

import (
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// countGentle counts those that leave gracefully.
func (e *Engine) countGentle(kind lifecycle.PreemptionKind, n int) {
	if kind == lifecycle.GracefulPreemption {
		e.gentle += n
	}
}

// mayHasten reports whether h leaves gracefully, later than one does that has to go for limits.
func (h *holding) mayHasten(now time.Time) bool {
	l := h.leaving
	return l != nil && l.committed && l.kind == lifecycle.GracefulPreemption && l.deadline.After(now.Add(h.operation.effective.Starvation.PreemptionTimeout))
}

// withLeaving is all that an element holds.
func withLeaving(of *allocation.Element) resource.Amounts { return of.Usage().Add(of.Leaving()) }

// chooseHastened chooses, of those that leave gracefully, the ones that have to go sooner, since
// their operations, or pools above, hold more than they may as long as they are there. Those that
// started last go first.
func (e *Engine) chooseHastened(now time.Time) {
	if e.gentle == 0 {
		return
	}
	x := excess{engine: e, held: withLeaving}
	if x.find(e.root, nil, now); len(x.all) == 0 {
		return
	}
	var late []*holding
	for _, h := range e.allocations {
		switch {
		case h.leaving == nil || x.of[h.operation] == nil:
		case h.mayHasten(now):
			late = append(late, h)
		default:
			x.of[h.operation].Sub(h.Resources)
		}
	}
	slices.SortFunc(late, laterFirst)
	for _, h := range late {
		if of := x.of[h.operation]; of.RelievedBy(h.Resources) {
			h.leaving.hasten = e.repairs
			of.Sub(h.Resources)
		}
	}
}

// hastenOn does so on a node that has less than its allocations hold.
func (e *Engine) hastenOn(n *node, now time.Time) {
	held := n.usage
	var late []*holding
	for _, h := range n.held {
		switch {
		case h.mayHasten(now):
			late = append(late, h)
		case h.leaving != nil:
			held = held.Sub(h.Resources)
		}
	}
	slices.SortFunc(late, laterFirst)
	for _, h := range late {
		if !held.Fits(n.limits) {
			h.leaving.hasten = e.repairs
			held = held.Sub(h.Resources)
		}
	}
}

// hasten has those of a node go sooner that were chosen, each once in an update.
func (e *Engine) hasten(n *node, now time.Time, plan *Plan) {
	if e.gentle == 0 {
		return
	}
	for _, h := range n.held {
		if h.leaving == nil || h.leaving.hasten != e.repairs || !h.mayHasten(now) {
			continue
		}
		h.leaving.hasten = 0
		kind, reason := lifecycle.ResourceOvercommit, n.lack()
		if r, exceeds := e.exceeds(withLeaving, h, now); exceeds {
			kind, reason = lifecycle.ResourceLimitsViolated, r
		}
		plan.Preempts = append(plan.Preempts, Preempt{
			Job: h.Job, Node: n.id, Operation: h.operation.ID, Kind: kind, Timeout: h.operation.effective.Starvation.PreemptionTimeout, Reason: reason,
		})
	}
}

// lack is of what a node has less than its allocations hold.
func (n *node) lack() Reason {
	k, _ := n.usage.Lacking(n.limits)
	return Reason{Resource: k, Used: n.usage.Of(k), Limit: n.limits.Of(k)}
}

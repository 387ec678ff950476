package engine

import (
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// countGentle counts those that leave gracefully.
func (hs *holdings) countGentle(kind lifecycle.PreemptionKind, n int) {
	if kind == lifecycle.GracefulPreemption {
		hs.gentle += n
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
func (re *repair) chooseHastened(now time.Time) {
	if re.holdings.gentle == 0 {
		return
	}
	x := excess{moment: re.moment, held: withLeaving}
	if x.find(re.tree.root, nil, now); len(x.all) == 0 {
		return
	}
	var late []*holding
	for _, h := range re.holdings.allocations {
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
			h.leaving.hasten = re.round
			of.Sub(h.Resources)
		}
	}
}

// hastenOn does so on a node that has less than its allocations hold.
func (re *repair) hastenOn(n *node, now time.Time) {
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
			h.leaving.hasten = re.round
			held = held.Sub(h.Resources)
		}
	}
}

// hasten has those of a node go sooner that were chosen, each once in an update.
func (re *repair) hasten(n *node, now time.Time, plan *Plan) {
	if re.holdings.gentle == 0 {
		return
	}
	for _, h := range n.held {
		if h.leaving == nil || h.leaving.hasten != re.round || !h.mayHasten(now) {
			continue
		}
		h.leaving.hasten = 0
		kind, reason := lifecycle.ResourceOvercommit, n.lack()
		if r, exceeds := re.exceeds(withLeaving, h, now); exceeds {
			kind, reason = lifecycle.ResourceLimitsViolated, r
		}
		plan.Preempts = append(plan.Preempts, Preempt{
			Job: h.Job, Node: n.id, Operation: h.operation.ID, Kind: kind, Timeout: h.operation.effective.Starvation.PreemptionTimeout, Reason: reason,
		})
	}
}

// lack is of what a node has less than its allocations hold.
func (n *node) lack() explain.Reason {
	k, _ := n.usage.Lacking(n.limits)
	return explain.Reason{Resource: k, Used: n.usage.Of(k), Limit: n.limits.Of(k)}
}

// relieve preempts jobs of a node that has been overcommitted for too long.
// Starts in flight are not jobs yet: what they will hold is not free for others.
func (re *repair) relieve(n *node, now time.Time, plan *Plan) {
	if !n.overcommitted {
		return
	}
	if n.since.IsZero() {
		n.since = now
	}
	if now.Sub(n.since) < re.moment.config.OvercommitDuration {
		return
	}
	limits := n.limits
	var jobs []preemption.Allocation
	for _, h := range n.held {
		switch {
		case h.leaving != nil:
		case h.ticket != 0:
			limits = limits.Sub(h.Resources)
		default:
			jobs = append(jobs, preemption.Allocation{Level: h.Level(), Job: h.Job, Started: h.Started, Resources: h.Resources})
		}
	}
	re.hastenOn(n, now)
	reason := n.lack()
	for _, job := range preemption.Overcommit(limits, jobs) {
		re.holdings.preempt(re.holdings.allocations[job], now, lifecycle.ResourceOvercommit, nil, reason, plan)
	}
}

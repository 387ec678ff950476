package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// LeaveOrder is a committed order to a job to leave its node.
type LeaveOrder struct {
	// Ordered is when the order was given. Planned is the time of the heartbeat that planned the
	// order; zero if both are the same.
	Ordered, Planned time.Time
	// Deadline is when the job is ended if it has not left by itself.
	Deadline time.Time
	// Kind is lifecycle.NotPreempted if the job leaves for another reason, such as a user's request
	// or a drain.
	Kind lifecycle.PreemptionKind
	// For is the job for which the resources are held; the zero value if there is none.
	For Beneficiary
	// Restored orders were given before the engine was made. Claims and rates that follow from them
	// are restored separately, by AddClaim and SetRate.
	Restored bool
}

// planned returns the time of the heartbeat that planned an order.
func (o LeaveOrder) planned() time.Time {
	if o.Planned.IsZero() {
		return o.Ordered
	}
	return o.Planned
}

// leaving is the state of an allocation that has been told to leave, or is about to be. It holds
// its part of the node until it has gone, and no longer counts as usage of its operation.
type leaving struct {
	// committed says that the order is committed, so that the allocation will not stay.
	committed bool
	ordered   time.Time
	deadline  time.Time
	kind      lifecycle.PreemptionKind
	reason    explain.Reason
	// claim is the claim that waits for the resources; nil if none does.
	claim *claim
	// paid is what was paid for the job.
	paid payment
	// hasten is the round of repair in which the allocation was chosen to leave sooner.
	hasten uint64
}

// Leave records that a job has been told to leave: by a committed Preempt, by a user or a drain, or
// before the engine was made. Further calls change only the deadline: of several orders, the
// earliest deadline applies.
func (e *Engine) Leave(job scheduling.JobID, order LeaveOrder) error {
	h := e.holdings.allocations[job]
	if h == nil {
		return fmt.Errorf("job %s leaves: %w", job, ErrUnknown)
	}
	if h.leaving == nil {
		e.holdings.beginLeaving(h, order.Kind, order.planned())
		if rated(order.Kind) && !order.Restored {
			h.operation.pool.taken(order.planned(), true)
		}
		h.leaving.deadline = order.Deadline
		e.claims.hold(h, order)
	} else if l := h.leaving; !l.committed && l.claim != nil {
		// The claim holds as long after the order was committed as was planned, even if the job is killed
		// at once: the state, of which another leader would restore it, knows the order as it was given.
		l.claim.extend(l.deadline.Add(order.Ordered.Sub(l.ordered)))
	}
	l := h.leaving
	// Until the order is committed, the deadline is the one that was planned.
	if !l.committed || order.Deadline.Before(l.deadline) {
		l.deadline = order.Deadline
	}
	l.committed = true
	if l.claim != nil {
		l.claim.extend(l.deadline)
	}
	return nil
}

// Stay takes back a Preempt whose proposal was refused or lost. It does nothing if the job has
// ended, or if another order to leave has been committed.
func (e *Engine) Stay(job scheduling.JobID) {
	h := e.holdings.allocations[job]
	if h == nil || h.leaving == nil || h.leaving.committed {
		return
	}
	op, c := h.operation, h.leaving.claim
	h.leaving.paid.takeBack()
	if rated(h.leaving.kind) {
		op.pool.taken(h.leaving.ordered, false)
	}
	e.holdings.endLeaving(h)
	op.order.AddUsage(h.Resources)
	op.groups.Add(&h.Member)
	if c != nil && c.victims == 0 {
		e.claims.endClaim(c, ClaimRefused)
	}
	e.claims.trim(h.node)
}

// beginLeaving takes an allocation out of the usage of its operation.
func (hs *holdings) beginLeaving(h *holding, kind lifecycle.PreemptionKind, at time.Time) {
	op := h.operation
	op.groups.Remove(&h.Member)
	h.leaving = hs.endedLeaving.take()
	h.leaving.kind, h.leaving.ordered = kind, at
	op.order.SubUsage(h.Resources)
	op.order.AddLeaving(h.Resources)
	h.node.leaving = h.node.leaving.Add(h.Resources)
	op.leavers++
	hs.countGentle(kind, 1)
}

// endLeaving ends the leaving of an allocation, because its job has ended or stays.
func (hs *holdings) endLeaving(h *holding) {
	op := h.operation
	op.order.SubLeaving(h.Resources)
	h.node.leaving = h.node.leaving.Sub(h.Resources)
	op.leavers--
	hs.countGentle(h.leaving.kind, -1)
	if c := h.leaving.claim; c != nil {
		c.victims--
	}
	hs.endedLeaving.put(h.leaving)
	h.leaving = nil
}

// leavesFor reports whether a claim waits for the resources of h.
func (h *holding) leavesFor(c *claim) bool { return h.leaving != nil && h.leaving.claim == c }

// remaining returns what the allocations of a node will hold once the leaving ones have left.
func (n *node) remaining() resource.Amounts { return n.usage.Sub(n.leaving) }

// preempt adds the preemption of an allocation to the plan. It makes room for the claim c or, if c
// is nil, for no job in particular.
func (hs *holdings) preempt(h *holding, now time.Time, kind lifecycle.PreemptionKind, c *claim, reason explain.Reason, plan *Plan) {
	timeout := h.operation.effective.Starvation.PreemptionTimeout
	if kind == lifecycle.GracefulPreemption {
		timeout = h.operation.effective.Starvation.GracefulTimeout
	}
	p := Preempt{Job: h.Job, Node: h.node.id, Operation: h.operation.ID, Kind: kind, Timeout: timeout, Reason: reason}
	hs.beginLeaving(h, kind, now)
	if rated(kind) {
		h.operation.pool.taken(now, true)
		p.Rated = h.operation.pool.limited(hs.tree.rated)
	}
	h.leaving.deadline, h.leaving.reason = now.Add(timeout), reason
	if c != nil {
		p.For, p.Hold = c.beneficiary(), c.operation.effective.Starvation.WaitingTimeout
		c.victims++
		h.leaving.claim = c
		c.extend(h.leaving.deadline)
	}
	plan.Preempts = append(plan.Preempts, p)
}

// graceful preempts jobs of operations with preemption_mode graceful, even if no other operation
// needs the resources of the jobs.
type graceful struct {
	*holdings

	victims *selector
	repair  *repair

	// any says that some operation has preemption_mode graceful.
	any     bool
	scratch []*holding
}

// dismiss preempts the allocations of graceful operations on a node that are beyond the fair share
// of their operation, the latest started first (J.3.1). It also preempts allocations that are
// beyond the fair share of their pool, to the nearest job, if their operation has more than its own
// fair share.
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

// goesForPool reports whether h is among the latest started jobs that its pool has beyond its fair
// share, and does not have to leave because of limits.
func (gr *graceful) goesForPool(h *holding, now time.Time) bool {
	op := h.operation
	if op.pool.parent == nil || !op.pool.exceeds(h) || op.order.Satisfaction() <= op.kept()+resource.Epsilon || !gr.victims.latest(h) {
		return false
	}
	_, violates := gr.repair.exceeds((*allocation.Element).Usage, h, now)
	return !violates
}

// withheld reports whether an operation with graceful preemption may not start one more job,
// because the job would be told to leave at once, or would replace one that was told to leave and
// has not left yet. A job may start if it brings the pool nearer to its fair share, or lies within
// the fair share of the operation. Directly below the root, it may start if it brings the operation
// nearer to its fair share. In the age of the operation's last graceful preemption, no job may
// bring the operation above the usage with which that preemption left it.
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

// easiestFirst orders holdings: the most preemptible come first and, of equally preemptible ones,
// the latest started.
func easiestFirst(a, b *holding) int {
	return a.Easier(&b.Member)
}

// rated reports whether preemptions of this kind count towards rate limits. Preemptions because of
// an overcommitted node, or of exceeded limits, are necessary and do not count.
func rated(kind lifecycle.PreemptionKind) bool {
	switch kind {
	case lifecycle.Preemption, lifecycle.AggressivePreemption, lifecycle.GracefulPreemption:
		return true
	default:
		return false
	}
}

// rate reports whether the rate limits allow one more preemption of a job of the operation of h.
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

// withinRates returns the candidates that rate limits allow to be preempted together, in their
// given order. It calls the function spared for each of the other candidates.
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

// taken counts a preemption in the rates of p and of all pools above that have a limit. If count is
// false, it takes the preemption back.
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

package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// LeaveOrder is a committed order to a job to go.
type LeaveOrder struct {
	// Ordered is when the order was given, Planned the time of the heartbeat that planned
	// it, zero: the same.
	Ordered, Planned time.Time
	// Deadline is when the job is ended if it has not left by itself.
	Deadline time.Time
	// Kind is lifecycle.NotPreempted when the job goes for another cause: a user or a
	// drain wants it to.
	Kind lifecycle.PreemptionKind
	// For is whom the resources are held for; the zero value: nobody.
	For Beneficiary
	// Restored orders were given before the engine was made, and what they led to has been
	// told: claims by AddClaim, rates by SetRate.
	Restored bool
}

// planned is the time of the heartbeat that planned an order.
func (o LeaveOrder) planned() time.Time {
	if o.Planned.IsZero() {
		return o.Ordered
	}
	return o.Planned
}

// leaving is what is known of an allocation that has been told to go, or is about to
// be. It holds its part of the node until it has gone, and counts no longer as usage of
// its operation.
type leaving struct {
	// committed says that the allocation will not stay.
	committed bool
	ordered   time.Time
	deadline  time.Time
	kind      lifecycle.PreemptionKind
	reason    explain.Reason
	// claim waits for what is left; nil: nobody does.
	claim *claim
	// hasten is the choice of jobs that have to go for limits by which it is to go sooner.
	hasten uint64
}

// Leave says that a job has been told to go: the order of a Preempt is committed, or
// that of a user or a drain, or it was before the engine was made. Given again it
// changes nothing but the deadline. Of several orders the earliest deadline holds.
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
	}
	l := h.leaving
	// What was planned has the deadline of the plan until it is committed.
	if !l.committed || order.Deadline.Before(l.deadline) {
		l.deadline = order.Deadline
	}
	l.committed = true
	if l.claim != nil {
		l.claim.extend(l.deadline)
	}
	return nil
}

// Stay takes back a Preempt whose proposal was refused or lost. Of a job that has been
// told to go all the same, or has gone, nothing changes.
func (e *Engine) Stay(job scheduling.JobID) {
	h := e.holdings.allocations[job]
	if h == nil || h.leaving == nil || h.leaving.committed {
		return
	}
	op, c := h.operation, h.leaving.claim
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

// endLeaving is for an allocation that has gone, or stays.
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

// leavesFor reports whether a claim waits for what h leaves.
func (h *holding) leavesFor(c *claim) bool { return h.leaving != nil && h.leaving.claim == c }

// remaining is what the allocations of a node will hold once those that leave have gone.
func (n *node) remaining() resource.Amounts { return n.usage.Sub(n.leaving) }

// preempt has an allocation leave, for the job of a claim or for nobody.
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

package engine

import (
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// claim holds resources of a node for a job that starts there once preempted jobs have left. It
// counts as usage of its operation, and its job no longer counts as pending.
type claim struct {
	node      *node
	operation *operation
	task      allocation.TaskID
	resources resource.Amounts
	// ordered is when the victims were chosen. Together with the node and the task, it identifies
	// the claim.
	ordered time.Time
	// victims is how many of the allocations that leave for the claim have not left yet.
	victims int
	// expires is when the claim ends at the latest.
	expires time.Time
	// at is the index of the claim in claims.all.
	at int
	// restored claims were made by an earlier engine: their nodes may not have reconnected yet.
	restored bool
	// gang is the gang that the job starts with; nil if the job starts by itself. A claim of a gang
	// expires with the gathering.
	gang *gang
}

// claims are the claims on all nodes, including those of the gathering gang.
type claims struct {
	*gangs

	all   []*claim
	ended recycled[claim]
}

// hold keeps the resources of a leaving allocation for the beneficiary of its order, if the
// beneficiary may still want them.
func (cs *claims) hold(h *holding, order LeaveOrder) {
	if order.For.IsZero() {
		return
	}
	c := cs.findClaim(h.node, order.For, order.planned())
	if c == nil && !order.Restored {
		// The job may now need a different amount than when the order was given.
		op := cs.tree.operations[order.For.Operation]
		if op != nil && op.waiting(order.For.task()) > 0 && op.task(order.For.task()).perJob.Fits(order.For.Resources) {
			c = cs.claimAgain(h.node, order.For, order.planned())
		}
	}
	if c == nil {
		return
	}
	c.victims++
	h.leaving.claim = c
	c.extend(h.leaving.deadline)
}

// claimAgain makes a claim that was planned before. It returns nil if the job of the claim is no
// longer wanted.
func (cs *claims) claimAgain(n *node, b Beneficiary, planned time.Time) *claim {
	op := cs.tree.operations[b.Operation]
	if op == nil || !op.active() || op.waiting(b.task()) == 0 {
		return nil
	}
	g := op.missing(b.Task)
	if g != nil && !cs.gangs.rejoins(g, planned) {
		return nil
	}
	c := cs.addClaim(n, op, b.task(), op.task(b.task()).perJob, planned)
	if g != nil {
		cs.gangs.gather(g, c)
	}
	return c
}

// rejoins reports whether g takes over a claim that was planned for it at this time. For this, g
// must be gathering and lack claims. If no gang is gathering, as in a new engine, g begins to
// gather.
func (gs *gangs) rejoins(g *gang, at time.Time) bool {
	if gs.gathering == nil {
		gs.gathering, g.until = g, at.Add(gs.moment.settings.GangTimeout)
		gs.openOrClose(g)
	}
	return gs.gathering == g && g.claims < g.missing()
}

// findClaim returns the claim on a node that was planned at this time for a beneficiary, or nil.
func (cs *claims) findClaim(n *node, b Beneficiary, planned time.Time) *claim {
	i := slices.IndexFunc(n.claims, func(c *claim) bool {
		return c.operation.ID == b.Operation && c.task == b.task() && c.ordered.Equal(planned)
	})
	if i < 0 {
		return nil
	}
	return n.claims[i]
}

// addClaim holds resources of a node for a waiting job.
func (cs *claims) addClaim(n *node, op *operation, task allocation.TaskID, resources resource.Amounts, ordered time.Time) *claim {
	c := cs.newClaim(n, op, task, resources, ordered)
	op.order.AddUsage(resources)
	op.claim(task, 1)
	return c
}

// newClaim holds resources of a node for a job. The resources must already count as usage of the
// operation, and the caller must count the job as claimed.
func (cs *claims) newClaim(n *node, op *operation, task allocation.TaskID, resources resource.Amounts, ordered time.Time) *claim {
	c := cs.ended.take()
	*c = claim{node: n, operation: op, task: task, resources: resources, ordered: ordered, expires: ordered, at: len(cs.all)}
	cs.all = append(cs.all, c)
	n.claims = append(n.claims, c)
	n.claimed = n.claimed.Add(resources)
	op.claims = append(op.claims, c)
	return c
}

// extend keeps the claim until the waiting timeout after deadline, the time by which an allocation
// leaves for it.
func (c *claim) extend(deadline time.Time) {
	if end := deadline.Add(c.operation.effective.Starvation.WaitingTimeout); end.After(c.expires) {
		c.expires = end
	}
}

// dropClaim removes a claim; its resources still count as usage of its operation.
func (cs *claims) dropClaim(c *claim, why ClaimEnd) {
	c.operation.ended = EndedClaim{End: why, At: cs.moment.now, Node: c.node.id}
	last := cs.all[len(cs.all)-1]
	cs.all[c.at], last.at = last, c.at
	cs.all[len(cs.all)-1] = nil
	cs.all = cs.all[:len(cs.all)-1]
	c.node.claims = without(c.node.claims, c)
	c.node.claimed = c.node.claimed.Sub(c.resources)
	c.operation.claims = without(c.operation.claims, c)
	if c.gang != nil {
		c.gang.claims--
	}
	if c.victims == 0 {
		return
	}
	for _, h := range c.node.held {
		if h.leavesFor(c) {
			h.leaving.claim = nil
		}
	}
}

// endClaim releases what a claim holds. Its job is pending again.
func (cs *claims) endClaim(c *claim, why ClaimEnd) {
	cs.dropClaim(c, why)
	c.operation.order.SubUsage(c.resources)
	c.operation.claim(c.task, -1)
	if c.gang != nil {
		cs.gangs.openOrClose(c.gang)
	}
	cs.cluster.forgetNode(c.node)
	cs.ended.put(c)
}

// endAllClaims ends the claims of an operation that may not start jobs.
func (cs *claims) endAllClaims(op *operation) {
	for len(op.claims) > 0 {
		cs.endClaim(op.claims[len(op.claims)-1], ClaimUnwanted)
	}
}

// endClaims ends claims of a task, the latest first, until no more than `keep` claims are left.
func (cs *claims) endClaims(op *operation, t *task, keep int64) {
	for i := len(op.claims) - 1; i >= 0 && t.claimed > keep; i-- {
		if c := op.claims[i]; c.task == t.TaskID {
			cs.endClaim(c, ClaimUnwanted)
		}
	}
}

// trim ends claims of a node, the latest first, until the remaining claims fit once all leaving
// allocations have left.
func (cs *claims) trim(n *node) {
	for n.known && len(n.claims) > 0 && !n.claimed.Fits(n.limits.Sub(n.remaining())) {
		cs.endClaim(n.claims[len(n.claims)-1], ClaimUnmet)
	}
}

// resize makes claims of a task hold what its jobs need now.
func (cs *claims) resize(op *operation, t *task) {
	for i := len(op.claims) - 1; i >= 0; i-- {
		if c := op.claims[i]; c.task == t.TaskID && c.resources != t.perJob {
			op.order.SubUsage(c.resources)
			c.node.claimed = c.node.claimed.Sub(c.resources).Add(t.perJob)
			c.resources = t.perJob
			op.order.AddUsage(c.resources)
			cs.trim(c.node)
			i = min(i, len(op.claims))
		}
	}
}

// expireClaims ends the claims that have expired.
func (cs *claims) expireClaims(now time.Time) {
	for i := len(cs.all) - 1; i >= 0; i-- {
		if c := cs.all[i]; c.gang == nil && !now.Before(c.expires) {
			cs.endClaim(c, ClaimExpired)
		}
	}
}

func (c *claim) beneficiary() Beneficiary {
	return Beneficiary{Operation: c.operation.ID, Task: c.task.Name, Group: c.task.Group, Resources: c.resources}
}

func (c *claim) view() ClaimView {
	return ClaimView{Node: c.node.id, Beneficiary: c.beneficiary(), Ordered: c.ordered, Victims: c.victims, Expires: c.expires}
}

// fits reports whether the job of a claim can start now.
func (c *claim) fits() bool { return c.resources.Fits(c.node.free()) }

// keep starts the jobs of a node's claims that fit, the oldest claim first, and ends the claims
// that can no longer be met. If an older claim used what the victims of a newer one released, the
// newer one waits for the victims of the older one.
func (hs *holdings) keep(n *node, now time.Time, plan *Plan) {
	for i := 0; i < len(n.claims); {
		c := n.claims[i]
		switch {
		case !c.operation.active() || !c.operation.order.Matches(n.takes):
			hs.claims.endClaim(c, ClaimUnwanted)
		case c.gang != nil && (c.fits() || c.victims > 0):
			i++
		case c.fits() && len(plan.Starts) < hs.moment.config.MaxStartsPerPlan:
			hs.claims.dropClaim(c, ClaimStarted)
			c.operation.task(c.task).claimed--
			h := hs.start(n, c.operation, c.task, c.resources, plan)
			h.claimed, h.Started, h.expires = true, c.ordered, c.expires
			plan.Starts[len(plan.Starts)-1].Claimed = c.ordered
			hs.claims.ended.put(c)
		case c.victims == 0 && !c.resources.Fits(n.free().Add(n.leaving)):
			hs.claims.endClaim(c, ClaimUnmet)
		case !now.Before(c.expires):
			hs.claims.endClaim(c, ClaimExpired)
		default:
			i++
		}
	}
}

// reclaim restores the claim of a start that came from a claim and was not committed.
func (hs *holdings) reclaim(h *holding) {
	op := h.operation
	if g := op.gang(h.task.Name); g != nil && h.together {
		g.again = hs.moment.now.Add(refusedGangPause)
	}
	if !h.claimed || !op.active() || op.waiting(h.task) == 0 {
		return
	}
	c := hs.claims.addClaim(h.node, op, h.task, h.Resources, h.Started)
	c.expires = h.expires
}

// claim adds n, which may be negative, to the claimed jobs of a task.
func (op *operation) claim(id allocation.TaskID, n int64) {
	t := op.task(id)
	before := t.effective()
	t.claimed += n
	op.order.AddPending(id, t.effective()-before)
}

// spare returns the resources of a node that jobs without a claim may use.
func (n *node) spare() resource.Amounts {
	free := n.free()
	if len(n.claims) == 0 {
		return free
	}
	return free.Min(free.Add(n.leaving).Sub(n.claimed))
}

// offered describes the node for a choice at this time.
func (n *node) offered(now time.Time) allocation.Node {
	return allocation.Node{ID: n.id, Free: n.spare(), Takes: n.takes, At: now}
}

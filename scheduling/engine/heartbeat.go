package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Heartbeat plans what to start and to preempt on these nodes, in their order.
// Nodes that are not known get nothing.
//
// First the jobs of claims start whose resources have become free. A node that has
// had less than its allocations hold for OvercommitDuration, those not counted that
// leave, gets preemptions until the rest fits.
func (e *Engine) Heartbeat(now time.Time, nodes []scheduling.NodeID) Plan {
	var plan Plan
	for i, id := range nodes {
		n := e.nodes[id]
		if n == nil || !n.known {
			continue
		}
		if len(plan.Starts) >= e.config.MaxStartsPerPlan {
			plan.Unserved = append(plan.Unserved, nodes[i:]...)
			break
		}
		e.keep(n, now, &plan)
		e.relieve(n, now, &plan)
		if n.schedulable && !n.overcommitted {
			e.fill(n, &plan)
		}
	}
	return plan
}

// fill starts jobs on a node while they fit into what nobody has a claim on.
func (e *Engine) fill(n *node, plan *Plan) {
	room := e.config.MaxStartsPerPlan - len(plan.Starts)
	plan.Outcome.Add(e.filler.Fill(e.root.order, n.offered(), room,
		func(chosen *allocation.Element, name scheduling.TaskName, needs resource.Amounts) {
			e.start(n, e.operations[scheduling.OperationID(chosen.ID())], name, needs, plan)
		}))
}

// start has a job start on a node. It is usage of its operation already, and no longer
// pending.
func (e *Engine) start(n *node, op *operation, name scheduling.TaskName, needs resource.Amounts, plan *Plan) *holding {
	e.lastTicket++
	h := &holding{ticket: e.lastTicket, operation: op, task: name, node: n, resources: needs}
	e.inFlight[h.ticket] = h
	n.hold(h)
	op.held++
	op.task(name).inFlight++
	plan.Starts = append(plan.Starts, Start{Ticket: h.ticket, Node: n.id, Operation: op.ID, Task: name, Resources: needs})
	return h
}

// relieve preempts jobs of a node that has been overcommitted for too long.
// Starts in flight are not jobs yet: what they will hold is not free for others.
func (e *Engine) relieve(n *node, now time.Time, plan *Plan) {
	if !n.overcommitted {
		return
	}
	if n.since.IsZero() {
		n.since = now
	}
	if now.Sub(n.since) < e.config.OvercommitDuration {
		return
	}
	n.since = now
	limits := n.limits
	var jobs []preemption.Allocation
	for _, h := range n.held {
		if h.leaving.is {
			continue
		}
		if h.ticket != 0 {
			limits = limits.Sub(h.resources)
			continue
		}
		jobs = append(jobs, preemption.Allocation{Job: h.job, Started: h.started, Resources: h.resources})
	}
	for _, job := range preemption.Overcommit(limits, jobs) {
		h := e.allocations[job]
		k, _ := n.usage.Lacking(n.limits)
		e.preempt(h, now, lifecycle.ResourceOvercommit, nil, Reason{Resource: k, Used: n.usage.Of(k), Limit: n.limits.Of(k)}, plan)
	}
}

// preempt has an allocation leave, for the job of a claim or for nobody.
func (e *Engine) preempt(h *holding, now time.Time, kind lifecycle.PreemptionKind, c *claim, reason Reason, plan *Plan) {
	timeout := h.operation.effective.Starvation.PreemptionTimeout
	if kind == lifecycle.GracefulPreemption {
		timeout = h.operation.effective.Starvation.GracefulTimeout
	}
	p := Preempt{Job: h.job, Node: h.node.id, Operation: h.operation.ID, Kind: kind, Timeout: timeout, Reason: reason}
	e.beginLeaving(h, kind)
	h.leaving.deadline = now.Add(timeout)
	if c != nil {
		p.For = c.beneficiary()
		c.victims++
		h.leaving.claim = c
		c.extend(h.leaving.deadline)
	}
	plan.Preempts = append(plan.Preempts, p)
}

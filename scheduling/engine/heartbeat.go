package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Heartbeat plans what to start and to preempt on these nodes, in their order (F.12.3).
// Nodes that are not known get nothing.
//
// On each node the jobs of claims start first whose resources have become free. Then
// go those that leave gracefully, jobs start in what is free, and one may be started by
// preemption of others. What is above limits, or above what the node has, goes last.
func (e *Engine) Heartbeat(now time.Time, nodes []scheduling.NodeID) Plan {
	e.now = now
	e.beats++
	plan := Plan{Starts: e.starts[:0], Preempts: e.preempts[:0]}
	plan.Gathers = e.tendGangs(now)
	e.startGang(&plan)
	for i, id := range nodes {
		n := e.nodes[id]
		if n == nil || !n.known {
			continue
		}
		if len(plan.Starts) >= e.config.MaxStartsPerPlan {
			plan.Unserved = append(plan.Unserved, nodes[i:]...)
			break
		}
		e.look(n, now, &plan)
		e.startGang(&plan)
	}
	plan.Gathers = e.chooseGang(now) || plan.Gathers
	e.starts, e.preempts = plan.Starts, plan.Preempts
	return plan
}

// look plans for one node.
func (e *Engine) look(n *node, now time.Time, plan *Plan) {
	n.looked = now
	open := n.schedulable && !n.overcommitted
	if open {
		e.keep(n, now, plan)
	}
	e.dismiss(n, now, plan)
	if open {
		e.fill(n, now, plan)
		e.stages(n, now, plan)
	}
	e.repair(n, now, plan)
	e.relieve(n, now, plan)
	e.hasten(n, now, plan)
}

// fill starts jobs on a node while they fit into what nobody has a claim on. Where none
// does, and some wait for a node that fits them better, one of those starts all the same
// (F.14).
func (e *Engine) fill(n *node, now time.Time, plan *Plan) {
	n.review(now)
	on := n.offered(now)
	on.MinSpare, on.Admit, on.Reserve = e.settings.Preemption.MinSpare, e.admit, e.keepFor
	e.at = n
	room := e.config.MaxStartsPerPlan - len(plan.Starts)
	gathered := 0
	start := func(chosen *allocation.Element, task allocation.Task) {
		op := chosen.Owner().(*operation)
		if g := op.missing(task.Name); g != nil {
			n.met(op.pool)
			op.task(task.TaskID).claimed++
			e.gather(g, e.newClaim(n, op, task.TaskID, task.PerJob, now))
			gathered++
			return
		}
		e.start(n, op, task.TaskID, task.PerJob, plan)
	}
	outcome := e.filler.Fill(e.root.order, on, room, start)
	if outcome.Starts == 0 && outcome.Unpacked > 0 {
		e.unpacked = true
		outcome.Starts = e.filler.Fill(e.root.order, on, 1, start).Starts
		e.unpacked = false
	}
	outcome.Starts -= gathered
	if outcome.Starts+gathered == 0 && (on.Free != n.free() || n.reserved.pool != nil) {
		e.root.order.Note(allocation.Reserved, allocation.Fact{At: now, Node: n.id})
	}
	plan.Outcome.Add(outcome)
}

// mayStart says whether a job of a guarded operation may start on a node with so much
// free, and why not.
func (e *Engine) mayStart(chosen *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause) {
	op := chosen.Owner().(*operation)
	switch {
	case e.withheld(op, task.PerJob):
		return false, allocation.Withheld
	case e.crowded(op, task.TaskID, task.PerJob, e.at):
		return false, allocation.Crowded
	}
	packing := op.effective.Packing
	if !packing.Enable {
		return true, 0
	}
	accepted := e.unpacked || op.packing.Accepts(e.now, task.PerJob, free, e.total, packing)
	op.packing.Saw(e.now, free, packing)
	return accepted, allocation.Unpacked
}

// start has a job start on a node. It is usage of its operation already, and no longer
// pending.
func (e *Engine) start(n *node, op *operation, task allocation.TaskID, needs resource.Amounts, plan *Plan) *holding {
	n.met(op.pool)
	e.lastTicket++
	h := e.newHolding(op, task, n, needs)
	h.ticket = e.lastTicket
	e.inFlight[h.ticket] = h
	n.hold(h)
	op.held++
	op.task(task).inFlight++
	op.lastStart = e.now
	plan.Starts = append(plan.Starts, Start{Ticket: h.ticket, Node: n.id, Operation: op.ID, Task: task.Name, Group: task.Group, Resources: needs})
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
	e.hastenOn(n, now)
	reason := n.lack()
	for _, job := range preemption.Overcommit(limits, jobs) {
		e.preempt(e.allocations[job], now, lifecycle.ResourceOvercommit, nil, reason, plan)
	}
}

// preempt has an allocation leave, for the job of a claim or for nobody.
func (e *Engine) preempt(h *holding, now time.Time, kind lifecycle.PreemptionKind, c *claim, reason Reason, plan *Plan) {
	timeout := h.operation.effective.Starvation.PreemptionTimeout
	if kind == lifecycle.GracefulPreemption {
		timeout = h.operation.effective.Starvation.GracefulTimeout
	}
	p := Preempt{Job: h.Job, Node: h.node.id, Operation: h.operation.ID, Kind: kind, Timeout: timeout, Reason: reason}
	e.beginLeaving(h, kind, now)
	if rated(kind) {
		h.operation.pool.taken(now, true)
		p.Rated = h.operation.pool.limited(e.rated)
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

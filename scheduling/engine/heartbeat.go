package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Start is a job that is to start, in flight until it is settled.
type Start struct {
	Ticket    Ticket
	Node      scheduling.NodeID
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	Resources resource.Amounts
}

// Preempt is a job that has to give back its resources.
type Preempt struct {
	Job    scheduling.JobID
	Node   scheduling.NodeID
	Reason lifecycle.AbortReason
}

// Plan is what follows from a batch of heartbeats.
type Plan struct {
	// Starts are in the order of choice, node by node.
	Starts []Start
	// Preempts are in the order of nodes.
	Preempts []Preempt
	// Outcome counts what started and what did not fit.
	Outcome allocation.Outcome
	// Unserved are the nodes that got no look because the plan was full. Give
	// them first the next time.
	Unserved []scheduling.NodeID
}

// Heartbeat plans what to start and to preempt on these nodes, in their order.
// Nodes that are not known get nothing.
//
// A node that has had less than its allocations hold for OvercommitDuration
// gets preemptions, and gets them again each time this much has passed and it
// still is so.
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
		e.relieve(n, now, &plan)
		if n.schedulable && !n.overcommitted {
			e.fill(n, &plan)
		}
	}
	return plan
}

// fill starts jobs on a node while they fit.
func (e *Engine) fill(n *node, plan *Plan) {
	room := e.config.MaxStartsPerPlan - len(plan.Starts)
	plan.Outcome.Add(e.filler.Fill(e.root.order, allocation.Node{Free: n.free(), Takes: n.takes}, room,
		func(chosen *allocation.Element, name scheduling.TaskName, needs resource.Amounts) {
			op := e.operations[scheduling.OperationID(chosen.ID())]
			e.lastTicket++
			h := &holding{ticket: e.lastTicket, operation: op, task: name, node: n, resources: needs}
			e.inFlight[h.ticket] = h
			n.hold(h)
			op.held++
			op.task(name).inFlight++
			plan.Starts = append(plan.Starts, Start{
				Ticket: h.ticket, Node: n.id, Operation: op.ID, Task: name, Resources: needs,
			})
		}))
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
		if h.ticket != 0 {
			limits = limits.Sub(h.resources)
			continue
		}
		jobs = append(jobs, preemption.Allocation{Job: h.job, Started: h.started, Resources: h.resources})
	}
	for _, job := range preemption.Overcommit(limits, jobs) {
		plan.Preempts = append(plan.Preempts, Preempt{
			Job: job, Node: n.id, Reason: lifecycle.AbortNodeResourceOvercommit,
		})
	}
}

package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// Start is a job that is to start, in flight until it is settled.
type Start struct {
	Ticket    Ticket
	Node      scheduling.NodeID
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	// Group is the memory that the job gets of its own; 0: what its task has learned to
	// need.
	Group     int64
	Resources resource.Amounts
	// Claimed is when the claim was planned that the job starts in; zero: none was.
	Claimed time.Time
	// AllOrNone starts of one task, in one plan, are those of a gang: they are to be
	// committed together, or none of them.
	AllOrNone bool
}

// Preempt is an allocation that has to give back its resources. From the moment it is
// planned it is leaving; Leave says that the order is committed, Stay that it is not.
type Preempt struct {
	Job  scheduling.JobID
	Node scheduling.NodeID
	// Operation is the one that loses the job.
	Operation scheduling.OperationID
	Kind      lifecycle.PreemptionKind
	// Timeout is how long the job has to end by itself.
	Timeout time.Duration
	// For is who gets what the job leaves; the zero value: nobody in particular. Hold is
	// for how long after the job's time it is held.
	For  Beneficiary
	Hold time.Duration
	// Rated are the pools in whose rates the preemption counts.
	Rated []scheduling.PoolID
	// Reason are the facts of the decision.
	Reason explain.Reason
}

// Beneficiary is who gets what preempted jobs leave: a job of a group of a task that is to start
// on their node, with these resources. The zero value is nobody.
type Beneficiary struct {
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	Group     int64
	Resources resource.Amounts
}

func (b Beneficiary) task() allocation.TaskID {
	return allocation.TaskID{Name: b.Task, Group: b.Group}
}

// IsZero reports whether b is nobody.
func (b Beneficiary) IsZero() bool { return b == Beneficiary{} }

// Message says for people why the job has to go.
func (p Preempt) Message() string {
	return p.Reason.Message(p.Kind, p.Node, p.Operation, p.For.Operation)
}

// Plan is what follows from a batch of heartbeats. Its slices are the engine's own, and
// hold until the next Heartbeat.
type Plan struct {
	// Starts are in the order of choice, node by node.
	Starts []Start
	// Preempts are in the order of nodes.
	Preempts []Preempt
	// Outcome counts what started, or is held for a gang, in what was free, and what did not fit.
	Outcome allocation.Outcome
	// Unserved are the nodes that got no look because the plan was full. Give
	// them first the next time.
	Unserved []scheduling.NodeID
	// Gathers says that a gang has begun to gather: nodes that were looked at before may
	// have room for it.
	Gathers bool
}

// Heartbeat plans what to start and to preempt on these nodes, in their order (F.12.3).
// Nodes that are not known get nothing.
//
// On each node the jobs of claims start first whose resources have become free. Then
// go those that leave gracefully, jobs start in what is free, and one may be started by
// preemption of others. What is above limits, or above what the node has, goes last.
func (e *Engine) Heartbeat(now time.Time, nodes []scheduling.NodeID) Plan {
	e.moment.now = now
	e.gangs.beats++
	plan := Plan{Starts: e.plan.Starts[:0], Preempts: e.plan.Preempts[:0]}
	plan.Gathers = e.claims.tendGangs(now)
	e.holdings.startGang(&plan)
	for i, id := range nodes {
		n := e.cluster.nodes[id]
		if n == nil || !n.known {
			continue
		}
		if len(plan.Starts) >= e.moment.config.MaxStartsPerPlan {
			plan.Unserved = append(plan.Unserved, nodes[i:]...)
			break
		}
		e.look(n, now, &plan)
		e.holdings.startGang(&plan)
	}
	plan.Gathers = e.gangs.chooseGang(now) || plan.Gathers
	e.plan.Starts, e.plan.Preempts = plan.Starts, plan.Preempts
	return plan
}

// look plans for one node.
func (e *Engine) look(n *node, now time.Time, plan *Plan) {
	n.looked = now
	open := n.schedulable && !n.overcommitted
	if open {
		e.holdings.keep(n, now, plan)
	}
	e.graceful.dismiss(n, now, plan)
	if open {
		e.placement.fill(n, now, plan)
		e.stages.run(n, now, plan)
	}
	e.repair.repair(n, now, plan)
	e.repair.relieve(n, now, plan)
	e.repair.hasten(n, now, plan)
}

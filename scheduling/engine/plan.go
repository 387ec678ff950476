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
	// Group is the memory granted to this job alone, in bytes; 0 if the job gets the reserve
	// learned for its task.
	Group     int64
	Resources resource.Amounts
	// Claimed is when the claim from which the job starts was planned; zero if there was none.
	Claimed time.Time
	// AllOrNone starts of one task in one plan are the starts of a gang: commit all of them, or
	// none.
	AllOrNone bool
}

// Preempt is an order that a job has to leave. The allocation is leaving from the moment the order is
// planned. Call Leave when the order is committed, or Stay if it is not.
type Preempt struct {
	Job  scheduling.JobID
	Node scheduling.NodeID
	// Operation is the operation that loses the job.
	Operation scheduling.OperationID
	Kind      lifecycle.PreemptionKind
	// Timeout is how long the job has to leave by itself.
	Timeout time.Duration
	// For is the job that gets the resources; the zero value means no job in particular. Hold is
	// how long the resources are held for that job after Timeout.
	For  Beneficiary
	Hold time.Duration
	// Rated are the pools whose rate limits count the preemption.
	Rated []scheduling.PoolID
	// Reason are the facts of the decision.
	Reason explain.Reason
}

// Beneficiary is the job that gets the resources of preempted jobs: any job of one group of a task.
// It starts on the node of the preempted jobs with these resources. The zero value is no job.
type Beneficiary struct {
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	Group     int64
	Resources resource.Amounts
}

func (b Beneficiary) task() allocation.TaskID {
	return allocation.TaskID{Name: b.Task, Group: b.Group}
}

// IsZero reports whether b is no job.
func (b Beneficiary) IsZero() bool { return b == Beneficiary{} }

// Message explains to people why the job has to leave.
func (p Preempt) Message() string {
	return p.Reason.Message(p.Kind, p.Node, p.Operation, p.For.Operation)
}

// Plan is the result of a batch of heartbeats. Its slices belong to the engine, and are valid
// until the next Heartbeat.
type Plan struct {
	// Starts are in the order of choice, node by node.
	Starts []Start
	// Preempts are in the order of nodes.
	Preempts []Preempt
	// Outcome counts the jobs that started in free resources, or for which room was held there for a
	// gang, and the elements that were left out.
	Outcome allocation.Outcome
	// Unserved are the nodes for which nothing was planned because the plan was full. Pass these
	// nodes first to the next Heartbeat.
	Unserved []scheduling.NodeID
	// Gathers says that a gang has begun to gather: nodes whose heartbeats were already handled may
	// have room for it.
	Gathers bool
}

// Heartbeat plans what to start and to preempt on these nodes, in the given order (F.12.3). Unknown
// nodes are skipped.
//
// On each node, the jobs of claims whose resources have become free start first. Then jobs are
// preempted gracefully, jobs start in what is free, and one job may start by preemption of
// others; if that takes part of what is reserved, jobs start in what is free once more. Last, jobs beyond limits, or beyond what the node has, are preempted.
func (e *Engine) Heartbeat(now time.Time, nodes []scheduling.NodeID) Plan {
	e.moment.now = now
	e.holdings.noteLengths(now)
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
		kept := n.reserved.pool != nil
		e.stages.run(n, now, plan)
		if kept && n.reserved.pool == nil {
			// A starving operation of the pool took some of what was reserved. The rest is reserved
			// again, or given to others.
			e.placement.fill(n, now, plan)
		}
	}
	e.repair.repair(n, now, plan)
	e.repair.relieve(n, now, plan)
	e.repair.hasten(n, now, plan)
}

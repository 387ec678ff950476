package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
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
	Reason Reason
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

// Rule is why a job may go for one of others that starve (F.12.3).
type Rule uint8

const (
	// BeyondOperation jobs are beyond the fair share of their operation.
	BeyondOperation Rule = iota
	// BeyondPools jobs are in pools that have more than their fair share.
	BeyondPools
	// ForGuarantee jobs are too, and go for what another pool is guaranteed.
	ForGuarantee
	// ForTurn jobs are too, and it is the turn of a pool that has lacked its own for longer.
	ForTurn
	// ForLarger jobs make room for one that is larger.
	ForLarger
)

// Reason are the facts by which an allocation was chosen to go.
type Reason struct {
	// Pool is the pool that starves, or whose limits are violated; empty: it is the
	// operation itself, the beneficiary or the one that loses the job.
	Pool scheduling.PoolName
	// Since is when who starves came to be below its fair share.
	Since time.Time
	// Rule is why a job goes for another one, and Of the pool that has more than its fair share
	// then, or keeps the rest of it; empty: it is its operation. Usage, Fair and Kept are those
	// of the pool.
	Rule Rule
	Of   scheduling.PoolName
	// Resource is the one that the numbers are of: the one that the operation that loses
	// the job uses most of, or the first of which more is used than the limit.
	Resource resource.Kind
	// Usage is the share that the operation used with the job, Fair its fair share, and
	// Threshold the part of it beyond which jobs are preempted like this.
	Usage, Fair, Threshold float64
	// Kept is the share that those of its allocations use that cannot go like this: they
	// started before all that can.
	Kept float64
	// Ceiling says that Limit is what max_share_ratio allows.
	Ceiling bool
	// Used and Limit are the amounts of a violated limit, or what a node's jobs hold
	// and what it has.
	Used, Limit int64
}

// Message says for people why the job has to go.
func (p Preempt) Message() string {
	r := p.Reason
	switch p.Kind {
	case lifecycle.Preemption, lifecycle.AggressivePreemption:
		who := fmt.Sprintf("operation %s", p.For.Operation)
		if r.Pool != "" {
			who += fmt.Sprintf(" of pool %s, which", r.Pool)
		}
		return fmt.Sprintf("%s is below its fair share since %s; %s", who, r.Since.UTC().Format(time.RFC3339), r.beyond(p.Operation))
	case lifecycle.GracefulPreemption:
		return r.beyond(p.Operation)
	case lifecycle.ResourceLimitsViolated:
		of := fmt.Sprintf("operation %s", p.Operation)
		if r.Pool != "" {
			of = fmt.Sprintf("pool %s", r.Pool)
		}
		allows := "limit is"
		if r.Ceiling {
			allows = "max_share_ratio allows"
		}
		return fmt.Sprintf("%s uses %s of %s, its %s %s", of, amount(r.Resource, r.Used), r.Resource, allows, amount(r.Resource, r.Limit))
	default:
		return fmt.Sprintf("node %s has %s of %s, less than the %s that its jobs hold", p.Node, amount(r.Resource, r.Limit), r.Resource, amount(r.Resource, r.Used))
	}
}

func (r Reason) beyond(id scheduling.OperationID) string {
	pool := fmt.Sprintf("pool %s uses %s of all %s, its fair share is %s", r.Of, percent(r.Usage), r.Resource, percent(r.Fair))
	switch r.Rule {
	case ForLarger:
		return fmt.Sprintf("its job is larger than those that have to make room for it; pool %s keeps %s of all %s (threshold %.4g)", r.Of, percent(r.Kept), r.Resource, r.Threshold)
	case ForGuarantee:
		return pool + ", and what is beyond that goes for what others are guaranteed"
	case ForTurn:
		return pool + ", and it is the turn of who has lacked its own for longer"
	case BeyondPools:
		return pool + ", and its latest jobs may have to go"
	}
	return fmt.Sprintf("operation %s uses %s of all %s, its fair share is %s, and its latest jobs may have to go, down to %s (threshold %.4g)",
		id, percent(r.Usage), r.Resource, percent(r.Fair), percent(r.Kept), r.Threshold)
}

// Plan is what follows from a batch of heartbeats. Its slices are the engine's own, and
// hold until the next Heartbeat.
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
	// Gathers says that a gang has begun to gather: nodes that were looked at before may
	// have room for it.
	Gathers bool
}

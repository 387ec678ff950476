package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Ticket names a start in flight. Tickets are never used again.
type Ticket uint64

// Allocation is what a job holds.
type Allocation struct {
	Job       scheduling.JobID
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	// Group is the memory that the job has got of its own, in bytes; 0: it has what its
	// task had learned to need.
	Group     int64
	Node      scheduling.NodeID
	Resources resource.Amounts
	// Started is when the start was proposed.
	Started time.Time
}

// holding is an allocation, or a start in flight.
type holding struct {
	// Member has job, start and resources. Those that neither are in flight nor leave are
	// in the groups of their operation.
	preemption.Member
	ticket    Ticket
	operation *operation
	task      allocation.TaskID
	node      *node
	// at is the place among those that the node holds.
	at int
	// leaving says how it has been told to go; nil: it has not.
	leaving *leaving
	// claimed starts come from a claim, whose time was to be over at expires.
	claimed bool
	expires time.Time
	// surplus is the update as of which it is one of the latest of what its pool has beyond
	// its fair share.
	surplus uint64
	// rule is why it may go, as found in the last selection.
	rule explain.Rule
	// lost is what goes with it, and payer owes for that, as found in the last selection; nil:
	// nobody does.
	lost  resource.Amounts
	payer *debt
	// repair is the choice of jobs that have to go for limits that it is in.
	repair uint64
	// together starts are those of a gang.
	together bool
}

// holdings are all allocations, and the starts in flight.
type holdings struct {
	*claims

	allocations map[scheduling.JobID]*holding
	inFlight    map[Ticket]*holding
	lastTicket  Ticket
	// gentle is how many allocations leave gracefully.
	gentle       int
	ended        recycled[holding]
	endedLeaving recycled[leaving]
}

// AddAllocation adds an allocation that was committed before the engine was
// made. Its job is not among the pending ones of any SetDemand. The node may
// still be unknown: it comes back, or is declared lost, with its allocations. The order in
// which allocations are added is that of turns: those that started last come last.
func (e *Engine) AddAllocation(a Allocation) error {
	op, err := e.tree.operation(a.Operation)
	switch {
	case err != nil:
	case e.holdings.allocations[a.Job] != nil:
		err = ErrExists
	default:
		err = a.Resources.Validate()
	}
	if err != nil {
		return fmt.Errorf("add allocation %s of operation %s: %w", a.Job, a.Operation, err)
	}
	h := e.holdings.newHolding(op, allocation.TaskID{Name: a.Task, Group: a.Group}, e.cluster.node(a.Node), a.Resources)
	h.Job, h.Started = a.Job, a.Started
	e.holdings.allocations[a.Job] = h
	op.groups.Add(&h.Member)
	h.node.hold(h)
	h.node.judge()
	op.held++
	op.order.Serve(a.Resources)
	e.claims.trim(h.node)
	return nil
}

// RemoveAllocation frees what an allocation holds: its job has gone.
func (e *Engine) RemoveAllocation(job scheduling.JobID) error {
	h := e.holdings.allocations[job]
	if h == nil {
		return fmt.Errorf("remove allocation %s: %w", job, ErrUnknown)
	}
	delete(e.holdings.allocations, job)
	if h.leaving != nil {
		e.holdings.endLeaving(h)
	} else {
		h.operation.ran(e.moment.now.Sub(h.Started))
		h.operation.groups.Remove(&h.Member)
		h.operation.order.SubUsage(h.Resources)
	}
	e.holdings.release(h)
	return nil
}

// Commit makes an allocation of a start in flight: the entry of the log that
// starts it as this job is committed.
func (e *Engine) Commit(ticket Ticket, job scheduling.JobID, started time.Time) error {
	h := e.holdings.inFlight[ticket]
	if h == nil {
		return fmt.Errorf("commit start %d: %w", ticket, ErrUnknown)
	}
	if e.holdings.allocations[job] != nil {
		return fmt.Errorf("commit start %d as job %s: %w", ticket, job, ErrExists)
	}
	delete(e.holdings.inFlight, ticket)
	h.Job, h.ticket, h.Started, h.claimed, h.together = job, 0, started, false, false
	e.holdings.allocations[job] = h
	t := h.operation.task(h.task)
	t.inFlight--
	t.pending, t.passed = max(t.pending-1, 0), time.Time{}
	h.operation.forgetTask(t)
	h.operation.groups.Add(&h.Member)
	return nil
}

// Reject takes back a start in flight: its proposal was refused or lost.
func (e *Engine) Reject(ticket Ticket) error {
	h := e.holdings.inFlight[ticket]
	if h == nil {
		return fmt.Errorf("reject start %d: %w", ticket, ErrUnknown)
	}
	delete(e.holdings.inFlight, ticket)
	op := h.operation
	t := op.task(h.task)
	before := t.effective()
	t.inFlight--
	op.order.SubUsage(h.Resources)
	op.order.AddPending(h.task, t.effective()-before)
	op.forgetTask(t)
	h.node.release(h)
	e.holdings.reclaim(h)
	e.holdings.forgetHolding(h)
	return nil
}

// newHolding returns a holding of a node, used again if one has ended.
func (hs *holdings) newHolding(op *operation, task allocation.TaskID, n *node, resources resource.Amounts) *holding {
	h := hs.ended.take()
	h.operation, h.task, h.node, h.Resources = op, task, n, resources
	hs.claims.holds(op, task.Name, 1)
	return h
}

// release frees the node of h.
func (hs *holdings) release(h *holding) {
	h.node.release(h)
	hs.forgetHolding(h)
}

// forgetHolding drops a holding that is on its node no more, and what was waiting for
// that.
func (hs *holdings) forgetHolding(h *holding) {
	h.operation.held--
	hs.claims.holds(h.operation, h.task.Name, -1)
	hs.tree.forget(h.operation)
	hs.cluster.forgetNode(h.node)
	hs.ended.put(h)
}

// start has a job start on a node. It is usage of its operation already, and no longer
// pending.
func (hs *holdings) start(n *node, op *operation, task allocation.TaskID, needs resource.Amounts, plan *Plan) *holding {
	n.met(op.pool)
	hs.lastTicket++
	h := hs.newHolding(op, task, n, needs)
	h.ticket = hs.lastTicket
	hs.inFlight[h.ticket] = h
	n.hold(h)
	op.held++
	op.task(task).inFlight++
	op.lastStart = hs.moment.now
	plan.Starts = append(plan.Starts, Start{Ticket: h.ticket, Node: n.id, Operation: op.ID, Task: task.Name, Group: task.Group, Resources: needs})
	return h
}

// recycled holds values that have ended and are used again: what comes and goes with every job
// costs no memory.
type recycled[T any] []*T

// take returns a zero value.
func (r *recycled[T]) take() *T {
	last := len(*r) - 1
	if last < 0 {
		return new(T)
	}
	v := (*r)[last]
	*r = (*r)[:last]
	return v
}

// put takes back a value that nobody refers to any more.
func (r *recycled[T]) put(v *T) {
	var zero T
	*v = zero
	*r = append(*r, v)
}

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

// Ticket names a start in flight. Tickets are never reused.
type Ticket uint64

// Allocation is what a job holds.
type Allocation struct {
	Job       scheduling.JobID
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	// Group is the memory granted to this job alone, in bytes; 0 if the job has the reserve that
	// was learned for its task.
	Group     int64
	Node      scheduling.NodeID
	Resources resource.Amounts
	// Started is when the start was proposed.
	Started time.Time
}

// holding is an allocation, or a start in flight.
type holding struct {
	// Member has the job, start and resources. Allocations that do not leave are in the groups
	// of their operation; starts in flight are not.
	preemption.Member
	ticket    Ticket
	operation *operation
	task      allocation.TaskID
	node      *node
	// at is the index of the holding in node.held, and in is that in operation.held.
	at, in int
	// leaving is set if the job has been told to leave.
	leaving *leaving
	// claimed says that a start comes from a claim. expires is the time at which that claim would
	// have expired.
	claimed bool
	expires time.Time
	// surplus is the number of the last update in which this job was one of the youngest jobs that
	// put its pool above its fair share.
	surplus uint64
	// rule is why the job may be preempted, as of the last selection.
	rule explain.Rule
	// lost is what is lost if the job leaves, as of the last selection. payer is the debt that is
	// charged for the loss; nil if none is.
	lost  resource.Amounts
	payer *debt
	// repair is the last repair round in which the job was chosen to leave for limits.
	repair uint64
	// together says that the holding is a start of a gang.
	together bool
}

// holdings are all allocations, and the starts in flight.
type holdings struct {
	*claims

	allocations map[scheduling.JobID]*holding
	inFlight    map[Ticket]*holding
	lastTicket  Ticket
	// gentle is the number of allocations that are leaving gracefully.
	gentle       int
	ended        recycled[holding]
	endedLeaving recycled[leaving]
	// lengths are those of jobs that have ended since the last moment.
	lengths []endedLength
}

// endedLength says that a job of an operation has ended, which was in a pool.
type endedLength struct {
	of      *operation
	in      *element
	started time.Time
}

// ran notes that a job of an operation has ended by itself. How long it ran is recorded for the
// operation and for all pools above it at the next moment: the last one may be long ago.
func (hs *holdings) ran(op *operation, started time.Time) {
	hs.lengths = append(hs.lengths, endedLength{op, op.above, started})
}

// noteLengths records how long the jobs ran that have ended since the last moment.
func (hs *holdings) noteLengths(now time.Time) {
	for _, l := range hs.lengths {
		ran := max(now.Sub(l.started), 0)
		l.of.lengths.Add(ran)
		for e := l.in; e != nil; e = e.above {
			e.lengths.Add(ran)
		}
		l.of.took.add(ran.Seconds())
	}
	clear(hs.lengths)
	hs.lengths = hs.lengths[:0]
	hs.tree.noteOperations(now)
}

// Expect makes room for the allocations that are to be added to a new engine.
func (e *Engine) Expect(allocations int) {
	e.holdings.allocations = make(map[scheduling.JobID]*holding, allocations)
}

// AddAllocation adds an allocation that was committed before the engine was made. Its job must not
// be counted as pending by SetDemand. The node may still be unknown: it reconnects, or is declared
// lost, with its allocations. Add allocations in the order of their starts, which decides whose
// turn is next.
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
	op.begun = true
	op.order.Serve(a.Resources)
	e.claims.trim(h.node)
	return nil
}

// Has reports whether a job has an allocation.
func (e *Engine) Has(job scheduling.JobID) bool { return e.holdings.allocations[job] != nil }

// JobsOf returns the jobs of an operation that have allocations, in any order.
func (e *Engine) JobsOf(id scheduling.OperationID) (jobs []scheduling.JobID) {
	op, err := e.tree.operation(id)
	if err != nil {
		return nil
	}
	for _, h := range op.held {
		if h.ticket == 0 {
			jobs = append(jobs, h.Job)
		}
	}
	return jobs
}

// RemoveAllocation frees what an allocation holds, after its job has ended.
func (e *Engine) RemoveAllocation(job scheduling.JobID) error {
	h := e.holdings.allocations[job]
	if h == nil {
		return fmt.Errorf("remove allocation %s: %w", job, ErrUnknown)
	}
	delete(e.holdings.allocations, job)
	if h.leaving != nil {
		e.holdings.endLeaving(h)
	} else {
		e.holdings.ran(h.operation, h.Started)
		h.operation.groups.Remove(&h.Member)
		h.operation.order.SubUsage(h.Resources)
	}
	e.holdings.release(h)
	return nil
}

// Commit turns a start in flight into an allocation: the log entry that starts it as this job is
// committed.
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

// newHolding returns a holding of a node; it reuses one that has ended.
func (hs *holdings) newHolding(op *operation, task allocation.TaskID, n *node, resources resource.Amounts) *holding {
	h := hs.ended.take()
	h.operation, h.task, h.node, h.Resources = op, task, n, resources
	h.in, op.held = len(op.held), append(op.held, h)
	hs.claims.holds(op, task.Name, 1)
	return h
}

// release takes h off its node.
func (hs *holdings) release(h *holding) {
	h.node.release(h)
	hs.forgetHolding(h)
}

// forgetHolding drops a holding that has left its node. It also drops the operation and the node of
// the holding if nothing else keeps them.
func (hs *holdings) forgetHolding(h *holding) {
	held := h.operation.held
	last := held[len(held)-1]
	held[h.in], last.in = last, h.in
	held[len(held)-1], h.operation.held = nil, held[:len(held)-1]
	hs.claims.holds(h.operation, h.task.Name, -1)
	hs.tree.forget(h.operation)
	hs.cluster.forgetNode(h.node)
	hs.ended.put(h)
}

// start starts a job on a node. The job must already count as usage of its operation, and no longer
// as pending.
func (hs *holdings) start(n *node, op *operation, task allocation.TaskID, needs resource.Amounts, plan *Plan) *holding {
	n.met(op.pool)
	hs.lastTicket++
	h := hs.newHolding(op, task, n, needs)
	h.ticket = hs.lastTicket
	hs.inFlight[h.ticket] = h
	n.hold(h)
	op.task(task).inFlight++
	op.lastStart = hs.moment.now
	hs.tree.history.starts(op, hs.moment.now)
	plan.Starts = append(plan.Starts, Start{Ticket: h.ticket, Node: n.id, Operation: op.ID, Task: task.Name, Group: task.Group, Resources: needs})
	return h
}

// recycled keeps unused values for reuse, so that values that every job needs for a time cost no
// allocation of memory.
type recycled[T any] []*T

// take returns a zero value. Values are made many at a time.
func (r *recycled[T]) take() *T {
	if len(*r) == 0 {
		block := make([]T, 64)
		for i := range block {
			*r = append(*r, &block[i])
		}
	}
	last := len(*r) - 1
	v := (*r)[last]
	*r = (*r)[:last]
	return v
}

// put takes back a value for reuse. Nothing may refer to it.
func (r *recycled[T]) put(v *T) {
	var zero T
	*v = zero
	*r = append(*r, v)
}

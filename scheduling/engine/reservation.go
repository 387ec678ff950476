package engine

import (
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// reservation keeps what is free on a node for a job that needs more, so that smaller jobs
// do not take it bit by bit for ever. It is made where it is the turn of an operation whose
// job does not fit, and that brings it, or a pool above it, nearer to its fair share; a node
// has one at most, and so has a pool, for as long as room is held for a gang (gang_timeout).
// Then others have a turn, for as long.
//
// Reservations are the engine's own: a new one makes its own.
type reservation struct {
	// node is nil where nothing is kept.
	node      *node
	pool      *pool
	operation *operation
	task      allocation.TaskID
	needs     resource.Amounts
	until     time.Time
}

// end gives back what is kept.
func (r *reservation) end() { r.node.reserved, r.node = nil, nil }

// reserve keeps what is free on the node that is looked at for the first job of an
// operation that is passed over there, if that is owed to it.
func (e *Engine) reserve(order *allocation.Element) bool {
	n, op := e.at, order.Owner().(*operation)
	p := op.pool
	if p.reserved.node != nil || e.now.Before(p.reservesAgain) || op.effective.Graceful || op.effective.Packing.Enable || !order.Matches(n.takes) {
		return false
	}
	room := n.limits.Sub(n.claimed)
	for _, t := range order.Tasks() {
		if t.Pending == 0 || t.Closed || !t.PerJob.Fits(room) || op.gang(t.Name) != nil {
			continue
		}
		r := reservation{node: n, pool: p, operation: op, task: t.TaskID, needs: t.PerJob, until: e.now.Add(e.settings.GangTimeout)}
		if !r.holds(e.now) {
			continue
		}
		p.reserved = r
		n.reserved = &p.reserved
		p.reservesAgain = r.until.Add(e.settings.GangTimeout)
		return true
	}
	return false
}

// holds reports whether a job waits still for what is kept, and is owed to its operation.
func (r *reservation) holds(now time.Time) bool {
	op := r.operation
	if !now.Before(r.until) || !r.node.schedulable || !op.active() || op.pool != r.pool || op.waiting(r.task) == 0 || op.task(r.task).perJob != r.needs {
		return false
	}
	if _, limited := op.order.Room(r.node.limits, r.needs); limited != nil {
		return false
	}
	due := op.order.Due(r.needs)
	for p := op.pool; p.parent != nil && !due; p = p.parent {
		due = p.order.Due(r.needs)
	}
	return due
}

// meet starts the job for which what is free on a node is kept, if it fits; it reports
// whether others have to wait.
func (e *Engine) meet(n *node, now time.Time, plan *Plan) (others bool) {
	r := n.reserved
	switch {
	case r == nil:
		return false
	case !r.holds(now):
		r.end()
		return false
	case !r.needs.Fits(n.spare()):
		e.root.order.Note(allocation.Reserved, allocation.Fact{At: now, Node: n.id})
		return true
	}
	r.end()
	r.pool.reservesAgain = time.Time{}
	r.operation.order.Serve(r.needs)
	r.operation.order.AddPending(r.task, -1)
	e.start(n, r.operation, r.task, r.needs, plan)
	plan.Outcome.Starts++
	return false
}

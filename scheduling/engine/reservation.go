package engine

import (
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// reservation keeps what is free on a node for a job that needs more, so that smaller jobs
// do not take it bit by bit for ever. It is made where it is the turn of an operation whose
// job does not fit there, as long as that job is due to it or to a pool above it. It ends
// when a job of the pool starts on the node, and after the time for which room is held for a
// gang (gang_timeout); then the others have as long, and the pool waits longer each time.
//
// Reservations are the engine's own: a new one makes its own.
type reservation struct {
	// pool is nil where nothing is kept.
	pool      *pool
	operation *operation
	task      allocation.TaskID
	needs     resource.Amounts
	until     time.Time
	// again is when a further one may be made.
	again time.Time
	// listed says that the node is in the engine's list of those that keep something.
	listed bool
}

// reservations are the nodes on which something is kept for a job that needs more.
type reservations struct {
	*tree

	graceful *graceful

	reserved []*node
}

// reserve keeps what is free on the node that is looked at for the first job of an
// operation that is passed over there, if that is due. What is kept for a pool is kept from
// those that come after it.
func (rs *reservations) reserve(order *allocation.Element) bool {
	n, op := rs.moment.at, order.Owner().(*operation)
	r := &n.reserved
	if r.pool != nil {
		return r.pool == op.pool
	}
	if rs.moment.now.Before(r.again) || rs.moment.now.Before(op.pool.keeps) || op.effective.Packing.Enable || !order.Matches(n.takes) {
		return false
	}
	room := n.limits.Sub(n.claimed)
	for _, t := range order.Tasks() {
		if !t.Waits() || !t.PerJob.Fits(room) || op.gang(t.Name) != nil || rs.graceful.withheld(op, t.PerJob) || !op.due(t.PerJob, 0) {
			continue
		}
		if _, limited := order.Room(n.limits, t.PerJob); limited != nil {
			continue
		}
		op.pool.keepsMore(1)
		*r = reservation{
			pool: op.pool, operation: op, task: t.TaskID, needs: t.PerJob, listed: r.listed,
			until: rs.moment.now.Add(rs.moment.settings.GangTimeout), again: rs.moment.now.Add(2 * rs.moment.settings.GangTimeout),
		}
		if !r.listed {
			r.listed = true
			rs.reserved = append(rs.reserved, n)
		}
		return true
	}
	return false
}

// due reports whether one more job is due to an operation, or to a pool above it, besides
// those for which something is kept, but for so many.
func (op *operation) due(needs resource.Amounts, but int64) bool {
	if op.order.Due(needs.Times(op.pool.reserves-but), needs) {
		return true
	}
	for p := op.pool; p.parent != nil; p = p.parent {
		if p.order.Due(needs.Times(p.reserves-but), needs) {
			return true
		}
	}
	return false
}

// keepsMore counts so many more nodes, or fewer, on which something is kept for a job below a
// pool.
func (p *pool) keepsMore(n int64) {
	for ; p != nil; p = p.parent {
		p.reserves += n
	}
}

// unreserve ends all that is kept for operations at or below an element, which goes or
// moves.
func (rs *reservations) unreserve(of *allocation.Element) {
	for _, n := range rs.reserved {
		if r := &n.reserved; r.pool != nil && r.operation.order.Below(of) {
			r.end()
		}
	}
}

// review ends what is kept on a node for a job that waits for it no longer, or for too long.
func (n *node) review(now time.Time) {
	r := &n.reserved
	if r.pool == nil {
		return
	}
	op := r.operation
	if now.Before(r.until) && n.schedulable && op.active() && op.pool == r.pool && op.waiting(r.task) > 0 && op.task(r.task).perJob == r.needs {
		if _, limited := op.order.Room(n.limits, r.needs); limited == nil && op.due(r.needs, 1) {
			return
		}
	}
	if !now.Before(r.until) {
		r.pool.miss(now, r.again.Sub(r.until))
	}
	r.end()
}

// miss notes that something was kept for a job of the pool in vain: the next time is after a
// pause, that is longer each time, so that little is idle for jobs that come to nothing.
func (p *pool) miss(now time.Time, pause time.Duration) {
	p.keeps = now.Add(pause * time.Duration(min(1<<p.misses, maxGangPause)))
	p.misses = min(p.misses+1, maxGangPause)
}

// end gives back what is kept.
func (r *reservation) end() {
	r.pool.keepsMore(-1)
	r.pool, r.operation = nil, nil
}

// met ends what is kept on a node for the pool of a job that starts there.
func (n *node) met(p *pool) {
	if r := &n.reserved; r.pool == p {
		p.misses, p.keeps = 0, time.Time{}
		r.end()
		r.again = time.Time{}
	}
}

// chargeReserved has those pay for what is kept free on nodes for whom it is kept.
func (rs *reservations) chargeReserved() {
	for _, n := range rs.reserved {
		r := &n.reserved
		if r.pool == nil {
			continue
		}
		kept := n.spare().Min(r.needs)
		for e := &r.operation.element; e != nil; e = e.above {
			e.debt.kept = e.debt.kept.Add(kept)
		}
	}
}

// reviewReserved does so on all nodes, after an update.
func (rs *reservations) reviewReserved() {
	kept := rs.reserved[:0]
	for _, n := range rs.reserved {
		n.review(rs.moment.now)
		if n.reserved.listed = n.reserved.pool != nil; n.reserved.listed {
			kept = append(kept, n)
		}
	}
	clear(rs.reserved[len(kept):])
	rs.reserved = kept
}

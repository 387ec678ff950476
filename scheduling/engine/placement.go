package engine

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// placement starts jobs in the free resources of nodes.
type placement struct {
	*holdings

	graceful *graceful

	// keepFor and admit are the callbacks of the choice for a node.
	keepFor func(chosen *allocation.Element) bool
	admit   func(chosen *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause)
	// unpacked lets jobs start on nodes to which they are badly suited.
	unpacked bool
}

func newPlacement(hs *holdings, gr *graceful, rs *reservations) *placement {
	pl := &placement{holdings: hs, graceful: gr}
	pl.admit, pl.keepFor = pl.mayStart, rs.reserve
	return pl
}

// fill starts jobs on a node while they fit into the resources that no claim holds. If none starts,
// and some jobs wait for a node that fits them better, one of these jobs starts anyway (F.14).
func (pl *placement) fill(n *node, now time.Time, plan *Plan) {
	n.review(now)
	on := n.offered(now)
	on.MinSpare, on.Admit, on.Reserve = pl.moment.settings.Preemption.MinSpare, pl.admit, pl.keepFor
	pl.moment.at = n
	room := pl.moment.config.MaxStartsPerPlan - len(plan.Starts)
	start := func(chosen *allocation.Element, task allocation.Task) {
		op := chosen.Owner().(*operation)
		if g := op.missing(task.Name); g != nil {
			n.met(op.pool)
			op.task(task.TaskID).claimed++
			pl.gangs.gather(g, pl.claims.newClaim(n, op, task.TaskID, task.PerJob, now))
			return
		}
		pl.holdings.start(n, op, task.TaskID, task.PerJob, plan)
	}
	outcome := pl.tree.filler.Fill(pl.tree.root.order, on, room, start)
	if outcome.Starts == 0 && outcome.Left[allocation.Unpacked] > 0 {
		pl.unpacked = true
		outcome.Starts = pl.tree.filler.Fill(pl.tree.root.order, on, 1, start).Starts
		pl.unpacked = false
	}
	if outcome.Starts == 0 && (on.Free != n.free() || n.reserved.pool != nil) {
		pl.tree.root.order.Note(allocation.Reserved, allocation.Fact{At: now, Node: n.id})
	}
	plan.Outcome.Add(outcome)
}

// mayStart reports whether a job of a guarded operation may start on a node with this much free. If
// not, it gives the cause.
func (pl *placement) mayStart(chosen *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause) {
	op := chosen.Owner().(*operation)
	switch {
	case op.lacksPorts(pl.moment.at, task.Name, pl.moment.now, portsPause):
		return false, allocation.Portless
	case pl.graceful.withheld(op, task.PerJob):
		return false, allocation.Withheld
	case pl.cluster.crowded(op, task.TaskID, task.PerJob, pl.moment.at):
		return false, allocation.Crowded
	}
	packing := op.effective.Packing
	if !packing.Enable {
		return true, 0
	}
	accepted := pl.unpacked || op.packing.Accepts(pl.moment.now, task.PerJob, free, pl.cluster.total, packing)
	op.packing.Saw(pl.moment.now, free, packing)
	return accepted, allocation.Unpacked
}

// spreadPatience is how long a job of a spread task waits for a node that has fewer jobs of the
// task. It does not wait for a node that has had no heartbeat for this long.
const spreadPatience = 5 * time.Second

// crowded reports whether a job of a task that spreads over nodes waits for another node than n:
// one that could hold it now, and has fewer jobs of the task (F.14.1).
func (cl *cluster) crowded(op *operation, of allocation.TaskID, needs resource.Amounts, n *node) bool {
	if !slices.Contains(op.Spread, of.Name) {
		return false
	}
	here := n.jobsOf(op, of.Name)
	if here == 0 || !slices.ContainsFunc(cl.list, func(m *node) bool {
		return m != n && cl.heardOf(m) && cl.hasRoom(m, op, needs) && m.jobsOf(op, of.Name) < here
	}) {
		return false
	}
	t := op.task(of)
	if t.passed.IsZero() {
		t.passed = cl.moment.now
	}
	return cl.moment.now.Sub(t.passed) < spreadPatience
}

// heardOf reports whether a node had a heartbeat within spreadPatience. For a node that has never
// had one, that time begins with the first call.
func (cl *cluster) heardOf(n *node) bool {
	if n.looked.IsZero() {
		n.looked = cl.moment.now
	}
	return cl.moment.now.Sub(n.looked) < spreadPatience
}

// hasRoom reports whether a job of an operation may start on a node, and fits into the resources
// that no claim holds.
func (cl *cluster) hasRoom(m *node, op *operation, needs resource.Amounts) bool {
	if !m.known || !m.schedulable || m.overcommitted || m.reserved.pool != nil || !op.order.Matches(m.takes) {
		return false
	}
	spare := m.spare()
	return needs.Fits(spare) && cl.moment.settings.Preemption.MinSpare.Fits(spare)
}

// jobsOf counts the jobs of a task that run or start on a node and are not leaving.
func (n *node) jobsOf(op *operation, task scheduling.TaskName) (count int) {
	for _, h := range n.held {
		if h.operation == op && h.task.Name == task && h.leaving == nil {
			count++
		}
	}
	return count
}

// reservation keeps the free resources of a node for a job that needs more, so that smaller jobs do
// not take them bit by bit. It is made at the turn of an operation whose job does not fit, if that
// job is due to the operation or to a pool above it. It ends when a job of the pool starts on the
// node, or after gang_timeout. After a timeout, no reservation is made on the node for
// gang_timeout, and the pool makes none for a pause that grows each time.
//
// Reservations are not replicated: a new engine makes its own.
type reservation struct {
	// pool is nil where nothing is reserved.
	pool      *pool
	operation *operation
	task      allocation.TaskID
	needs     resource.Amounts
	until     time.Time
	// again is when the next reservation may be made on the node.
	again time.Time
	// listed says that the node is in reservations.reserved.
	listed bool
}

// reservations are the nodes that are reserved for jobs that need more than is free.
type reservations struct {
	*tree

	graceful *graceful

	reserved []*node
}

// reserve reserves the node that is being filled for the first job of an operation that is due but
// does not fit there. It reports whether the node is reserved for the operation's pool, and so kept
// from the operations that come after it.
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
		if !t.Waits() || !t.PerJob.Fits(room) || op.gang(t.Name) != nil || op.lacksPorts(n, t.Name, rs.moment.now, portsGrace) || rs.graceful.withheld(op, t.PerJob) || !op.due(t.PerJob, 0) {
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

// due reports whether one more job is due to an operation, or to a pool above it, in addition to
// the jobs that have a reservation. The parameter `but` is the number of jobs with a reservation
// that are not counted.
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

// keepsMore adds n, which may be negative, to the reservations for jobs below a pool.
func (p *pool) keepsMore(n int64) {
	for ; p != nil; p = p.parent {
		p.reserves += n
	}
}

// unreserve ends the reservations for operations at or below an element that is removed or
// moved.
func (rs *reservations) unreserve(of *allocation.Element) {
	for _, n := range rs.reserved {
		if r := &n.reserved; r.pool != nil && r.operation.order.Below(of) {
			r.end()
		}
	}
}

// review ends the reservation of a node whose job no longer waits for it, or has waited for too
// long.
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

// miss notes that a reservation for the pool was in vain. The pause before the next reservation
// grows each time, so that few resources stay idle for jobs that do not start.
func (p *pool) miss(now time.Time, pause time.Duration) {
	p.keeps = now.Add(pause * time.Duration(min(1<<p.misses, maxGangPause)))
	p.misses = min(p.misses+1, maxGangPause)
}

// end ends the reservation.
func (r *reservation) end() {
	r.pool.keepsMore(-1)
	r.pool, r.operation = nil, nil
}

// met ends the reservation of a node if it is for p, the pool of a job that starts there.
func (n *node) met(p *pool) {
	if r := &n.reserved; r.pool == p {
		p.misses, p.keeps = 0, time.Time{}
		r.end()
		r.again = time.Time{}
	}
}

// chargeReserved charges what reservations keep free to the elements for which they were made.
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

// reviewReserved reviews all reservations after an update.
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

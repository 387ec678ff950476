package engine

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// placement starts jobs in what is free on nodes.
type placement struct {
	*holdings

	graceful *graceful

	// keepFor and admit are what the choice asks of a node.
	keepFor func(chosen *allocation.Element) bool
	admit   func(chosen *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause)
	// unpacked lets jobs start on nodes that fit them badly.
	unpacked bool
}

func newPlacement(hs *holdings, gr *graceful, rs *reservations) *placement {
	pl := &placement{holdings: hs, graceful: gr}
	pl.admit, pl.keepFor = pl.mayStart, rs.reserve
	return pl
}

// fill starts jobs on a node while they fit into what nobody has a claim on. Where none
// does, and some wait for a node that fits them better, one of those starts all the same
// (F.14).
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

// mayStart says whether a job of a guarded operation may start on a node with so much
// free, and why not.
func (pl *placement) mayStart(chosen *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause) {
	op := chosen.Owner().(*operation)
	switch {
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

// spreadPatience is how long a job that is to start waits for a node that has fewer of its task's,
// and after what time without a look a node is not waited for.
const spreadPatience = 5 * time.Second

// crowded reports whether a job of a task that spreads over nodes waits for another one than n:
// one that could hold it now, and has fewer of the task's jobs (F.14.1).
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

// heardOf reports whether a node has been looked at lately, or could not have been yet.
func (cl *cluster) heardOf(n *node) bool {
	if n.looked.IsZero() {
		n.looked = cl.moment.now
	}
	return cl.moment.now.Sub(n.looked) < spreadPatience
}

// hasRoom reports whether a job of an operation may start on a node, and fits into what nobody
// has a claim on.
func (cl *cluster) hasRoom(m *node, op *operation, needs resource.Amounts) bool {
	if !m.known || !m.schedulable || m.overcommitted || m.reserved.pool != nil || !op.order.Matches(m.takes) {
		return false
	}
	spare := m.spare()
	return needs.Fits(spare) && cl.moment.settings.Preemption.MinSpare.Fits(spare)
}

// jobsOf counts the jobs of a task that a node has, or starts, and that need not leave.
func (n *node) jobsOf(op *operation, task scheduling.TaskName) (count int) {
	for _, h := range n.held {
		if h.operation == op && h.task.Name == task && h.leaving == nil {
			count++
		}
	}
	return count
}

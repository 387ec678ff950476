package engine

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

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

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// queue holds the pending cookies of a task, grouped by memory reserve. The cookies of group 0 get
// the reserve that the task has learned. Each cookie of another group had a job aborted for
// exceeding its memory; the group's number is the cookie's reserve in bytes.
type queue struct {
	learned cookies.IntervalSet
	// dedicated is sorted by memory; no group is empty.
	dedicated []dedicatedGroup
}

type dedicatedGroup struct {
	memory  int64
	cookies cookies.IntervalSet
}

func (q *queue) find(group int64) (int, bool) {
	return slices.BinarySearchFunc(q.dedicated, group, func(g dedicatedGroup, memory int64) int { return cmp.Compare(g.memory, memory) })
}

func (q *queue) add(group int64, c scheduling.Cookie) {
	if group == 0 {
		q.learned.Add(c)
		return
	}
	i, found := q.find(group)
	if !found {
		q.dedicated = slices.Insert(q.dedicated, i, dedicatedGroup{memory: group})
	}
	q.dedicated[i].cookies.Add(c)
}

// pop removes and returns the lowest cookie of a group; ok is false if there is none.
func (q *queue) pop(group int64) (c scheduling.Cookie, ok bool) {
	if group == 0 {
		return q.learned.PopFirst()
	}
	i, found := q.find(group)
	if !found {
		return 0, false
	}
	c, ok = q.dedicated[i].cookies.PopFirst()
	if q.dedicated[i].cookies.Len() == 0 {
		q.dedicated = slices.Delete(q.dedicated, i, i+1)
	}
	return c, ok
}

// len returns the number of pending cookies of a group.
func (q *queue) len(group int64) int64 {
	if group == 0 {
		return q.learned.Len()
	}
	if i, found := q.find(group); found {
		return q.dedicated[i].cookies.Len()
	}
	return 0
}

// groups returns the groups in ascending order; 0 is always one of them.
func (q *queue) groups() []int64 {
	groups := make([]int64, 1, 1+len(q.dedicated))
	for _, g := range q.dedicated {
		groups = append(groups, g.memory)
	}
	return groups
}

// all returns the cookies of all groups; the result belongs to the caller.
func (q *queue) all() cookies.IntervalSet {
	all := q.learned.Clone()
	for _, g := range q.dedicated {
		for _, interval := range g.cookies.Intervals() {
			all.AddInterval(interval)
		}
	}
	return all
}

func (q *queue) clone() queue {
	c := queue{learned: q.learned.Clone(), dedicated: slices.Clone(q.dedicated)}
	for i := range c.dedicated {
		c.dedicated[i].cookies = c.dedicated[i].cookies.Clone()
	}
	return c
}

// setPendingReason records why an operation waits in some of its trees. Its reasons in other trees
// stay.
func (c operationChange) setPendingReason(m *commandpb.SetPendingReason) *refusal {
	what := fmt.Sprintf("set pending reason of operation %q", m.GetOperationId())
	if m.GetTerm() == 0 && m.GetEpoch() != 0 {
		return c.holdBack(what, m)
	}
	if err := c.fence(what, m.GetTerm()); err != nil {
		return err
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	if o.state != lifecycle.Pending && (!o.state.CountsAsRunning() || o.state.Finishing()) {
		return refuse(CodeInvalidOperationState, "%s: it is %s, and does not wait for a pool", what, o.state)
	}
	news := false
	for _, name := range slices.Sorted(maps.Keys(m.GetReasons())) {
		i := o.treeIndex(scheduling.TreeName(name))
		if i < 0 {
			return refuse(CodeUnknownTree, "%s: the operation is not in tree %q", what, name)
		}
		in, reason := o.record.GetTrees()[i], cutText(c.limits, m.GetReasons()[name], bounds.Message)
		if in.GetAdmitted() && reason != "" {
			return refuse(CodeInvalidOperationState, "%s: it is already admitted to tree %q", what, name)
		}
		news = news || in.GetPendingReason() != reason
	}
	if !news {
		return nil
	}
	c.editTrees(o)
	for name, reason := range m.GetReasons() {
		o.record.Trees[o.treeIndex(scheduling.TreeName(name))].PendingReason = cutText(c.limits, reason, bounds.Message)
	}
	o.record.PendingReason = pendingText(o.record)
	o.record.LastIndex = c.index
	return nil
}

// holdBack records why the controller of an operation cannot define tasks yet. DefineTasks clears
// the reason.
func (c operationChange) holdBack(what string, m *commandpb.SetPendingReason) *refusal {
	o, refused := c.controlled(what, m.GetOperationId(), m.GetEpoch())
	if refused != nil {
		return refused
	}
	if o.state != lifecycle.Materializing {
		return refuse(CodeInvalidOperationState, "%s: it is %s, not materializing", what, o.state)
	}
	if len(m.GetReasons()) > 0 {
		return refuse(CodeInvalidCommand, "%s: a controller cannot set reasons for trees", what)
	}
	if reason := cutText(c.limits, m.GetHeldBack(), bounds.Message); o.record.GetHeldBack() != reason {
		c.setHeldBack(o, reason)
		o.record.LastIndex = c.index
	}
	return nil
}

func (c *change) setHeldBack(o *operation, reason string) {
	c.edit(o)
	o.record.HeldBack = reason
	o.record.PendingReason = pendingText(o.record)
}

// clearPending forgets why an operation waited.
func (c *change) clearPending(o *operation) {
	if o.record.GetPendingReason() == "" {
		return
	}
	c.editTrees(o)
	for _, t := range o.record.GetTrees() {
		t.PendingReason = ""
	}
	o.record.HeldBack, o.record.PendingReason = "", ""
}

// pendingText says why an operation waits, in all of its trees.
func pendingText(op *statepb.Operation) string {
	trees := op.GetTrees()
	if len(trees) == 1 && op.GetHeldBack() == "" {
		return trees[0].GetPendingReason()
	}
	var parts []string
	if op.GetHeldBack() != "" {
		parts = append(parts, op.GetHeldBack())
	}
	for _, t := range trees {
		if t.GetPendingReason() != "" {
			parts = append(parts, fmt.Sprintf("tree %q: %s", t.GetTree(), t.GetPendingReason()))
		}
	}
	return strings.Join(parts, "; ")
}

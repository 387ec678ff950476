package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

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

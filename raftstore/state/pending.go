package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// setPendingReason records why an operation waits in some of its trees. In those
// that are not named it stays as it is.
func (c *change) setPendingReason(m *commandpb.SetPendingReason) *refusal {
	what := fmt.Sprintf("set pending reason of operation %q", m.GetOperationId())
	if err := c.fence(what, m.GetTerm()); err != nil {
		return err
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	if o.state != lifecycle.Pending && (!o.state.CountsAsRunning() || o.state.Finishing()) {
		return refuse(CodeInvalidOperationState, "%s: it is %s and waits for no pool", what, o.state)
	}
	news := false
	for _, name := range slices.Sorted(maps.Keys(m.GetReasons())) {
		i := o.treeIndex(scheduling.TreeName(name))
		if i < 0 {
			return refuse(CodeUnknownTree, "%s: the operation is not in tree %q", what, name)
		}
		in, reason := o.record.GetTrees()[i], m.GetReasons()[name]
		if in.GetAdmitted() && reason != "" {
			return refuse(CodeInvalidOperationState, "%s: tree %q lets it run already", what, name)
		}
		news = news || in.GetPendingReason() != reason
	}
	if !news {
		return nil
	}
	c.editTrees(o)
	for name, reason := range m.GetReasons() {
		o.record.Trees[o.treeIndex(scheduling.TreeName(name))].PendingReason = reason
	}
	o.record.PendingReason = pendingText(o.record.GetTrees())
	o.record.LastIndex = c.index
	return nil
}

// clearPending forgets why an operation waited: it waits for nothing any more.
func (c *change) clearPending(o *operation) {
	if o.record.GetPendingReason() == "" {
		return
	}
	c.editTrees(o)
	for _, t := range o.record.GetTrees() {
		t.PendingReason = ""
	}
	o.record.PendingReason = ""
}

// pendingText is why an operation waits, in all of its trees.
func pendingText(trees []*statepb.OperationTree) string {
	if len(trees) == 1 {
		return trees[0].GetPendingReason()
	}
	var parts []string
	for _, t := range trees {
		if t.GetPendingReason() != "" {
			parts = append(parts, fmt.Sprintf("tree %q: %s", t.GetTree(), t.GetPendingReason()))
		}
	}
	return strings.Join(parts, "; ")
}

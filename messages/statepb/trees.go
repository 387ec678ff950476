package statepb

import (
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// In returns the operation's record in a pool tree; nil if it is not in this tree.
func (x *Operation) In(tree string) *OperationTree {
	for _, t := range x.GetTrees() {
		if t.GetTree() == tree {
			return t
		}
	}
	return nil
}

// Gang reports whether the jobs of an operation are needed all at once, in a tree with these
// settings (F.2).
func (x *OperationSpec) Gang(s pooltree.Settings) bool {
	single := len(x.GetTasks()) == 1 && x.GetTasks()[0].GetJobCount() == 1
	return x.GetIsGang() || s.SingleJobVanillaIsGang && x.GetType() == lifecycle.Vanilla && single
}

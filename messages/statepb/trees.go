package statepb

// In returns the operation in a pool tree; nil: it is not in this tree.
func (x *Operation) In(tree string) *OperationTree {
	for _, t := range x.GetTrees() {
		if t.GetTree() == tree {
			return t
		}
	}
	return nil
}

package api

import (
	"context"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/scheduling/pooltree"
)

// addTrees adds the trees of an operation, with its pool and options in each. The pool and
// weight of the operation itself are those in the first tree.
func addTrees(out *apipb.Operation, op *statepb.Operation) {
	for i, in := range op.GetTrees() {
		if i == 0 {
			out.Pool, out.Weight = in.GetPool(), pooltree.DefaultWeight
			if weight, ok := in.GetOptions().GetFields()["weight"]; ok {
				out.Weight = weight.GetNumberValue()
			}
		}
		out.Trees = append(out.Trees, &apipb.OperationTree{
			Tree: in.GetTree(), Pool: in.GetPool(), Options: orEmpty(in.GetOptions()), Admitted: in.GetAdmitted(), PendingReason: in.GetPendingReason(),
		})
	}
}

// inPool reports whether an operation is in a pool of any of its trees.
func inPool(op *statepb.Operation, pool string) bool {
	for _, in := range op.GetTrees() {
		if in.GetPool() == pool {
			return true
		}
	}
	return false
}

// addShares adds the shares of operations in each tree, if the leader's scheduler can be
// reached. The shares of the operation itself are those in its first tree.
func (s operations) addShares(ctx context.Context, what string, shown ...*apipb.Operation) error {
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{})
	elements := make(map[[2]string]*actorpb.ElementView, len(view.GetElements()))
	for _, e := range view.GetElements() {
		if !e.GetPool() {
			elements[[2]string{e.GetTree(), e.GetId()}] = e
		}
	}
	for _, op := range shown {
		for i, in := range op.GetTrees() {
			e, ok := elements[[2]string{in.GetTree(), op.GetId()}]
			if !ok {
				continue
			}
			in.FairShare, in.UsageShare, in.DemandShare, in.ClaimedShare = &e.FairShare, &e.UsageShare, &e.DemandShare, &e.ClaimedShare
			if i == 0 {
				op.FairShare, op.UsageShare, op.DemandShare = in.FairShare, in.UsageShare, in.DemandShare
			}
		}
	}
	return err
}

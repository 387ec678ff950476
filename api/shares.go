package api

import (
	"context"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/scheduling/pooltree"
)

// addTrees shows where an operation runs, and as what. Its pool and weight are those
// in the first of its trees.
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

// addShares adds what the leader's scheduler sees of operations, when it can be
// reached. The shares of an operation are those in the first of its trees.
func (s operations) addShares(ctx context.Context, shown ...*apipb.Operation) {
	view, _ := s.seen(ctx, &actorpb.SchedulerViewRequest{})
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
}

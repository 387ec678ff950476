// Package pool admits operations to run, on the leader.
//
// One actor a pool looks at the pool's pending operations whenever something
// that could let one of them run has changed, asks the limits of the pool and of
// every pool above it, and proposes what may run now. The state machine checks
// the same limits again, so two pools cannot share one free place.
package pool

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// View is what admission depends on.
type View struct {
	Tree  scheduling.TreeName
	Pools pooltree.Tree
	// Counts is of every pool with those below it.
	Counts pooltree.Counts
	// Pending are the operations of the pool that may not run in the tree yet, oldest
	// start first. Those that run in another tree are among them.
	Pending []*statepb.Operation
	// Term is the leader's term.
	Term uint64
}

// Admit returns what to propose: operations that may run in the tree, in the order
// in which they started, until a limit is reached; and for the others, the reason
// for which they wait where it is not the recorded one (F.16). Lightweight
// operations never wait.
func Admit(now time.Time, name scheduling.PoolName, view View) ([]proto.Message, error) {
	counts := make(pooltree.Counts, len(view.Counts))
	for pool, count := range view.Counts {
		counts[pool] = count
	}
	var propose []proto.Message
	lightweight := view.Pools.Lightweight(name)
	for _, op := range view.Pending {
		if op.GetSuspended() {
			continue
		}
		if !lightweight || op.GetSpec().GetType() != lifecycle.Vanilla {
			if err := view.Pools.AdmitRun(name, "", counts); err != nil {
				if op.In(string(view.Tree)).GetPendingReason() != err.Error() {
					propose = append(propose, &commandpb.SetPendingReason{
						OperationId: op.GetId(), Term: view.Term, Reasons: map[string]string{string(view.Tree): err.Error()},
					})
				}
				continue
			}
			if err := counts.Add(view.Pools, name, pooltree.Count{Running: 1}); err != nil {
				return nil, err
			}
		}
		propose = append(propose, admit(now, op, view))
	}
	return propose, nil
}

// admit lets an operation run in the tree: its first one, or one more.
func admit(now time.Time, op *statepb.Operation, view View) proto.Message {
	trees := []string{string(view.Tree)}
	if op.GetState() != lifecycle.Pending.String() {
		return &commandpb.AdmitOperation{OperationId: op.GetId(), Term: view.Term, Time: timestamppb.New(now), Trees: trees}
	}
	return &commandpb.AdvanceOperation{
		OperationId: op.GetId(),
		Term:        view.Term,
		From:        lifecycle.Pending.String(),
		To:          lifecycle.Materializing.String(),
		Time:        timestamppb.New(now),
		Trees:       trees,
	}
}

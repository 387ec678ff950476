// Package pool admits operations to run, on the leader.
//
// One actor per pool checks the pool's pending operations whenever a change could let one of them
// run, against the limits of the pool and of every pool above it, and proposes to admit those that
// may run now. The state machine checks the same limits again, so two pools cannot use the same
// free place.
package pool

import (
	"maps"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// View is the input of admission.
type View struct {
	Tree  scheduling.TreeName
	Pools pooltree.Tree
	// Counts holds the operations of each pool, including the pools below it.
	Counts pooltree.Counts
	// Pending are the operations of the pool that are not admitted in the tree yet, oldest start
	// first, including those that run in another tree.
	Pending []*statepb.Operation
	// Term is the leader's term.
	Term uint64
}

// Admit returns the commands to propose. They admit operations in the tree, oldest start first,
// until a limit is reached. For the other operations they record why each waits, if the reason has
// changed (F.16). Lightweight operations never wait.
func Admit(name scheduling.PoolName, view View) ([]proto.Message, error) {
	counts := maps.Clone(view.Counts)
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
		propose = append(propose, admit(op, view))
	}
	return propose, nil
}

// admit returns the command that admits an operation to the tree, whether or not it already runs in
// another one.
func admit(op *statepb.Operation, view View) proto.Message {
	trees := []string{string(view.Tree)}
	if op.GetState() != lifecycle.Pending.String() {
		return &commandpb.AdmitOperation{OperationId: op.GetId(), Term: view.Term, Trees: trees}
	}
	return &commandpb.AdvanceOperation{
		OperationId: op.GetId(),
		Term:        view.Term,
		From:        lifecycle.Pending.String(),
		To:          lifecycle.Materializing.String(),
		Trees:       trees,
	}
}

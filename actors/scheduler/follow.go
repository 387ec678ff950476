package scheduler

import (
	"fmt"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// Records are what events speak of, as they are now: at the index of the event or
// at a later one.
type Records interface {
	Pools(tree scheduling.TreeName) (pooltree.Tree, error)
	// Operation returns nil when there is no such operation.
	Operation(id string) (op *statepb.Operation, allocations int)
	// NodeRecord returns nil when there is no such node.
	NodeRecord(id string) *statepb.Node
}

// Follow takes the events of a log entry. Entries that the tree has seen are left
// out.
func (t *Tree) Follow(index uint64, events []state.Event, records Records) error {
	if t.Seen(index) {
		return nil
	}
	for _, event := range events {
		if err := t.take(event, records); err != nil {
			return fmt.Errorf("log entry %d: %T: %w", index, event, err)
		}
	}
	t.index = index
	t.settlePools()
	return nil
}

func (t *Tree) take(event state.Event, records Records) error {
	switch e := event.(type) {
	case state.AllocationsStarted:
		return t.Started(e.Allocations)
	case state.AllocationsEnded:
		for _, ended := range e.Ended {
			if err := t.Ended(ended.Allocation.GetJobId(), ended.Allocation.GetNode()); err != nil {
				return err
			}
		}
	case state.OperationAccepted:
		return t.operationChanged(e.ID, lifecycle.Starting, false, records)
	case state.OperationChanged:
		return t.operationChanged(e.ID, e.To, e.Suspended, records)
	case state.DemandChanged:
		return t.demandChanged(e, records)
	case state.NodeChanged:
		if node := records.NodeRecord(string(e.ID)); node != nil {
			return t.SetNode(node)
		}
	case state.PoolChanged:
		pools, err := records.Pools(e.Tree)
		if err != nil {
			return err
		}
		t.SetPools(pools)
	}
	return nil
}

func (t *Tree) operationChanged(id scheduling.OperationID, now lifecycle.State, suspended bool, records Records) error {
	op, _ := records.Operation(string(id))
	if op == nil {
		// It has left the archive meanwhile: it ended long ago.
		return t.RemoveOperation(string(id))
	}
	return t.SetOperation(op, now, suspended)
}

func (t *Tree) demandChanged(e state.DemandChanged, records Records) error {
	op, _ := records.Operation(string(e.ID))
	for _, task := range op.GetTasks() {
		if task.GetName() == string(e.Task) {
			return t.SetDemand(op.GetId(), task.GetName(), e.Pending, task.GetJobResources().Amounts())
		}
	}
	return nil
}

package scheduler

import (
	"errors"
	"fmt"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// Records reads the records that events refer to, in their current version, which may be newer than
// the event.
type Records interface {
	// Pools returns false when there is no such tree.
	Pools(tree scheduling.TreeName) (pooltree.Tree, bool)
	// Operation returns nil when there is no such operation.
	Operation(id string) (op *statepb.Operation, allocations int)
	// Placed returns an operation and the pools of a tree at one moment. The operation is nil if
	// it or the tree does not exist.
	Placed(tree scheduling.TreeName, id string) (op *statepb.Operation, pools pooltree.Tree)
	// NodeRecord returns nil when there is no such node.
	NodeRecord(id string) *statepb.Node
	// Kept returns the record of a tree, nil when there is none.
	Kept(tree scheduling.TreeName) *statepb.PoolTree
}

// Follow applies the events of a log entry. It skips entries that the tree has seen.
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
			// If the job has completed its rank, the gang no longer needs that rank.
			if ended.Allocation.GangRank != nil {
				if err := t.rankEnded(ended.Allocation, records); err != nil {
					return err
				}
			}
			if err := t.Ended(ended.Allocation.GetJobId(), ended.Allocation.GetNode()); err != nil {
				return err
			}
		}
	case state.StopsOrdered:
		return t.Leave(e.Allocations)
	case state.OperationAccepted:
		return t.operationChanged(e.ID, lifecycle.Starting, false, records)
	case state.OperationChanged:
		return t.operationChanged(e.ID, e.To, e.Suspended, records)
	case state.DemandChanged:
		op, _ := records.Operation(string(e.ID))
		return t.SetDemand(op, e)
	case state.NodeChanged:
		if node := records.NodeRecord(string(e.ID)); node != nil {
			return t.SetNode(node)
		}
	case state.NodeRemoved:
		// If the node exists, it has registered again since.
		if records.NodeRecord(string(e.ID)) == nil {
			return t.dropNode(string(e.ID))
		}
	case state.TreeChanged:
		if e.Tree != t.name {
			return nil
		}
		// A tree that no longer exists is not scheduled.
		if pools, ok := records.Pools(e.Tree); ok {
			return t.SetPools(pools)
		}
	}
	return nil
}

func (t *Tree) operationChanged(id scheduling.OperationID, now lifecycle.State, suspended bool, records Records) error {
	op, _ := records.Operation(string(id))
	if op == nil {
		// The record has been dropped from the archive: the operation ended long ago.
		return t.RemoveOperation(string(id))
	}
	err := t.SetOperation(op, now, suspended)
	if !errors.Is(err, engine.ErrUnknown) {
		return err
	}
	// The record is newer than the pools known here: the operation has been moved since, or it has
	// ended and its pool has been removed.
	op, pools := records.Placed(t.name, string(id))
	if op == nil || !pools.Has(scheduling.PoolName(op.In(string(t.name)).GetPool())) {
		return nil
	}
	if err := t.SetPools(pools); err != nil {
		return err
	}
	return t.SetOperation(op, now, suspended)
}

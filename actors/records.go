package actors

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/actors/node"
	"weir/actors/pool"
	"weir/actors/scheduler"
	"weir/cluster"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// records reads the replicated state for actors. What it returns is theirs.
type records struct {
	store     *raftstore.Store
	directory *cluster.Directory
}

// Operation implements the State of operations and controllers: the head of the
// record, and how many allocations have not ended.
func (r *records) Operation(id string) (op *statepb.Operation, allocations int) {
	r.store.View(func(s *state.State) {
		if record, ok := s.Operation(scheduling.OperationID(id)); ok {
			op = head(record)
			allocations = len(s.AllocationsOfOperation(scheduling.OperationID(id)))
		}
	})
	return op, allocations
}

// head returns what actors need of an operation: not its past, which is long. The
// spec is shared; it never changes.
func head(op *statepb.Operation) *statepb.Operation {
	h := &statepb.Operation{
		Id: op.GetId(), Spec: op.GetSpec(), State: op.GetState(), Suspended: op.GetSuspended(), Pool: op.GetPool(), Weight: op.GetWeight(),
		StartTime: op.GetStartTime(), Assignment: proto.CloneOf(op.GetAssignment()), PendingReason: op.GetPendingReason(),
		AbortJobsUntilIndex: op.GetAbortJobsUntilIndex(),
	}
	for _, task := range op.GetTasks() {
		h.Tasks = append(h.Tasks, &statepb.Task{
			Name: task.GetName(), JobResources: task.GetJobResources(),
			Counters: &statepb.JobCounters{Pending: task.GetCounters().GetPending()},
		})
	}
	return h
}

// Allocation implements the State of controllers.
func (r *records) Allocation(job string) (allocation *statepb.Allocation) {
	r.store.View(func(s *state.State) {
		if a, ok := s.Allocation(scheduling.JobID(job)); ok {
			allocation = proto.CloneOf(a)
		}
	})
	return allocation
}

// Leaving implements the State of controllers.
func (r *records) Leaving(operation string) (leaving []*statepb.Allocation) {
	r.store.View(func(s *state.State) {
		op, ok := s.Operation(scheduling.OperationID(operation))
		if !ok {
			return
		}
		for _, a := range s.AllocationsOfOperation(scheduling.OperationID(operation)) {
			if op.StopOrderFor(a) != nil {
				leaving = append(leaving, proto.CloneOf(a))
			}
		}
	})
	return leaving
}

// Node implements the State of nodes.
func (r *records) Node(id string) (record *statepb.Node, granted []node.Granted, index uint64) {
	view := r.directory.View()
	r.store.View(func(s *state.State) {
		index = s.LastIndex()
		if n, ok := s.Node(scheduling.NodeID(id)); ok {
			record = proto.CloneOf(n)
		}
		for _, a := range s.AllocationsOfNode(scheduling.NodeID(id)) {
			g := node.Granted{Allocation: proto.CloneOf(a)}
			if op, ok := s.Operation(scheduling.OperationID(a.GetOperationId())); ok {
				g.Stop = proto.CloneOf(op.StopOrderFor(a))
				g.Controller = replicaOf(view, op.GetAssignment().GetReplica())
			}
			granted = append(granted, g)
		}
	})
	return record, granted, index
}

// NodeRecord implements the State of schedulers.
func (r *records) NodeRecord(id string) (record *statepb.Node) {
	r.store.View(func(s *state.State) {
		if n, ok := s.Node(scheduling.NodeID(id)); ok {
			record = proto.CloneOf(n)
		}
	})
	return record
}

// Pools implements the State of schedulers.
func (r *records) Pools(tree scheduling.TreeName) (pools pooltree.Tree, err error) {
	err = fmt.Errorf("read pool tree %q: no such tree", tree)
	r.store.View(func(s *state.State) {
		if t, _, ok := s.Pools(tree); ok {
			pools, err = t, nil
		}
	})
	return pools, err
}

// Seed implements the State of schedulers.
func (r *records) Seed(tree scheduling.TreeName) (seed scheduler.Seed, err error) {
	err = fmt.Errorf("read pool tree %q: no such tree", tree)
	r.store.View(func(s *state.State) {
		pools, _, ok := s.Pools(tree)
		if !ok {
			return
		}
		err = nil
		seed = scheduler.Seed{Index: s.LastIndex(), Pools: pools}
		for _, n := range s.Nodes() {
			seed.Nodes = append(seed.Nodes, proto.CloneOf(n))
		}
		for op := range s.InProgress() {
			seed.Operations = append(seed.Operations, head(op))
		}
		for _, a := range s.Allocations() {
			seed.Allocations = append(seed.Allocations, proto.CloneOf(a))
		}
	})
	return seed, err
}

// Admission implements the State of pools.
func (r *records) Admission(tree scheduling.TreeName, name scheduling.PoolName) (view pool.View, err error) {
	err = fmt.Errorf("read pool %q of tree %q: no such pool", name, tree)
	r.store.View(func(s *state.State) {
		pools, counts, ok := s.Pools(tree)
		if !ok || !pools.Has(name) {
			return
		}
		err = nil
		view = pool.View{Tree: pools, Counts: counts}
		for op := range s.InProgress() {
			if op.GetPool() == string(name) && op.GetState() == lifecycle.Pending.String() {
				view.Pending = append(view.Pending, head(op))
			}
		}
	})
	return view, err
}

// controllerOf returns who controls an operation; nil: it is not in progress.
func (r *records) controllerOf(operation string) (controller *actorpb.Replica) {
	view := r.directory.View()
	r.store.View(func(s *state.State) {
		op, ok := s.Operation(scheduling.OperationID(operation))
		if !ok {
			return
		}
		if now, err := lifecycle.ParseState(op.GetState()); err == nil && now.InProgress() {
			controller = replicaOf(view, op.GetAssignment().GetReplica())
		}
	})
	return controller
}

// nodesOf returns the nodes that have jobs of an operation, by name.
func (r *records) nodesOf(operation scheduling.OperationID) (nodes []string) {
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfOperation(operation) {
			nodes = append(nodes, a.GetNode())
		}
	})
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// replicaOf names a replica and where it is reached, as far as is known.
func replicaOf(view *cluster.View, id string) *actorpb.Replica {
	known, _ := view.Replica(scheduling.ReplicaID(id))
	return &actorpb.Replica{Id: id, Address: known.Address}
}

// replicasOf lists all replicas whose address is known.
func replicasOf(view *cluster.View) []*actorpb.Replica {
	var all []*actorpb.Replica
	for _, r := range view.Replicas {
		if r.Address != "" {
			all = append(all, &actorpb.Replica{Id: string(r.ID), Address: r.Address})
		}
	}
	return all
}

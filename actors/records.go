package actors

import (
	"fmt"
	"slices"
	"sync"
	"time"

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
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/statistics"
)

// records reads the replicated state for actors. Some results are shared with the state and must
// not be changed.
type records struct {
	store     *raftstore.Store
	directory *cluster.Directory

	mu sync.Mutex
	// revoked is what agents are told, as read at readRevoked.
	revoked     *actorpb.Revocations
	readRevoked time.Time
}

// revocationsEvery is how often the revocations are read for agents: many agents ask at a time, and
// a long list takes milliseconds.
const revocationsEvery = 100 * time.Millisecond

// revocations returns what agents are told of revocations.
func (r *records) revocations() *actorpb.Revocations {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == nil || time.Since(r.readRevoked) >= revocationsEvery {
		r.readRevoked = time.Now()
		r.store.View(func(s *state.State) { r.revoked = actorpb.NewRevocations(state.RightsIn(s).Revocations()) })
	}
	return r.revoked
}

// Operation implements the State of operations and controllers. It returns the head of the record,
// and the number of allocations that have not ended.
func (r *records) Operation(id string) (op *statepb.Operation, allocations int) {
	r.store.View(func(s *state.State) {
		if record, ok := s.Operation(scheduling.OperationID(id)); ok {
			op = head(record)
			allocations = s.AllocationCount(scheduling.OperationID(id))
		}
	})
	return op, allocations
}

// head returns the parts of an operation that actors need, without its history, which is long. The
// spec, the trees and gangs are shared; they never change.
func head(op *statepb.Operation) *statepb.Operation {
	h := &statepb.Operation{
		Id: op.GetId(), User: op.GetUser(), Spec: op.GetSpec(), State: op.GetState(), Suspended: op.GetSuspended(), Trees: op.GetTrees(),
		StartTime: op.GetStartTime(), Assignment: proto.CloneOf(op.GetAssignment()), PendingReason: op.GetPendingReason(),
		AbortJobsUntilIndex: op.GetAbortJobsUntilIndex(), Stop: op.GetStop(), Output: op.GetOutput(),
	}
	for _, task := range op.GetTasks() {
		h.Tasks = append(h.Tasks, &statepb.Task{
			Name: task.GetName(), JobResources: task.GetJobResources(), Gang: task.GetGang(),
			Counters: &statepb.JobCounters{Pending: task.GetCounters().GetPending()},
		})
	}
	return h
}

// handsOver reports whether an operation has instances whose orders to leave may be held back.
func (r *records) handsOver(id scheduling.OperationID) (holds bool) {
	r.store.View(func(s *state.State) {
		op, _ := s.Operation(id)
		holds = op.GetSpec().HandsOver()
	})
	return holds
}

// Allocation implements the State of controllers. The result is not a copy: the state replaces
// allocations, and never changes one.
func (r *records) Allocation(job string) (allocation *statepb.Allocation) {
	r.store.View(func(s *state.State) { allocation, _ = s.Allocation(scheduling.JobID(job)) })
	return allocation
}

// Term implements the State of controllers.
func (r *records) Term() (term uint64) {
	r.store.View(func(s *state.State) { term = s.Term().GetTerm() })
	return term
}

// Version implements the State of nodes.
func (r *records) Version() uint32 { return r.store.Version() }

// Refusal implements the State of nodes.
func (r *records) Refusal(node *statepb.Node) (why string) {
	r.store.View(func(s *state.State) { why = state.RightsIn(s).NodeRefusal(node) })
	return why
}

// Refused implements the State of nodes.
func (r *records) Refused(node string) (why string) {
	r.store.View(func(s *state.State) {
		if record, known := s.Node(scheduling.NodeID(node)); known {
			why = state.RightsIn(s).NodeRefusal(record)
		}
	})
	return why
}

// Denied implements the State of controllers.
func (r *records) Denied(operation string) (why string) {
	r.store.View(func(s *state.State) {
		if op, found := s.Operation(scheduling.OperationID(operation)); found {
			why = state.RightsIn(s).Ungranted(op)
		}
	})
	return why
}

// Leaving implements the State of controllers.
func (r *records) Leaving(operation string) (leaving []*statepb.Allocation) {
	r.store.View(func(s *state.State) {
		for _, a := range state.LeavingOfOperation(s, scheduling.OperationID(operation)) {
			leaving = append(leaving, proto.CloneOf(a))
		}
	})
	return leaving
}

// Node implements the State of nodes. Nothing is a copy: the state replaces records, allocations and orders,
// and never changes one.
func (r *records) Node(id string) (record *statepb.Node, granted []node.Granted, index uint64) {
	view := r.directory.View()
	r.store.View(func(s *state.State) {
		index = s.LastIndex()
		record, _ = s.Node(scheduling.NodeID(id))
		for _, a := range s.AllocationsOfNode(scheduling.NodeID(id)) {
			g := node.Granted{Allocation: a}
			if op, ok := s.Operation(scheduling.OperationID(a.GetOperationId())); ok {
				g.Stop = op.StopOrderFor(a)
				g.Controller = replicaOf(view, op.GetAssignment().GetReplica())
			}
			granted = append(granted, g)
		}
	})
	return record, granted, index
}

// NodeRecord implements the State of schedulers. The result is not a copy: the state replaces records, and never
// changes one.
func (r *records) NodeRecord(id string) (record *statepb.Node) {
	r.store.View(func(s *state.State) { record, _ = s.Node(scheduling.NodeID(id)) })
	return record
}

// Pools implements the State of schedulers.
func (r *records) Pools(tree scheduling.TreeName) (pools pooltree.Tree, ok bool) {
	r.store.View(func(s *state.State) { pools, _, ok = s.Pools(tree) })
	return pools, ok
}

// Kept implements the State of schedulers.
func (r *records) Kept(tree scheduling.TreeName) (record *statepb.PoolTree) {
	r.store.View(func(s *state.State) { record, _ = s.Tree(tree) })
	return record
}

// Placed implements the State of schedulers.
func (r *records) Placed(tree scheduling.TreeName, id string) (op *statepb.Operation, pools pooltree.Tree) {
	r.store.View(func(s *state.State) {
		known, _, ok := s.Pools(tree)
		if record, found := s.Operation(scheduling.OperationID(id)); ok && found {
			op, pools = head(record), known
		}
	})
	return op, pools
}

// Seed implements the State of schedulers.
func (r *records) Seed(tree scheduling.TreeName) (seed scheduler.Seed, ok bool) {
	r.store.View(func(s *state.State) {
		var pools pooltree.Tree
		if pools, _, ok = s.Pools(tree); !ok {
			return
		}
		record, _ := s.Tree(tree)
		seed = scheduler.Seed{
			Tree: tree, Index: s.LastIndex(), Pools: pools, Claims: s.Claims(tree), Rates: s.PreemptionRates(tree), Kept: record,
		}
		for _, n := range s.Nodes() {
			// The state replaces nodes and allocations, and never changes one.
			if n.GetTree() == string(tree) {
				seed.Nodes = append(seed.Nodes, n)
			}
		}
		seed.Allocations = state.AllocationsInTree(s, tree)
		ended, _ := state.EndedBefore(s, 0, scheduler.PastOperations)
		for _, op := range slices.Backward(ended) {
			op, _ = s.Operation(scheduling.OperationID(op.GetId()))
			seed.Past = appendPast(seed.Past, s, tree, op)
		}
		for op := range s.InProgress() {
			if op.In(string(tree)) != nil {
				seed.Operations = append(seed.Operations, head(op))
				seed.Past = appendPast(seed.Past, s, tree, op)
				seed.Demand = append(seed.Demand, s.Demand(scheduling.OperationID(op.GetId()))...)
			}
		}
	})
	return seed, ok
}

// appendPast adds what the state knows of an operation, if it is in a tree.
func appendPast(all []engine.Past, s *state.State, tree scheduling.TreeName, op *statepb.Operation) []engine.Past {
	ran := state.StatisticOf(s, scheduling.OperationID(op.GetId()), statistics.TimeTotal, lifecycle.JobCompleted)
	if past, ok := scheduler.PastOf(tree, op, ran); ok {
		all = append(all, past)
	}
	return all
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
		view = pool.View{Tree: tree, Pools: pools, Counts: counts}
		if counts[name].Waiting == 0 {
			return
		}
		for op := range s.InProgress() {
			if in := op.In(string(tree)); in.GetPool() == string(name) && waits(op, in) {
				view.Pending = append(view.Pending, head(op))
			}
		}
	})
	return view, err
}

// waits reports whether an operation waits for admission to a pool of one of its trees.
func waits(op *statepb.Operation, in *statepb.OperationTree) bool {
	at, err := lifecycle.ParseState(op.GetState())
	return err == nil && state.Waits(at, in)
}

// controllerOf returns the replica that controls an operation; nil if the operation is not in
// progress.
func (r *records) controllerOf(operation string) (controller *actorpb.Replica) {
	view := r.directory.View()
	r.store.View(func(s *state.State) {
		op, _ := s.Operation(scheduling.OperationID(operation))
		if now, err := lifecycle.ParseState(op.GetState()); err == nil && now.InProgress() {
			controller = replicaOf(view, op.GetAssignment().GetReplica())
		}
	})
	return controller
}

// nodesOf returns the nodes that have jobs of an operation, sorted by name.
func (r *records) nodesOf(operation scheduling.OperationID) (nodes []string) {
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfOperation(operation) {
			nodes = append(nodes, a.GetNode())
		}
	})
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// replicaOf returns a replica with its address, if that is known.
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

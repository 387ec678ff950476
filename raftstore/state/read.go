package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/statistics"
)

// LastIndex returns the log index of the last command, carried out or refused.
func (s *State) LastIndex() uint64 { return s.lastIndex }

// LastTime returns the latest time of a command that was carried out. No command
// is carried out at an earlier time.
func (s *State) LastTime() time.Time { return s.lastTime }

// Term returns the last leadership that announced itself; term 0 when none has.
func (s *State) Term() *statepb.Term { return s.term }

// ClusterID returns the id of the cluster, empty before its first leader.
func (s *State) ClusterID() string { return s.clusterID }

// Limits returns what bounds the state.
func (s *State) Limits() *statepb.Limits { return s.limits }

// Operation returns an operation, in progress or archived. Its tasks carry
// counters; which cookies they are is read with Cookies.
func (s *State) Operation(id scheduling.OperationID) (*statepb.Operation, bool) {
	o, ok := operationIn(s.operations, id)
	return o.record, ok
}

// operationIn returns one of some operations; one with nothing in it where there is none.
func operationIn(all map[scheduling.OperationID]*operation, id scheduling.OperationID) (*operation, bool) {
	if o, ok := all[id]; ok {
		return o, true
	}
	return &operation{version: &version{}}, false
}

// Demand returns how many jobs of an operation wait for an allocation: what DemandChanged
// has told of it last. Of each task there is group 0, and then those that have jobs.
func (s *State) Demand(id scheduling.OperationID) (all []DemandChanged) {
	o, _ := operationIn(s.operations, id)
	for i, t := range o.record.GetTasks() {
		for _, group := range o.tasks[i].pending.groups() {
			all = append(all, DemandChanged{ID: id, Task: scheduling.TaskName(t.GetName()), Group: group, Pending: o.offered(i, group)})
		}
	}
	return all
}

// OperationByAlias returns the latest operation with an alias: the one in
// progress, if there is one.
func (s *State) OperationByAlias(alias string) (*statepb.Operation, bool) {
	return s.Operation(s.aliases[alias])
}

// OperationByMutation returns the operation that a user started with a mutation
// id.
func (s *State) OperationByMutation(user scheduling.User, mutationID string) (*statepb.Operation, bool) {
	return s.Operation(s.mutations[mutation{user: user, id: mutationID}])
}

// Operations yields all operations, in the order of their acceptance.
func (s *State) Operations() iter.Seq[*statepb.Operation] {
	return operationsIn(s.order, func(lifecycle.State) bool { return true })
}

// InProgress yields the operations that have not ended, in the order of their
// acceptance.
func (s *State) InProgress() iter.Seq[*statepb.Operation] {
	return operationsIn(s.order, lifecycle.State.InProgress)
}

func operationsIn(order []*operation, in func(lifecycle.State) bool) iter.Seq[*statepb.Operation] {
	return func(yield func(*statepb.Operation) bool) {
		for _, o := range order {
			if in(o.state) && !yield(o.record) {
				return
			}
		}
	}
}

// Cookies returns the cookies of a task that wait for an allocation, and those
// that are completed. Both are the caller's own.
func (s *State) Cookies(id scheduling.OperationID, task scheduling.TaskName) (pending, completed cookies.IntervalSet, ok bool) {
	w, ok := s.workOf(id, task)
	return w.pending.all(), w.completed.Clone(), ok
}

// GivenUp returns the cookies of a task that have failed as often as they may. It is the
// caller's own.
func (s *State) GivenUp(id scheduling.OperationID, task scheduling.TaskName) cookies.IntervalSet {
	w, _ := s.workOf(id, task)
	return w.givenUp.Clone()
}

// Failed returns the cookies of a task of an operation that has ended which have failed and
// not completed since, given up or not. It is the caller's own.
func (s *State) Failed(id scheduling.OperationID, task scheduling.TaskName) cookies.IntervalSet {
	w, _ := s.workOf(id, task)
	failed := w.givenUp.Clone()
	for _, interval := range w.failed.Intervals() {
		failed.AddInterval(interval)
	}
	return failed
}

// Input returns what a map operation in progress reads; nil before it is prepared.
func (s *State) Input(id scheduling.OperationID) *statepb.Input {
	o, _ := operationIn(s.operations, id)
	return o.input
}

// workOf returns the work of a task; where there is none, some with nothing to do.
func (s *State) workOf(id scheduling.OperationID, task scheduling.TaskName) (*work, bool) {
	o, _ := operationIn(s.operations, id)
	if i, ok := o.taskIndex[task]; ok {
		return &o.tasks[i], true
	}
	return &work{}, false
}

// Slices returns what a cookie of a map operation in progress reads; nil when it is
// completed.
func (s *State) Slices(id scheduling.OperationID, task scheduling.TaskName, c scheduling.Cookie) []*statepb.Slice {
	w, _ := s.workOf(id, task)
	if c < 0 || int(c) >= len(w.slices) {
		return nil
	}
	return w.slices[c].GetSlices()
}

// Parts returns what the completed cookies of a map operation in progress have read and
// written, in the order in which they completed.
func (s *State) Parts(id scheduling.OperationID, task scheduling.TaskName) []*statepb.CompletedPart {
	w, _ := s.workOf(id, task)
	return slices.Clip(w.parts)
}

// TaskStatistics is what was measured of the jobs of a task that have ended.
type TaskStatistics struct {
	Task scheduling.TaskName
	statistics.Set
}

// Statistics returns what was measured of the jobs of an operation that have ended, by
// task. It is the caller's own. Of operations that ended long ago there are no
// histograms.
func (s *State) Statistics(id scheduling.OperationID) (all []TaskStatistics) {
	o, _ := operationIn(s.operations, id)
	for i, t := range o.record.GetTasks() {
		all = append(all, TaskStatistics{Task: scheduling.TaskName(t.GetName()), Set: o.tasks[i].statistics.Set.Clone()})
	}
	return all
}

// Allocation returns the allocation of a job that has not ended.
func (s *State) Allocation(job scheduling.JobID) (*statepb.Allocation, bool) {
	a, ok := s.allocations[job]
	return a, ok
}

// Allocations returns all allocations in the order of their grants.
func (s *State) Allocations() []*statepb.Allocation { return byGrant(s.allocations) }

// AllocationsOfNode returns the allocations of a node, of all its lives, in the
// order of their grants.
func (s *State) AllocationsOfNode(id scheduling.NodeID) []*statepb.Allocation {
	return byGrant(orEmpty(s.nodes, id).allocations)
}

// AllocationsOfOperation returns the allocations of an operation in the order of
// their grants.
func (s *State) AllocationsOfOperation(id scheduling.OperationID) []*statepb.Allocation {
	o, _ := operationIn(s.operations, id)
	return byGrant(o.allocations)
}

// AllocationCount returns how many allocations an operation has.
func (s *State) AllocationCount(id scheduling.OperationID) int {
	o, _ := operationIn(s.operations, id)
	return len(o.allocations)
}

// LeavingOfOperation returns the allocations of an operation whose job has to end, in
// the order of their grants.
func (s *State) LeavingOfOperation(id scheduling.OperationID) (leaving []*statepb.Allocation) {
	o, _ := operationIn(s.operations, id)
	for _, a := range o.allocations {
		if o.record.StopOrderFor(a) != nil {
			leaving = append(leaving, a)
		}
	}
	slices.SortFunc(leaving, compareGrants)
	return leaving
}

// Node returns a node as it was last known.
func (s *State) Node(id scheduling.NodeID) (*statepb.Node, bool) {
	n := orEmpty(s.nodes, id)
	return n.record, n.record != nil
}

// Nodes returns all nodes by id.
func (s *State) Nodes() []*statepb.Node {
	return listed(s.nodes, func(n *node) *statepb.Node { return n.record })
}

// NodeUsage returns the sum of a node's allocations.
func (s *State) NodeUsage(id scheduling.NodeID) resource.Amounts {
	return orEmpty(s.nodes, id).usage
}

// Tree returns the record of a pool tree, its pools by name.
func (s *State) Tree(name scheduling.TreeName) (*statepb.PoolTree, bool) {
	t := orEmpty(s.trees, name)
	return t.record, t.record != nil
}

// Trees returns the records of all pool trees by name.
func (s *State) Trees() []*statepb.PoolTree {
	return listed(s.trees, func(t *tree) *statepb.PoolTree { return t.record })
}

// DefaultTree returns the name of the tree of operations that name none.
func (s *State) DefaultTree() scheduling.TreeName { return s.defaultTree }

// Pools returns the pools of a tree as the scheduler knows them, and how many
// operations each holds, those of the pools below it included.
func (s *State) Pools(name scheduling.TreeName) (pooltree.Tree, pooltree.Counts, bool) {
	t := orEmpty(s.trees, name)
	return t.pools, maps.Clone(t.total), t.record != nil
}

// Counts says how much there is in a state.
type Counts struct {
	// Operations are all that are kept: in progress or archived.
	Operations, InProgress, Archived int
	Allocations                      int
	Nodes, NodesOnline               int
	// NodesDraining are kept free of new jobs, online or not.
	NodesDraining int
	Trees, Pools  int
	// Profiles are those of memory.
	Profiles int
}

// Counts returns how much there is in the state.
func (s *State) Counts() Counts {
	c := Counts{
		Operations:  len(s.operations),
		Profiles:    len(s.profiles),
		InProgress:  s.inProgress,
		Archived:    len(s.archive),
		Allocations: len(s.allocations),
		Nodes:       len(s.nodes),
		Trees:       len(s.trees),
	}
	for _, n := range s.nodes {
		if n.record.GetState() == statepb.NodeOnline {
			c.NodesOnline++
		}
		if n.drain() != nil {
			c.NodesDraining++
		}
	}
	for _, t := range s.trees {
		c.Pools += len(t.record.GetPools())
	}
	return c
}

// byGrant returns allocations by the log index of their grant and then by id.
func byGrant(allocations map[scheduling.JobID]*statepb.Allocation) []*statepb.Allocation {
	return slices.SortedFunc(maps.Values(allocations), compareGrants)
}

func compareGrants(a, b *statepb.Allocation) int {
	return cmp.Or(cmp.Compare(a.GetGrantIndex(), b.GetGrantIndex()), cmp.Compare(a.GetJobId(), b.GetJobId()))
}

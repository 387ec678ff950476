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

// LastTime returns the time of the state: the latest time of a command applied so far. Commands are
// never applied at an earlier time than this.
func (s *State) LastTime() time.Time { return s.lastTime }

// Term returns the latest term that a leader has announced, or term 0 if no leader has announced
// one.
func (s *State) Term() *statepb.Term { return s.term }

// Version returns the version of the cluster (package versions).
func (s *State) Version() uint32 { return s.version }

// ClusterID returns the id of the cluster, empty before its first leader.
func (s *State) ClusterID() string { return s.clusterID }

// Limits returns the limits of the state.
func (s *State) Limits() *statepb.Limits { return s.limits }

// Operation returns an operation, in progress or archived, whole. Its tasks have only counters;
// use Cookies for the cookies.
func (s *State) Operation(id scheduling.OperationID) (*statepb.Operation, bool) {
	o, ok := operationIn(s.operations, id)
	return o.record, ok
}

// Head returns what is kept in memory of an operation, in progress or archived: of those that ended before the latest no
// more than rights are judged by, and most of what lists select by.
func Head(s *State, id scheduling.OperationID) (*statepb.Operation, bool) {
	o, ok := s.operations[id]
	if !ok {
		return nil, false
	}
	return o.record, true
}

// operationIn returns the operation with an id, whole, or an empty operation if there is none.
func operationIn(all map[scheduling.OperationID]*operation, id scheduling.OperationID) (*operation, bool) {
	if o, ok := all[id]; ok {
		return o.whole(), true
	}
	return &operation{version: &version{}}, false
}

// Demand returns how many jobs of an operation are pending, as the latest DemandChanged events have
// reported. For each task it lists group 0 first, and then the other groups that have pending jobs.
func (s *State) Demand(id scheduling.OperationID) (all []DemandChanged) {
	o, _ := operationIn(s.operations, id)
	for i, t := range o.record.GetTasks() {
		for _, group := range o.tasks[i].pending.groups() {
			all = append(all, DemandChanged{ID: id, Task: scheduling.TaskName(t.GetName()), Group: group, Pending: o.demand(i, group)})
		}
	}
	return all
}

// OperationByAlias returns the latest operation with an alias. If one of these operations is in
// progress, it is the latest.
func (s *State) OperationByAlias(alias string) (*statepb.Operation, bool) {
	return s.Operation(s.aliases[alias])
}

// OperationByMutation returns the operation that a user, or an operator of that name, started with a
// mutation id.
func (s *State) OperationByMutation(user scheduling.User, byOperator bool, mutationID string) (*statepb.Operation, bool) {
	return s.Operation(s.mutations[mutation{user: user, byOperator: byOperator, id: mutationID}])
}

// Operations yields all operations, in the order of their acceptance. Those that ended before the latest are as in Head:
// Operation has the rest.
func (s *State) Operations() iter.Seq[*statepb.Operation] {
	return operationsIn(s.order)
}

// InProgress yields the operations that have not ended, in the order of their
// acceptance.
func (s *State) InProgress() iter.Seq[*statepb.Operation] {
	return operationsIn(s.inProgress)
}

func operationsIn(order []*operation) iter.Seq[*statepb.Operation] {
	return func(yield func(*statepb.Operation) bool) {
		for _, o := range order {
			if !yield(o.record) {
				return
			}
		}
	}
}

// OperationsBefore returns the latest n operations of those accepted before the one with a number,
// latest first, and the number of the last of them; 0 if there are none. The number 0 is that of the next operation.
// With it a reader can go through many operations in several short reads. With inProgress it leaves out those that
// have ended. They are as in Operations.
func OperationsBefore(s *State, number uint64, n int, inProgress bool) (some []*statepb.Operation, next uint64) {
	order := s.order
	if inProgress {
		order = s.inProgress
	}
	end := len(order)
	if number > 0 {
		end, _ = slices.BinarySearchFunc(order, number, bySequence)
	}
	for _, o := range slices.Backward(order[max(0, end-n):end]) {
		some, next = append(some, o.record), o.sequence
	}
	return some, next
}

// EndedBefore is like OperationsBefore, for the operations that have ended, latest end first, and their numbers in
// the order of ends.
func EndedBefore(s *State, number uint64, n int) (some []*statepb.Operation, next uint64) {
	end := len(s.archive)
	if number > 0 {
		end, _ = slices.BinarySearchFunc(s.archive, number, byEnd(s))
	}
	for _, id := range slices.Backward(s.archive[max(0, end-n):end]) {
		o := s.operations[scheduling.OperationID(id)]
		some, next = append(some, o.record), o.ended
	}
	return some, next
}

// EndOf returns the number of an operation for EndedBefore; ok is false if it is unknown or in progress.
func EndOf(s *State, id scheduling.OperationID) (number uint64, ok bool) {
	o, ok := s.operations[id]
	if !ok {
		return 0, false
	}
	return o.ended, o.ended > 0
}

// NumberOf returns the number of an operation for OperationsBefore.
func NumberOf(s *State, id scheduling.OperationID) (number uint64, ok bool) {
	o, ok := s.operations[id]
	if !ok {
		return 0, false
	}
	return o.sequence, true
}

// Cookies returns the pending and the completed cookies of a task. Both results belong to
// the caller.
func (s *State) Cookies(id scheduling.OperationID, task scheduling.TaskName) (pending, completed cookies.IntervalSet, ok bool) {
	w, ok := s.workOf(id, task)
	return w.pending.all(), w.completed.Clone(), ok
}

// GivenUp returns the cookies of a task that have used up their attempts. The result
// belongs to the caller.
func (s *State) GivenUp(id scheduling.OperationID, task scheduling.TaskName) cookies.IntervalSet {
	w, _ := s.workOf(id, task)
	return w.givenUp.Clone()
}

// Failed returns the cookies of a task of an ended operation that failed and have not completed
// since, including those given up. The result belongs to the caller.
func (s *State) Failed(id scheduling.OperationID, task scheduling.TaskName) cookies.IntervalSet {
	w, _ := s.workOf(id, task)
	failed := w.givenUp.Clone()
	for _, interval := range w.failed.Intervals() {
		failed.AddInterval(interval)
	}
	return failed
}

// Input returns the input of a map operation in progress; nil before it is prepared.
func (s *State) Input(id scheduling.OperationID) *statepb.Input {
	o, _ := operationIn(s.operations, id)
	return o.input
}

// workOf returns the work of a task, or empty work if there is no such task.
func (s *State) workOf(id scheduling.OperationID, task scheduling.TaskName) (*work, bool) {
	o, _ := operationIn(s.operations, id)
	if i, ok := o.taskIndex[task]; ok {
		return &o.tasks[i], true
	}
	return &work{}, false
}

// Slices returns the input of a cookie of a map operation in progress; nil if the cookie is
// completed.
func (s *State) Slices(id scheduling.OperationID, task scheduling.TaskName, c scheduling.Cookie) []*statepb.Slice {
	w, _ := s.workOf(id, task)
	if c < 0 || int(c) >= len(w.slices) {
		return nil
	}
	return w.slices[c].GetSlices()
}

// Parts returns the input and output of the completed cookies of a map operation in
// progress, in the order in which they completed.
func (s *State) Parts(id scheduling.OperationID, task scheduling.TaskName) []*statepb.CompletedPart {
	w, _ := s.workOf(id, task)
	return slices.Clip(w.parts)
}

// TaskStatistics are the statistics of the ended jobs of a task.
type TaskStatistics struct {
	Task scheduling.TaskName
	statistics.Set
}

// Statistics returns the statistics of the ended jobs of an operation, by task. The
// result belongs to the caller. Operations that ended long ago have no histograms.
func (s *State) Statistics(id scheduling.OperationID) (all []TaskStatistics) {
	o, _ := operationIn(s.operations, id)
	for i, t := range o.record.GetTasks() {
		all = append(all, TaskStatistics{Task: scheduling.TaskName(t.GetName()), Set: o.tasks[i].statistics.Set.Clone()})
	}
	return all
}

// StatisticOf returns one statistic of the ended jobs of an operation, over all its tasks.
func StatisticOf(s *State, id scheduling.OperationID, name string, of lifecycle.JobState) (all statistics.Aggregate) {
	o, _ := operationIn(s.operations, id)
	for i := range o.tasks {
		all.Merge(o.tasks[i].statistics.Of(name, of.String()))
	}
	return all
}

// Allocation returns the allocation of a job that has not ended.
func (s *State) Allocation(job scheduling.JobID) (*statepb.Allocation, bool) {
	return s.allocations.of(job)
}

// Allocations returns all allocations in the order of their grants.
func (s *State) Allocations() []*statepb.Allocation {
	return slices.SortedFunc(s.allocations.all(), compareGrants)
}

// AllocationsOfNode returns the allocations of a node, of all its incarnations, in the
// order of their grants.
func (s *State) AllocationsOfNode(id scheduling.NodeID) []*statepb.Allocation {
	return byGrant(orEmpty(s.nodes, id).allocations)
}

// AllocationsOfOperation returns the allocations of an operation in the order of
// their grants.
func (s *State) AllocationsOfOperation(id scheduling.OperationID) []*statepb.Allocation {
	return byGrant(allocationsOf(s, id))
}

// allocationsOf returns the allocations of an operation. It does not read from the shelf.
func allocationsOf(s *State, id scheduling.OperationID) map[scheduling.JobID]*statepb.Allocation {
	if o, ok := s.operations[id]; ok {
		return o.allocations
	}
	return nil
}

// FirstAllocations returns the first n, one at least, of the selected allocations of an operation by grant, and how many are selected.
func FirstAllocations(s *State, id scheduling.OperationID, n int, selected func(*statepb.Allocation) bool) (first []*statepb.Allocation, count int) {
	cut := false
	for _, a := range allocationsOf(s, id) {
		if !selected(a) {
			continue
		}
		count++
		// Invariant: once cut, the first n are sorted, and what comes after them is not wanted.
		if !cut || compareGrants(a, first[n-1]) < 0 {
			first = append(first, a)
		}
		if len(first)/2 > n {
			slices.SortFunc(first, compareGrants)
			first, cut = first[:n], true
		}
	}
	slices.SortFunc(first, compareGrants)
	return first[:min(n, len(first))], count
}

// AllocationsInTree returns the allocations on the nodes of a tree, in any order.
func AllocationsInTree(s *State, tree scheduling.TreeName) []*statepb.Allocation {
	all := make([]*statepb.Allocation, 0, s.allocations.count)
	for _, n := range s.byName {
		if n.record.GetTree() == string(tree) {
			all = slices.AppendSeq(all, maps.Values(n.allocations))
		}
	}
	return all
}

// AllocationCount returns the number of allocations of an operation.
func (s *State) AllocationCount(id scheduling.OperationID) int {
	return len(allocationsOf(s, id))
}

// LeavingOfOperation returns the allocations of an operation that are ordered to stop, in
// the order of their grants.
func LeavingOfOperation(s *State, id scheduling.OperationID) (leaving []*statepb.Allocation) {
	o, _ := operationIn(s.operations, id)
	for _, a := range o.allocations {
		if o.record.StopOrderFor(a) != nil {
			leaving = append(leaving, a)
		}
	}
	slices.SortFunc(leaving, compareGrants)
	return leaving
}

// Node returns the latest record of a node.
func (s *State) Node(id scheduling.NodeID) (*statepb.Node, bool) {
	n := orEmpty(s.nodes, id)
	return n.record, n.record != nil
}

// Nodes returns all nodes by id.
func (s *State) Nodes() []*statepb.Node {
	all := make([]*statepb.Node, len(s.byName))
	for i, n := range s.byName {
		all[i] = n.record
	}
	return all
}

// NodeUsage returns the sum of a node's allocations.
func (s *State) NodeUsage(id scheduling.NodeID) resource.Amounts {
	return orEmpty(s.nodes, id).usage
}

// JobsOnNode returns the number of a node's allocations.
func JobsOnNode(s *State, id scheduling.NodeID) int { return len(orEmpty(s.nodes, id).allocations) }

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

// Pools returns the pools of a tree as the scheduler knows them, and the number of
// operations in each, including those of the pools below it.
func (s *State) Pools(name scheduling.TreeName) (pooltree.Tree, pooltree.Counts, bool) {
	t := orEmpty(s.trees, name)
	return t.pools, maps.Clone(t.total), t.record != nil
}

// Counts are numbers of records in a state.
type Counts struct {
	// Operations counts all operations: in progress or archived.
	Operations, InProgress, Archived int
	Allocations                      int
	Nodes, NodesOnline               int
	// NodesDraining counts drained nodes, online or not.
	NodesDraining int
	Trees, Pools  int
	// Profiles counts memory profiles.
	Profiles int
}

// Counts returns the numbers of records in the state.
func (s *State) Counts() Counts {
	c := Counts{
		Operations:  len(s.operations),
		Profiles:    len(s.profiles),
		InProgress:  len(s.inProgress),
		Archived:    len(s.archive),
		Allocations: s.allocations.count,
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

// byGrant returns allocations ordered by the log index of their grant and, within one index, by id.
func byGrant(allocations map[scheduling.JobID]*statepb.Allocation) []*statepb.Allocation {
	return slices.SortedFunc(maps.Values(allocations), compareGrants)
}

func compareGrants(a, b *statepb.Allocation) int {
	if a.GetGrantIndex() != b.GetGrantIndex() {
		return cmp.Compare(a.GetGrantIndex(), b.GetGrantIndex())
	}
	return cmp.Compare(a.GetJobId(), b.GetJobId())
}

package state

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Verify checks the invariants that hold after every command and returns the first violation:
//
//   - each cookie of a task is exactly one of pending, running, completed and given up, and
//     the counters agree; no cookie that may run again has used up its attempts;
//   - a pending cookie is in the group of its reserve, and each rank of a gang is free,
//     held by one running job, or completed;
//   - each byte of the input of a map operation in progress is assigned to one cookie, has
//     been read by one, or is skipped;
//   - an operation has allocations only while it runs or is finishing;
//   - each allocation is listed by its operation and its node, both of which
//     exist, and a node's usage is the sum of its allocations and at most its
//     resources, unless it registered again with less;
//   - stop orders have a deadline, and a TCP port of a node belongs to one job;
//   - ledgers of lost work have no negative amounts, and those of trees refer to existing
//     pools;
//   - pools count their operations, match their record, and hold every
//     operation in progress; jobs run in trees to which their operation is admitted; a node
//     belongs to the tree whose filter matches it, and to no other; volumes belong to
//     existing pools, and ephemeral pools hold operations;
//   - claims belong to running operations that want the job, on nodes that are online, and
//     preemption rates to existing pools;
//   - aliases and mutation ids lead to one operation each, operations are in
//     the order of acceptance, and the archive lists those that have ended;
//   - what operations take in bytes is counted by user and by pool;
//   - everything bounded is within its limit.
func (s *State) Verify() error { return (verifier{State: s, shelved: true}).verify() }

func (s verifier) verify() error {
	v := s
	checks := []func() error{
		v.verifyOrder, v.verifyOperations, v.verifyAllocations, v.verifyNodes, v.verifyTrees, v.verifyNames, v.verifyProfiles, v.verifyClaims, v.verifyRates,
		v.verifyQuotas,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return fmt.Errorf("state at index %d: %w", s.lastIndex, err)
		}
	}
	return nil
}

// VerifyOperation checks the cookies, counters and lists of one operation, as Verify does. Its cost
// is proportional to the intervals of its cookies, so it can be called whenever an operation ends.
// An unknown operation is no violation.
func (s *State) VerifyOperation(id scheduling.OperationID) error {
	o, ok := s.operations[id]
	if !ok {
		return nil
	}
	if err := (verifier{State: s}).verifyOperation(o.whole()); err != nil {
		return fmt.Errorf("state at index %d: operation %q: %w", s.lastIndex, id, err)
	}
	return nil
}

// verifier checks the parts of a State against each other.
type verifier struct {
	*State
	// shelved includes the records on the shelf.
	shelved bool
}

// breach is the first violation found.
type breach struct{ err error }

// when records a violation if the parameter wrong is true, unless another was recorded before.
func (b *breach) when(wrong bool, format string, args ...any) {
	if wrong && b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// add records an error, unless another was recorded before.
func (b *breach) add(err error) {
	if b.err == nil {
		b.err = err
	}
}

// verifyOrder checks the order of operations and the archive.
func (s verifier) verifyOrder() error {
	var b breach
	b.when(len(s.order) != len(s.operations), "%d operations in the order of acceptance, but %d in all", len(s.order), len(s.operations))
	var inProgress []*operation
	var accepted, sequence uint64
	for _, o := range s.order {
		b.when(s.operations[o.id()] != o, "operation %q: not found by its id", o.id())
		b.when(o.sequence <= sequence || o.record.GetAcceptedIndex() < accepted, "operation %q: not in order of acceptance", o.id())
		sequence, accepted = o.sequence, o.record.GetAcceptedIndex()
		if !o.state.Terminal() {
			inProgress = append(inProgress, o)
		}
	}
	b.when(!slices.Equal(inProgress, s.inProgress), "%d operations in progress, but listed %d, or others", len(inProgress), len(s.inProgress))
	for o, why := range RightsIn(s.State).deniedNow() {
		b.when(o.denied != why, "operation %q: denied as %q, but the grants say %q", o.id(), o.denied, why)
	}
	ended, limit := len(s.order)-len(inProgress), int(s.limits.GetArchivedOperations())
	b.when(len(s.archive) != ended || ended > limit, "archive holds %d operations; %d have ended, and at most %d may be kept", len(s.archive), ended, limit)
	seen := make(map[string]bool, len(s.archive))
	for _, id := range s.archive {
		o := s.operations[scheduling.OperationID(id)]
		b.when(o == nil || !o.state.Terminal() || seen[id], "archive: operation %q is missing, in progress or listed twice", id)
		seen[id] = true
	}
	return b.err
}

// verifyOperations checks each operation by itself.
func (s verifier) verifyOperations() error {
	for _, o := range s.order {
		if o.shelved != nil && !s.shelved {
			continue
		}
		if err := s.verifyAlone(o.whole()); err != nil {
			return fmt.Errorf("operation %q: %w", o.id(), err)
		}
	}
	return nil
}

// verifyAlone checks all that is of one operation alone.
func (s verifier) verifyAlone(o *operation) error {
	if err := cmp.Or(s.verifyOperation(o), s.verifyOperationTrees(o), o.verifyProgress()); err != nil {
		return err
	}
	if given := givenBytes(o.record.GetSpec(), o.input); o.given != given || o.weight != o.bytes(s.limits) {
		return fmt.Errorf("it takes %d bytes, given %d, but is counted with %d, given %d", o.bytes(s.limits), given, o.weight, o.given)
	}
	return nil
}

func (s verifier) verifyOperation(o *operation) error {
	var b breach
	r := o.record
	b.when(o.state == lifecycle.None || r.GetState() != o.state.String(), "state %q, recorded as %q", o.state, r.GetState())
	b.when(o.state.Terminal() != (r.GetFinishTime() != nil), "%s with finish time %v", o.state, r.GetFinishTime())
	b.when(o.state.Terminal() && len(r.GetSpec().GetVault().GetSealed()) > 0, "%s, but has secrets", o.state)
	b.when(r.GetInput() != nil, "its input is in the record itself")
	b.when(r.GetOutput() != nil && !o.reads(), "output %v of an operation of type %q", r.GetOutput(), r.GetSpec().GetType())
	b.when(r.GetSuspended() && !o.state.InProgress(), "suspended, but %s", o.state)
	b.when(r.GetStop() != nil && (o.state != lifecycle.Aborting || !orderly(r.GetStop())), "%s, with a stop order that is invalid or out of place: %v", o.state, r.GetStop())
	b.when(o.state == lifecycle.Running && len(r.GetTasks()) == 0, "running without tasks")
	b.when(len(o.allocations) > 0 && o.state != lifecycle.Running && !o.state.Finishing(), "%s with %d allocations", o.state, len(o.allocations))
	b.when(len(r.GetTasks()) != len(o.tasks) || len(o.taskIndex) != len(o.tasks),
		"%d tasks, but work of %d, and %d found by name", len(r.GetTasks()), len(o.tasks), len(o.taskIndex))
	limit := int(s.limits.GetFinishedJobsPerOperation())
	b.when(len(r.GetFinishedJobs()) > limit, "%d finished jobs are kept, the limit is %d", len(r.GetFinishedJobs()), limit)
	b.when(o.history != historyOf(r), "its history takes %+v, counted as %+v", historyOf(r), o.history)
	b.when(over(s.limits, o.history.jobs, maxJobsBytes) || over(s.limits, o.history.events, maxEventsBytes), "its history takes %+v bytes", o.history)
	n, limit := len(r.GetEvents()), int(s.limits.GetEventsPerOperation())
	b.when(n == 0 || n > limit, "%d events are kept: must be from 1 to %d", n, limit)
	if b.err != nil {
		return b.err
	}
	return cmp.Or(verifyWaste(r.GetWaste()), verifyTasks(o))
}

// verifyAllocations checks that the operations and nodes list exactly the allocations of
// the state.
func (s verifier) verifyAllocations() error {
	all, byOperations, byNodes := s.Allocations(), 0, 0
	for _, o := range s.order {
		byOperations += len(o.allocations)
	}
	for _, n := range s.nodes {
		byNodes += len(n.allocations)
	}
	if n := len(all); byOperations != n || byNodes != n || s.allocations.count != n {
		return fmt.Errorf("%d allocations, but %d by operation and %d by node, and counted are %d", n, byOperations, byNodes, s.allocations.count)
	}
	for _, a := range all {
		if err := s.verifyAllocation(a); err != nil {
			return fmt.Errorf("allocation %q: %w", a.GetJobId(), err)
		}
	}
	return nil
}

func (s verifier) verifyAllocation(a *statepb.Allocation) error {
	job := scheduling.JobID(a.GetJobId())
	o, _ := operationIn(s.operations, scheduling.OperationID(a.GetOperationId()))
	n := orEmpty(s.nodes, scheduling.NodeID(a.GetNode()))
	tree, life := n.record.GetTree(), n.record.GetIncarnation()
	var b breach
	found, _ := s.allocations.of(job)
	b.when(found != a, "missing from the index by id")
	b.when(o.allocations[job] != a, "missing from the allocations of its operation %q", a.GetOperationId())
	b.when(n.allocations[job] != a, "missing from the allocations of its node %q", a.GetNode())
	b.when(o.treeIndex(scheduling.TreeName(tree)) < 0, "node %q belongs to pool tree %q, but its operation %q is not in that tree", a.GetNode(), tree, a.GetOperationId())
	b.when(a.GetNodeIncarnation() > life, "granted to incarnation %d of node %q, whose current incarnation is %d", a.GetNodeIncarnation(), a.GetNode(), life)
	b.when(a.GetStop() != nil && !orderly(a.GetStop()), "stop order without a valid deadline: %v", a.GetStop())
	b.when(a.GetGrantIndex() > s.lastIndex || a.GetGrantTerm() > s.term.GetTerm(), "granted at %d.%d, in the future", a.GetGrantTerm(), a.GetGrantIndex())
	return b.err
}

// verifyNodes checks each node's record, usage and ports.
func (s verifier) verifyNodes() error {
	var byName []*node
	for id, n := range sorted(s.nodes) {
		if err := n.verify(id); err != nil {
			return fmt.Errorf("node %q: %w", id, err)
		}
		byName = append(byName, n)
	}
	if !slices.Equal(byName, s.byName) {
		return fmt.Errorf("%d nodes, but listed %d, or others", len(byName), len(s.byName))
	}
	return nil
}

func (n *node) verify(id scheduling.NodeID) error {
	var usage resource.Amounts
	for _, a := range n.allocations {
		usage = usage.Add(a.GetResources().Amounts())
	}
	total, state := n.record.GetResources().Amounts(), n.record.GetState()
	var b breach
	b.when(n.record.GetId() != string(id), "recorded as %q", n.record.GetId())
	b.when(state != statepb.NodeOnline && state != statepb.NodeOffline, "state %q", state)
	b.when(usage != n.usage, "allocations hold %v, but counted are %v", usage, n.usage)
	b.when(n.shrunk == usage.Fits(total), "allocations hold %v, the node has %v, and it is marked as shrunk: %t", usage, total, n.shrunk)
	return cmp.Or(b.err, n.verifyPorts())
}

// verifyTrees checks the pools, their counts, and the trees of nodes.
func (s verifier) verifyTrees() error {
	if s.trees[s.defaultTree] == nil {
		return fmt.Errorf("pool tree %q is the default, but is missing", s.defaultTree)
	}
	immediate := s.countTrees()
	var b breach
	ids := make(map[scheduling.PoolID]scheduling.PoolName)
	for name, t := range sorted(s.trees) {
		if err := t.verify(name, immediate[name]); err != nil {
			return fmt.Errorf("pool tree %q: %w", name, err)
		}
		for _, p := range t.pools.Pools() {
			other, taken := ids[p.ID]
			b.when(p.ID != 0 && (taken || p.ID > s.lastPool),
				"pool tree %q: pool %q has the id %d, which is above the last id, %d, or also the id of pool %q", name, p.Name, p.ID, s.lastPool, other)
			ids[p.ID] = p.Name
		}
	}
	for id, n := range sorted(s.nodes) {
		of := scheduling.TreeName(n.record.GetTree())
		for name, t := range s.trees {
			b.when((of == name) != t.pools.Settings().NodesFilter.Match(n.record.GetTags()),
				"node %q: in pool tree %q, which contradicts the filter of tree %q", id, of, name)
		}
		b.when(of != "" && s.trees[of] == nil, "node %q: in pool tree %q, which is missing", id, of)
	}
	return b.err
}

// countTrees counts the operations in progress by tree and pool.
func (s verifier) countTrees() map[scheduling.TreeName]map[scheduling.PoolName]pooltree.Count {
	immediate := make(map[scheduling.TreeName]map[scheduling.PoolName]pooltree.Count)
	for _, o := range s.order {
		if !o.state.InProgress() {
			continue
		}
		for _, in := range o.record.GetTrees() {
			name, pool := scheduling.TreeName(in.GetTree()), scheduling.PoolName(in.GetPool())
			if immediate[name] == nil {
				immediate[name] = make(map[scheduling.PoolName]pooltree.Count)
			}
			immediate[name][pool] = immediate[name][pool].Plus(s.trees[name].countOf(o, in, o.state))
		}
	}
	return immediate
}

// verifyOperationTrees checks an operation's trees, and in which of them it is admitted.
func (s verifier) verifyOperationTrees(o *operation) error {
	var b breach
	trees := o.record.GetTrees()
	admitted := false
	for i, in := range trees {
		admitted = admitted || in.GetAdmitted()
		b.when(i > 0 && trees[i-1].GetTree() >= in.GetTree(), "tree %q: listed twice or out of order", in.GetTree())
		b.when(o.state.InProgress() && s.trees[scheduling.TreeName(in.GetTree())] == nil, "tree %q: missing", in.GetTree())
		b.when(in.GetPendingReason() != "" && (in.GetAdmitted() || !o.state.InProgress() || o.state.Finishing()),
			"tree %q: it has a pending reason, but is admitted or ending", in.GetTree())
	}
	b.when(len(trees) == 0, "in no pool tree")
	b.when(!o.state.Finishing() && !o.state.Terminal() && admitted != o.state.CountsAsRunning(), "%s, but admitted to a tree: %t", o.state, admitted)
	waits, held := o.record.GetPendingReason(), o.record.GetHeldBack()
	b.when(waits != pendingText(o.record), "pending reason is %q, but its trees give %q", waits, pendingText(o.record))
	b.when(held != "" && o.state != lifecycle.Materializing, "%s, but held back by its controller: %s", o.state, held)
	return b.err
}

func (t *tree) verify(name scheduling.TreeName, immediate map[scheduling.PoolName]pooltree.Count) error {
	var b breach
	b.when(t.record.GetName() != string(name), "recorded as %q", t.record.GetName())
	total, err := t.pools.Total(immediate)
	if err != nil || b.err != nil {
		return cmp.Or(b.err, err)
	}
	b.when(!maps.Equal(immediate, t.immediate) || !maps.Equal(total, t.total),
		"operations %v, and with those below %v, but counted are %v and %v", immediate, total, t.immediate, t.total)
	recorded, err := readTree(t.record)
	if err != nil || b.err != nil {
		return cmp.Or(b.err, err)
	}
	b.when(!reflect.DeepEqual(recorded.Options(), t.pools.Options()), "options differ from the recorded ones, %v", t.record.GetOptions())
	pools, read := t.pools.Pools(), recorded.Pools()
	b.when(len(pools) != len(t.record.GetPools()), "%d pools, but %d recorded", len(pools), len(t.record.GetPools()))
	for i := 0; i < len(pools) && b.err == nil; i++ {
		p, record := pools[i], t.record.GetPools()[i]
		b.when(!reflect.DeepEqual(read[i], p) || record.GetName() != string(p.Name), "pool %q: differs from the recorded one, %v", p.Name, record)
		b.when(p.Ephemeral != "" && total[p.Name].Operations == 0 && len(t.pools.Children(p.Name)) == 0 && t.pools.Settings().DefaultParentPool != p.Name,
			"pool %q: ephemeral, but has no operations", p.Name)
	}
	for _, v := range t.record.GetVolumes() {
		p, found := t.pools.Pool(scheduling.PoolName(v.GetPool()))
		b.when(!found || uint64(p.ID) != v.GetPoolId(), "volume of pool %q with id %d, but that pool is missing", v.GetPool(), v.GetPoolId())
	}
	for _, w := range t.record.GetWaste() {
		b.when(!t.pools.Has(scheduling.PoolName(w.GetPool())), "waste of pool %q, but that pool is missing", w.GetPool())
	}
	taken := restoredTree(t.record, recorded).bytes
	b.when(taken != t.bytes, "takes %d bytes, counted are %d", taken, t.bytes)
	return cmp.Or(b.err, verifyWaste(t.record.GetWaste()))
}

// verifyNames checks aliases and mutation ids.
func (s verifier) verifyNames() error {
	var b breach
	aliases := make(map[string]scheduling.OperationID)
	mutations := make(map[mutation]scheduling.OperationID)
	for _, o := range s.order {
		if alias := o.record.GetSpec().GetAlias(); alias != "" {
			holder, taken := aliases[alias]
			b.when(taken && s.operations[holder].state.InProgress(), "operation %q: operation %q in progress has its alias %q", o.id(), holder, alias)
			aliases[alias] = o.id()
		}
		if id := o.record.GetMutationId(); id != "" {
			m := mutationOf(o.record)
			holder, taken := mutations[m]
			b.when(taken, "operation %q: operation %q has its mutation id %q", o.id(), holder, id)
			mutations[m] = o.id()
		}
	}
	b.when(!maps.Equal(aliases, s.aliases), "aliases %v, but kept are %v", aliases, s.aliases)
	b.when(!maps.Equal(mutations, s.mutations), "mutation ids are %v, but the index has %v", mutations, s.mutations)
	return b.err
}

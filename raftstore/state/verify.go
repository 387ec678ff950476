package state

import (
	"errors"
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

// Verify recomputes what must hold after every command and names the first
// breach:
//
//   - the cookies of a task are pending, running, completed or given up, each in one of
//     them and once, and its counters count them; none that may run again has failed as
//     often as it may;
//   - a cookie waits in the group of its reserve, and each rank of a gang is free, one
//     running job's, or completed;
//   - each byte of the input of a map operation in progress is to be read by one cookie,
//     or has been read by one, or is left out;
//   - an operation has allocations only while it runs or is finishing;
//   - each allocation is found by its operation and its node, both of which
//     exist, and a node's usage is the sum of its allocations and at most what the
//     node has, unless it registered anew with less;
//   - what orders jobs to stop has a deadline, and a TCP port of a node is one job's;
//   - ledgers of lost work hold nothing below nothing, and those of trees are of
//     pools that there are;
//   - pools count their operations, are what their record says, and hold every
//     operation in progress; jobs run in trees that let their operation run, a node
//     is of the tree whose filter takes it, and of no more than one; volumes are of
//     pools that there are, and ephemeral pools hold operations;
//   - claims are of operations that run and want the job, on nodes that are online, and
//     rates of preemption of pools that there are;
//   - aliases and mutation ids lead to one operation each, operations stand in
//     the order of acceptance, and the archive holds those that have ended;
//   - what is bounded is within its limit.
func (s *State) Verify() error {
	v := verifier{s}
	checks := []func() error{
		v.verifyOrder, v.verifyOperations, v.verifyAllocations, v.verifyNodes, v.verifyTrees, v.verifyNames, v.verifyProfiles, v.verifyClaims, v.verifyRates,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return fmt.Errorf("state at index %d: %w", s.lastIndex, err)
		}
	}
	return nil
}

// verifier compares the parts of a State with each other.
type verifier struct{ *State }

// verifyOrder checks the lists of operations.
func (s verifier) verifyOrder() error {
	if len(s.order) != len(s.operations) {
		return fmt.Errorf("%d operations in order, %d in all", len(s.order), len(s.operations))
	}
	inProgress, ended := 0, 0
	var accepted, sequence uint64
	for _, o := range s.order {
		if s.operations[o.id()] != o {
			return fmt.Errorf("operation %q: not found by its id", o.id())
		}
		if o.sequence <= sequence || o.record.GetAcceptedIndex() < accepted {
			return fmt.Errorf("operation %q: out of the order of acceptance", o.id())
		}
		sequence, accepted = o.sequence, o.record.GetAcceptedIndex()
		if o.state.Terminal() {
			ended++
		} else {
			inProgress++
		}
	}
	if inProgress != s.inProgress {
		return fmt.Errorf("%d operations in progress, counted %d", inProgress, s.inProgress)
	}
	if limit := int(s.limits.GetArchivedOperations()); len(s.archive) != ended || ended > limit {
		return fmt.Errorf("archive of %d operations: %d have ended, %d may be kept", len(s.archive), ended, limit)
	}
	seen := make(map[string]bool, len(s.archive))
	for _, id := range s.archive {
		if o := s.operations[scheduling.OperationID(id)]; o == nil || !o.state.Terminal() || seen[id] {
			return fmt.Errorf("archive: operation %q: missing, in progress or there twice", id)
		}
		seen[id] = true
	}
	return nil
}

// verifyOperations checks each operation by itself.
func (s verifier) verifyOperations() error {
	for _, o := range s.order {
		if err := s.verifyOperation(o); err != nil {
			return fmt.Errorf("operation %q: %w", o.id(), err)
		}
	}
	return nil
}

func (s verifier) verifyOperation(o *operation) error {
	r := o.record
	switch {
	case o.state == lifecycle.None || r.GetState() != o.state.String():
		return fmt.Errorf("state %q, recorded as %q", o.state, r.GetState())
	case o.state.Terminal() != (r.GetFinishTime() != nil):
		return fmt.Errorf("%s with finish time %v", o.state, r.GetFinishTime())
	case r.GetInput() != nil:
		return errors.New("its input is in the record itself")
	case r.GetOutput() != nil && !o.reads():
		return fmt.Errorf("output %v of an operation of type %q", r.GetOutput(), r.GetSpec().GetType())
	case r.GetSuspended() && !o.state.InProgress():
		return fmt.Errorf("%s and suspended", o.state)
	case r.GetStop() != nil && (o.state != lifecycle.Aborting || !orderly(r.GetStop())):
		return fmt.Errorf("%s with order to stop %v", o.state, r.GetStop())
	case o.state == lifecycle.Running && len(r.GetTasks()) == 0:
		return errors.New("running without tasks")
	case len(o.allocations) > 0 && o.state != lifecycle.Running && !o.state.Finishing():
		return fmt.Errorf("%s with %d allocations", o.state, len(o.allocations))
	case len(r.GetTasks()) != len(o.tasks) || len(o.taskIndex) != len(o.tasks):
		return fmt.Errorf("%d tasks, cookies of %d, %d found by name", len(r.GetTasks()), len(o.tasks), len(o.taskIndex))
	case len(r.GetFinishedJobs()) > int(s.limits.GetFinishedJobsPerOperation()):
		return fmt.Errorf("%d finished jobs are kept, %d may be", len(r.GetFinishedJobs()), s.limits.GetFinishedJobsPerOperation())
	}
	if n, limit := len(r.GetEvents()), int(s.limits.GetEventsPerOperation()); n == 0 || n > limit {
		return fmt.Errorf("%d events are kept, of at least 1 and at most %d", n, limit)
	}
	if err := verifyWaste(r.GetWaste()); err != nil {
		return err
	}
	return verifyTasks(o)
}

// verifyAllocations checks that every allocation is found by all ways and no
// other one is.
func (s verifier) verifyAllocations() error {
	byOperations, byNodes := 0, 0
	for _, o := range s.order {
		byOperations += len(o.allocations)
	}
	for _, n := range s.nodes {
		byNodes += len(n.allocations)
	}
	if byOperations != len(s.allocations) || byNodes != len(s.allocations) {
		return fmt.Errorf("%d allocations, %d by operation, %d by node", len(s.allocations), byOperations, byNodes)
	}
	for _, a := range s.Allocations() {
		job := scheduling.JobID(a.GetJobId())
		o, n := s.operations[scheduling.OperationID(a.GetOperationId())], s.nodes[scheduling.NodeID(a.GetNode())]
		switch {
		case s.allocations[job] != a:
			return fmt.Errorf("allocation %q: not found by its id", job)
		case o == nil || o.allocations[job] != a:
			return fmt.Errorf("allocation %q: not found by its operation %q", job, a.GetOperationId())
		case n == nil || n.allocations[job] != a:
			return fmt.Errorf("allocation %q: not found by its node %q", job, a.GetNode())
		case o.treeIndex(scheduling.TreeName(n.record.GetTree())) < 0:
			return fmt.Errorf("allocation %q: node %q is of pool tree %q, its operation %q is not", job, a.GetNode(), n.record.GetTree(), a.GetOperationId())
		case a.GetNodeIncarnation() > n.record.GetIncarnation():
			return fmt.Errorf("allocation %q: granted to incarnation %d of node %q, which lives its incarnation %d",
				job, a.GetNodeIncarnation(), a.GetNode(), n.record.GetIncarnation())
		case a.GetStop() != nil && !orderly(a.GetStop()):
			return fmt.Errorf("allocation %q: an order to stop without a deadline, %v", job, a.GetStop())
		case a.GetGrantIndex() > s.lastIndex || a.GetGrantTerm() > s.term.GetTerm():
			return fmt.Errorf("allocation %q: granted at %d.%d, in the future", job, a.GetGrantTerm(), a.GetGrantIndex())
		}
	}
	return nil
}

// verifyNodes checks what each node is and holds.
func (s verifier) verifyNodes() error {
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[id]
		var usage resource.Amounts
		for _, a := range n.allocations {
			usage = usage.Add(a.GetResources().Amounts())
		}
		total := n.record.GetResources().Amounts()
		switch {
		case n.record.GetId() != string(id):
			return fmt.Errorf("node %q: recorded as %q", id, n.record.GetId())
		case n.record.GetState() != statepb.NodeOnline && n.record.GetState() != statepb.NodeOffline:
			return fmt.Errorf("node %q: state %q", id, n.record.GetState())
		case usage != n.usage:
			return fmt.Errorf("node %q: allocations hold %v, counted %v", id, usage, n.usage)
		case n.shrunk == usage.Fits(total):
			return fmt.Errorf("node %q: allocations hold %v of %v, shrunk: %t", id, usage, total, n.shrunk)
		}
		if err := n.verifyPorts(); err != nil {
			return fmt.Errorf("node %q: %w", id, err)
		}
	}
	return nil
}

// verifyTrees checks the pools, what they count, and which nodes trees take.
func (s verifier) verifyTrees() error {
	if s.trees[s.defaultTree] == nil {
		return fmt.Errorf("pool tree %q: missing, and the default", s.defaultTree)
	}
	immediate, err := s.countTrees()
	if err != nil {
		return err
	}
	ids := make(map[scheduling.PoolID]scheduling.PoolName)
	for _, name := range slices.Sorted(maps.Keys(s.trees)) {
		if err := s.trees[name].verify(name, immediate[name]); err != nil {
			return fmt.Errorf("pool tree %q: %w", name, err)
		}
		for _, p := range s.trees[name].pools.Pools() {
			if other, taken := ids[p.ID]; p.ID != 0 && (taken || p.ID > s.lastPool) {
				return fmt.Errorf("pool tree %q: pool %q has the id %d, the last one is %d (other pool of this id: %q)", name, p.Name, p.ID, s.lastPool, other)
			}
			ids[p.ID] = p.Name
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[id]
		for name, t := range s.trees {
			if of := n.record.GetTree() == string(name); of != t.pools.Settings().NodesFilter.Match(n.record.GetTags()) {
				return fmt.Errorf("node %q: of pool tree %q, and the filter of %q says otherwise", id, n.record.GetTree(), name)
			}
		}
		if tree := n.record.GetTree(); tree != "" && s.trees[scheduling.TreeName(tree)] == nil {
			return fmt.Errorf("node %q: of pool tree %q, which is missing", id, tree)
		}
	}
	return nil
}

// countTrees counts the operations in progress by tree and pool.
func (s verifier) countTrees() (map[scheduling.TreeName]map[scheduling.PoolName]pooltree.Count, error) {
	immediate := make(map[scheduling.TreeName]map[scheduling.PoolName]pooltree.Count)
	for _, o := range s.order {
		if err := s.verifyOperationTrees(o); err != nil {
			return nil, fmt.Errorf("operation %q: %w", o.id(), err)
		}
		if !o.state.InProgress() {
			continue
		}
		for _, in := range o.record.GetTrees() {
			name, pool := scheduling.TreeName(in.GetTree()), scheduling.PoolName(in.GetPool())
			if immediate[name] == nil {
				immediate[name] = make(map[scheduling.PoolName]pooltree.Count)
			}
			immediate[name][pool] = immediate[name][pool].Plus(s.trees[name].countOf(o.record, in, o.state))
		}
	}
	return immediate, nil
}

// verifyOperationTrees checks in which trees an operation is, and where it runs.
func (s verifier) verifyOperationTrees(o *operation) error {
	trees := o.record.GetTrees()
	admitted := false
	for i, in := range trees {
		admitted = admitted || in.GetAdmitted()
		switch {
		case i > 0 && trees[i-1].GetTree() >= in.GetTree():
			return fmt.Errorf("tree %q: twice or out of order", in.GetTree())
		case o.state.InProgress() && s.trees[scheduling.TreeName(in.GetTree())] == nil:
			return fmt.Errorf("tree %q: missing", in.GetTree())
		case in.GetPendingReason() != "" && (in.GetAdmitted() || !o.state.InProgress() || o.state.Finishing()):
			return fmt.Errorf("tree %q: it waits though nothing is to come", in.GetTree())
		}
	}
	switch {
	case len(trees) == 0:
		return errors.New("in no pool tree")
	case !o.state.Finishing() && !o.state.Terminal() && admitted != o.state.CountsAsRunning():
		return fmt.Errorf("%s, and let run by a tree: %t", o.state, admitted)
	case o.record.GetPendingReason() != pendingText(o.record):
		return fmt.Errorf("waits for %q, its trees say %q", o.record.GetPendingReason(), pendingText(o.record))
	case o.record.GetHeldBack() != "" && o.state != lifecycle.Materializing:
		return fmt.Errorf("%s, and held back by its controller: %s", o.state, o.record.GetHeldBack())
	}
	return nil
}

func (t *tree) verify(name scheduling.TreeName, immediate map[scheduling.PoolName]pooltree.Count) error {
	if t.record.GetName() != string(name) {
		return fmt.Errorf("recorded as %q", t.record.GetName())
	}
	total, err := t.pools.Total(immediate)
	if err != nil {
		return err
	}
	if !maps.Equal(immediate, t.immediate) || !maps.Equal(total, t.total) {
		return fmt.Errorf("operations %v, with those below %v, counted %v and %v", immediate, total, t.immediate, t.total)
	}
	recorded, err := readTree(t.record)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(recorded.Options(), t.pools.Options()) {
		return fmt.Errorf("options not as they are recorded, %v", t.record.GetOptions())
	}
	pools, read := t.pools.Pools(), recorded.Pools()
	if len(pools) != len(t.record.GetPools()) {
		return fmt.Errorf("%d pools, recorded %d", len(pools), len(t.record.GetPools()))
	}
	for i, p := range t.record.GetPools() {
		if !reflect.DeepEqual(read[i], pools[i]) || p.GetName() != string(pools[i].Name) {
			return fmt.Errorf("pool %q: not as it is recorded, %v", pools[i].Name, p)
		}
		if pools[i].Ephemeral != "" && total[pools[i].Name].Operations == 0 && len(t.pools.Children(pools[i].Name)) == 0 &&
			t.pools.Settings().DefaultParentPool != pools[i].Name {
			return fmt.Errorf("pool %q: ephemeral, and has no operations", pools[i].Name)
		}
	}
	for _, v := range t.record.GetVolumes() {
		if p, found := t.pools.Pool(scheduling.PoolName(v.GetPool())); !found || uint64(p.ID) != v.GetPoolId() {
			return fmt.Errorf("volume of pool %q with id %d, which is missing", v.GetPool(), v.GetPoolId())
		}
	}
	for _, w := range t.record.GetWaste() {
		if !t.pools.Has(scheduling.PoolName(w.GetPool())) {
			return fmt.Errorf("waste of pool %q, which is missing", w.GetPool())
		}
	}
	return verifyWaste(t.record.GetWaste())
}

// verifyNames checks aliases and mutation ids.
func (s verifier) verifyNames() error {
	aliases := make(map[string]scheduling.OperationID)
	mutations := make(map[mutation]scheduling.OperationID)
	for _, o := range s.order {
		if alias := o.record.GetSpec().GetAlias(); alias != "" {
			if holder, ok := aliases[alias]; ok && s.operations[holder].state.InProgress() {
				return fmt.Errorf("operation %q: alias %q belongs to operation %q in progress", o.id(), alias, holder)
			}
			aliases[alias] = o.id()
		}
		if id := o.record.GetMutationId(); id != "" {
			m := mutation{user: scheduling.User(o.record.GetUser()), id: id}
			if holder, ok := mutations[m]; ok {
				return fmt.Errorf("operation %q: operation %q has its mutation id %q", o.id(), holder, id)
			}
			mutations[m] = o.id()
		}
	}
	if !maps.Equal(aliases, s.aliases) {
		return fmt.Errorf("aliases %v, kept as %v", aliases, s.aliases)
	}
	if !maps.Equal(mutations, s.mutations) {
		return fmt.Errorf("mutation ids %v, kept as %v", mutations, s.mutations)
	}
	return nil
}

// Package scheduler hands out the resources of a pool tree, on the leader.
//
// One actor a tree owns the tree's engine. It feeds the engine committed events
// in the order of the log, offers it the nodes that have been heard or have got
// room, and proposes what the engine plans. The engine goes on while proposals are
// in flight.
package scheduler

import (
	"fmt"
	"slices"
	"time"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// Seed is a tree as it is committed at an index.
type Seed struct {
	Tree  scheduling.TreeName
	Index uint64
	Pools pooltree.Tree
	// Nodes of the tree are by id.
	Nodes []*statepb.Node
	// Operations are in progress, in this tree at least, in the order of acceptance.
	Operations []*statepb.Operation
	// Demand is how many jobs of Operations wait.
	Demand []state.DemandChanged
	// Allocations are those on its nodes, by job.
	Allocations []*statepb.Allocation
	// Claims are what is held for jobs for which others were told to go, in the order in
	// which they are served, Rates when jobs of pools were, where that is limited.
	Claims []*statepb.Claim
	Rates  []*statepb.PreemptionRate
	// Kept is the record of the tree: what a leader before has left at its last checkpoint.
	Kept *statepb.PoolTree
}

// Tree is the deciding half: an engine, what is in flight, and which nodes are to
// be looked at.
type Tree struct {
	name   scheduling.TreeName
	engine *engine.Engine
	// index is the last log entry that the engine has seen.
	index uint64
	// tickets are starts in flight by the job that they were proposed as.
	tickets map[string]engine.Ticket
	nodes   roster
	// known operations have not ended; of each, what was told of the demand of its tasks.
	known map[string]map[allocation.TaskID]demand
	// specs are those of known operations.
	specs map[string]*statepb.OperationSpec
	// settings are those of the tree, current its pools as they were committed last.
	settings pooltree.Settings
	current  pooltree.Tree
	// pools are to be set when the operations of removed ones have gone; nil: none.
	pools *pooltree.Tree
	// jobs are those that the engine has, by operation too.
	jobs   map[string]string
	jobsOf map[string]map[string]bool
	// outcome is what came of the nodes of the last plan.
	outcome allocation.Outcome
	// resume is what a leader before has left, to go on from; nil: the engine has.
	resume *resumption
}

// NewTree returns a tree rebuilt from the seed: running allocations first, so
// that usage is right before the first start is planned.
func NewTree(cfg engine.Config, seed Seed) (*Tree, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	t := &Tree{
		name: seed.Tree, engine: e, index: seed.Index, tickets: map[string]engine.Ticket{},
		nodes: roster{
			ready: map[string]bool{}, queued: map[string]bool{}, awaited: map[string]bool{}, draining: map[string]bool{}, incarnations: map[string]uint64{}, tags: map[string][]string{},
		},
		known: map[string]map[allocation.TaskID]demand{}, jobs: map[string]string{}, jobsOf: map[string]map[string]bool{},
		specs: map[string]*statepb.OperationSpec{}, settings: seed.Pools.Settings(), current: seed.Pools,
	}
	if err := e.SetTree(seed.Pools); err != nil {
		return nil, fmt.Errorf("rebuild pool tree: %w", err)
	}
	if err := t.setKept(seed.Kept); err != nil {
		return nil, err
	}
	for _, op := range seed.Operations {
		state, err := lifecycle.ParseState(op.GetState())
		if err != nil {
			return nil, fmt.Errorf("rebuild operation %s: %w", op.GetId(), err)
		}
		if err := t.setOperation(op, state, op.GetSuspended()); err != nil {
			return nil, err
		}
	}
	if err := t.seedDemand(seed); err != nil {
		return nil, err
	}
	for _, node := range seed.Nodes {
		t.nodes.incarnations[node.GetId()] = node.GetIncarnation()
	}
	for _, a := range slices.SortedStableFunc(slices.Values(seed.Allocations), byStart) {
		if err := t.started(a); err != nil {
			return nil, err
		}
	}
	if err := t.restorePreemptions(seed); err != nil {
		return nil, err
	}
	for _, op := range seed.Operations {
		state, err := lifecycle.ParseState(op.GetState())
		if err == nil {
			err = t.leaveWith(op, state)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, node := range seed.Nodes {
		t.nodes.awaited[node.GetId()] = true
		if err := t.SetNode(node); err != nil {
			return nil, err
		}
	}
	t.restorePace(seed)
	return t, nil
}

func byStart(a, b *statepb.Allocation) int {
	return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
}

// Seen reports whether the tree has seen the log entry already.
func (t *Tree) Seen(index uint64) bool { return index <= t.index }

// InFlight is how many starts have been planned and not settled.
func (t *Tree) InFlight() int { return len(t.tickets) }

// SetPools takes the pools of the tree as they are now. They may be newer than the
// last entry seen: a pool that still holds operations here stays until they have
// gone, and Follow and Settle try again.
func (t *Tree) SetPools(pools pooltree.Tree) error {
	t.pools = &pools
	was := t.settings
	t.settings, t.current = pools.Settings(), pools
	t.settlePools()
	if was.SingleJobVanillaIsGang == t.settings.SingleJobVanillaIsGang {
		return nil
	}
	for id, spec := range t.specs {
		if err := t.engine.SetGang(scheduling.OperationID(id), spec.Gang(t.settings)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) settlePools() {
	if t.pools != nil && t.engine.SetTree(*t.pools) == nil {
		t.pools = nil
	}
}

// SetOperation takes an operation's record and, of the same log entry, its state
// and whether it is suspended: the record may be newer.
func (t *Tree) SetOperation(op *statepb.Operation, state lifecycle.State, suspended bool) error {
	if err := t.setOperation(op, state, suspended); err != nil {
		return err
	}
	if state == lifecycle.Running && !suspended {
		t.OfferAll()
	}
	return nil
}

func (t *Tree) setOperation(op *statepb.Operation, state lifecycle.State, suspended bool) error {
	id := op.GetId()
	if state.Terminal() {
		return t.RemoveOperation(id)
	}
	in := op.In(string(t.name))
	if in == nil {
		return nil
	}
	options, err := pooltree.ReadOperationOptions(in.GetOptions().AsMap())
	if err != nil {
		return fmt.Errorf("operation %s: %w", id, err)
	}
	record := engine.Operation{
		ID: scheduling.OperationID(id), Pool: scheduling.PoolName(in.GetPool()), Started: op.GetStartTime().AsTime(),
		Enabled: state == lifecycle.Running && in.GetAdmitted(), Suspended: suspended, Gang: op.GetSpec().Gang(t.settings),
		Abrupt: abrupt(op.GetSpec()), Spread: spread(op.GetSpec()),
	}.With(options)
	if _, known := t.known[id]; !known {
		return t.addOperation(record, op.GetSpec())
	}
	if state.Finishing() {
		if err := t.wantNoMore(id); err != nil {
			return err
		}
		if err := t.leaveWith(op, state); err != nil {
			return err
		}
	}
	if err := t.engine.SetOperation(record); err != nil {
		return err
	}
	t.specs[id] = op.GetSpec()
	return nil
}

func (t *Tree) addOperation(added engine.Operation, spec *statepb.OperationSpec) error {
	err := t.engine.AddOperation(added)
	if err == nil {
		t.known[string(added.ID)], t.specs[string(added.ID)] = map[allocation.TaskID]demand{}, spec
	}
	return err
}

// RemoveOperation takes out an operation that has ended.
func (t *Tree) RemoveOperation(id string) error {
	if _, known := t.known[id]; !known {
		return nil
	}
	delete(t.known, id)
	delete(t.specs, id)
	return t.engine.RemoveOperation(scheduling.OperationID(id))
}

// Started takes committed allocations.
func (t *Tree) Started(allocations []*statepb.Allocation) error {
	for _, a := range allocations {
		if err := t.started(a); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) started(a *statepb.Allocation) error {
	ticket, planned := t.tickets[a.GetJobId()]
	delete(t.tickets, a.GetJobId())
	_, known := t.known[a.GetOperationId()]
	switch {
	case !known && planned:
		// The operation has ended in a later entry, and the job with it.
		return t.engine.Reject(ticket)
	case !known || !planned && !t.nodes.has(a.GetNode()):
		return nil
	}
	t.hold(a.GetJobId(), a.GetOperationId())
	if planned {
		return t.engine.Commit(ticket, scheduling.JobID(a.GetJobId()), a.GetStartTime().AsTime())
	}
	return t.engine.AddAllocation(engine.Allocation{
		Job: scheduling.JobID(a.GetJobId()), Operation: scheduling.OperationID(a.GetOperationId()), Task: scheduling.TaskName(a.GetTask()),
		Group: groupOf(a), Node: scheduling.NodeID(a.GetNode()), Resources: a.GetResources().Amounts(), Started: a.GetStartTime().AsTime(),
	})
}

// hold and drop keep which jobs the engine has.
func (t *Tree) hold(job, operation string) {
	t.jobs[job] = operation
	if t.jobsOf[operation] == nil {
		t.jobsOf[operation] = map[string]bool{}
	}
	t.jobsOf[operation][job] = true
}

func (t *Tree) drop(job string) {
	operation := t.jobs[job]
	delete(t.jobs, job)
	delete(t.jobsOf[operation], job)
	if len(t.jobsOf[operation]) == 0 {
		delete(t.jobsOf, operation)
	}
}

// Ended frees what a job held and offers its node.
func (t *Tree) Ended(job, node string) error {
	if t.jobs[job] == "" {
		return nil
	}
	t.drop(job)
	t.nodes.enqueue(node)
	return t.engine.RemoveAllocation(scheduling.JobID(job))
}

// Tick finds the fair shares anew.
func (t *Tree) Tick(now time.Time) error {
	left := t.resumeKept()
	_, err := t.engine.Tick(now)
	if left != nil && err == nil {
		t.engine.SetAge(left.age, len(t.nodes.awaited) > 0)
	}
	return err
}

// Pools returns what the pools are at this moment: those of the snapshot, at much less
// cost.
func (t *Tree) Pools() []engine.PoolView { return t.engine.Pools() }

// Pressing reports whether heartbeats are worth something though nothing has ended.
func (t *Tree) Pressing() (now, gracefully bool) { return t.engine.Pressing() }

// Below reports whether somebody may come to starve.
func (t *Tree) Below() bool { return t.engine.Below() }

// Snapshot returns the engine at this moment.
func (t *Tree) Snapshot() engine.Snapshot { return t.engine.Snapshot() }

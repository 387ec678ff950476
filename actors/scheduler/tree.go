// Package scheduler assigns the resources of a pool tree, on the leader.
//
// One actor per tree owns the tree's engine. It feeds the engine committed events in the order of
// the log, offers it the nodes that sent a heartbeat or have room again, and proposes what the
// engine plans. The engine goes on planning while proposals are in flight.
package scheduler

import (
	"cmp"
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

// Seed is the committed state of a tree at an index.
type Seed struct {
	Tree  scheduling.TreeName
	Index uint64
	Pools pooltree.Tree
	// Nodes are the nodes of the tree, by id.
	Nodes []*statepb.Node
	// Operations are the operations in progress that are in this tree, and possibly in others, in
	// the order of acceptance.
	Operations []*statepb.Operation
	// Demand is the number of waiting jobs of Operations.
	Demand []state.DemandChanged
	// Allocations are the allocations on the tree's nodes, in any order.
	Allocations []*statepb.Allocation
	// Claims are the resources reserved for jobs for which others were preempted, in the order in
	// which the claims are served. Rates are the recent preemption times of pools with a rate limit.
	Claims []*statepb.Claim
	Rates  []*statepb.PreemptionRate
	// Kept is the record of the tree, with the last checkpoint of the previous leader.
	Kept *statepb.PoolTree
	// Past is what is known of operations for estimates: first of those that have ended, in the order of
	// their ends, then of Operations.
	Past []engine.Past
}

// Tree is the part of the actor that decides: an engine, the starts in flight, and the nodes to
// plan for.
type Tree struct {
	name   scheduling.TreeName
	engine *engine.Engine
	// index is the last log entry that the engine has applied.
	index uint64
	// tickets are the starts in flight, by the proposed job.
	tickets map[string]engine.Ticket
	nodes   roster
	// known maps each operation that has not ended to the last known demand of its tasks.
	known map[string]map[allocation.TaskID]demand
	// specs are the specs of the operations in known.
	specs map[string]*statepb.OperationSpec
	// settings are the settings of the tree. `current` holds the last committed pools of the tree.
	settings pooltree.Settings
	current  pooltree.Tree
	// pools are the new pools that can be applied only when the operations of removed pools have
	// gone; nil if there are none.
	pools *pooltree.Tree
	// outcome is the outcome of the last plan.
	outcome allocation.Outcome
	// resume is the checkpoint of the previous leader, from which the engine has yet to resume; nil
	// once the engine has resumed.
	resume *resumption
}

// NewTree returns a tree rebuilt from the seed. It includes the running allocations, so that usage
// is right before the first start is planned.
func NewTree(cfg engine.Config, seed Seed) (*Tree, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	t := &Tree{
		name: seed.Tree, engine: e, index: seed.Index, tickets: map[string]engine.Ticket{},
		nodes: roster{
			ready: map[string]bool{}, queued: map[string]bool{}, awaited: map[string]bool{}, draining: map[string]bool{}, doubted: map[string]bool{}, incarnations: map[string]uint64{}, tags: map[string][]string{},
		},
		known: map[string]map[allocation.TaskID]demand{},
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
	for _, p := range seed.Past {
		e.Remember(p)
	}
	if err := t.seedDemand(seed); err != nil {
		return nil, err
	}
	for _, node := range seed.Nodes {
		t.nodes.incarnations[node.GetId()] = node.GetIncarnation()
	}
	seed.Allocations = byStart(seed.Allocations)
	e.Expect(len(seed.Allocations))
	for _, a := range seed.Allocations {
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

// byStart returns allocations in the order of their starts.
func byStart(allocations []*statepb.Allocation) []*statepb.Allocation {
	type started struct {
		at  int64
		job string
		of  *statepb.Allocation
	}
	order := make([]started, len(allocations))
	for i, a := range allocations {
		order[i] = started{a.GetStartTime().AsTime().UnixNano(), a.GetJobId(), a}
	}
	slices.SortFunc(order, func(a, b started) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.job, b.job)
	})
	sorted := make([]*statepb.Allocation, len(order))
	for i, s := range order {
		sorted[i] = s.of
	}
	return sorted
}

// Seen reports whether the tree has applied the log entry.
func (t *Tree) Seen(index uint64) bool { return index <= t.index }

// InFlight returns how many starts are planned but not settled.
func (t *Tree) InFlight() int { return len(t.tickets) }

// SetPools sets the current pools of the tree. They may be newer than the last entry seen. If a
// removed pool still has operations here, the change is delayed until they are gone; Follow and
// Settle try again.
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

// SetOperation applies an operation's record. Its state, and whether it is suspended, come from a
// log entry, because the record may be newer.
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
		// Jobs that cannot be interrupted are killed when they have to leave.
		Abrupt: tasksThat(op.GetSpec(), func(task *statepb.TaskSpec) bool { return !op.GetSpec().Interruptible(task) }),
		Spread: tasksThat(op.GetSpec(), (*statepb.TaskSpec).GetSpread), Kind: kindOf(op),
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

// RemoveOperation removes an operation that has ended.
func (t *Tree) RemoveOperation(id string) error {
	if _, known := t.known[id]; !known {
		return nil
	}
	delete(t.known, id)
	delete(t.specs, id)
	return t.engine.RemoveOperation(scheduling.OperationID(id))
}

// Started applies committed allocations.
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
		// The operation is already gone from the tree: a later log entry ends it, and this job with
		// it.
		return t.engine.Reject(ticket)
	case !known || !planned && !t.nodes.has(a.GetNode()):
		return nil
	}
	if planned {
		return t.engine.Commit(ticket, scheduling.JobID(a.GetJobId()), a.GetStartTime().AsTime())
	}
	return t.engine.AddAllocation(engine.Allocation{
		Job: scheduling.JobID(a.GetJobId()), Operation: scheduling.OperationID(a.GetOperationId()), Task: scheduling.TaskName(a.GetTask()),
		Group: groupOf(a), Node: scheduling.NodeID(a.GetNode()), Resources: a.GetResources().Amounts(), Started: a.GetStartTime().AsTime(),
	})
}

// Ended frees the resources of a job and offers its node.
func (t *Tree) Ended(job, node string) error {
	if !t.engine.Has(scheduling.JobID(job)) {
		return nil
	}
	t.nodes.enqueue(node)
	return t.engine.RemoveAllocation(scheduling.JobID(job))
}

// Tick recomputes the fair shares.
func (t *Tree) Tick(now time.Time) error {
	left := t.resumeKept()
	_, err := t.engine.Tick(now)
	if left != nil && err == nil {
		t.engine.SetAge(left.age, len(t.nodes.awaited) > 0)
	}
	return err
}

// Pools returns the pools as in Snapshot, at much less cost.
func (t *Tree) Pools() []engine.PoolView { return t.engine.Pools() }

// Pressing reports whether a plan for a node may have a result even if no job has ended on it.
// `gracefully` stands for graceful preemption, `now` for all other causes.
func (t *Tree) Pressing() (now, gracefully bool) { return t.engine.Pressing() }

// Below reports whether any element may start to starve.
func (t *Tree) Below() bool { return t.engine.Below() }

// Snapshot returns the current state of the engine.
func (t *Tree) Snapshot() engine.Snapshot { return t.engine.Snapshot() }

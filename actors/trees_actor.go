package actors

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/pool"
	"weir/actors/reconcile"
	"weir/actors/scheduler"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// poolKey names a pool of a tree.
type poolKey struct {
	tree scheduling.TreeName
	pool scheduling.PoolName
}

// ledTrees holds the actors of pool trees and pools, and the operations that wait for pools.
type ledTrees struct {
	// schedulers are the actors of the trees. Node actors look them up while the leader changes
	// them.
	schedulers *registry[scheduling.TreeName]
	pools      map[poolKey]*actor.PID
	waiting    waiting
}

func newLedTrees() *ledTrees {
	return &ledTrees{schedulers: new(registry[scheduling.TreeName]), pools: map[poolKey]*actor.PID{}, waiting: waiting{}}
}

// waiting maps operations to the pools that they wait for.
type waiting map[scheduling.OperationID][]poolKey

// note updates the pools that an operation waits for, and reports whether there are any.
func (w waiting) note(op *statepb.Operation) bool {
	var keys []poolKey
	for _, in := range op.GetTrees() {
		if waits(op, in) {
			keys = append(keys, poolKey{scheduling.TreeName(in.GetTree()), scheduling.PoolName(in.GetPool())})
		}
	}
	id := scheduling.OperationID(op.GetId())
	if len(keys) == 0 {
		w.forget(id)
		return false
	}
	w[id] = keys
	return true
}

func (w waiting) forget(id scheduling.OperationID) { delete(w, id) }

// treeChanged spawns and stops actors so that they match a tree and its pools.
func (a *leaderActor) treeChanged(ctx actor.Context, tree scheduling.TreeName) {
	pools, exists := a.replica.records.Pools(tree)
	known := a.trees.schedulers.of(tree)
	switch {
	case exists && known == nil:
		a.trees.schedulers.set(tree, a.spawn(ctx, scheduler.New(a.schedulerConfig(tree))))
	case !exists && known != nil:
		a.trees.schedulers.set(tree, nil)
		// Poison, unlike Stop, lets the scheduler handle the entries already sent to it, for which
		// the reader of the log waits.
		ctx.Poison(known)
	}
	for key, pid := range a.trees.pools {
		if key.tree == tree && (!exists || !pools.Has(key.pool)) {
			delete(a.trees.pools, key)
			ctx.Stop(pid)
		}
	}
	if !exists {
		return
	}
	// The root may have operations of its own, if the tree allows it.
	a.admitTo(ctx, poolKey{tree, scheduling.RootPool})
	for _, p := range pools.Pools() {
		a.admitTo(ctx, poolKey{tree, p.Name})
	}
}

// admitTo spawns the actor of a pool, which admits operations, unless it exists.
func (a *leaderActor) admitTo(ctx actor.Context, key poolKey) {
	if a.trees.pools[key] == nil {
		a.trees.pools[key] = a.spawn(ctx, pool.New(a.poolConfig(key)))
	}
}

// lookAtPools sends a Look to the pools that operations wait for.
func (a *leaderActor) lookAtPools(ctx actor.Context) {
	told := map[poolKey]bool{}
	for _, keys := range a.trees.waiting {
		for _, key := range keys {
			if !told[key] {
				told[key] = true
				a.lookAt(ctx, a.trees.pools[key], reconcile.Look{})
			}
		}
	}
}

// tell sends a committed entry to the schedulers of all trees. The entry is done when all of them
// have handled it.
func (t *ledTrees) tell(ctx actor.Context, m batch) {
	all := t.schedulers.all()
	done := countdown(len(all), m.done)
	for _, pid := range all {
		ctx.Send(pid, scheduler.Committed{Index: m.Index, Events: m.Events, Done: done})
	}
}

// countdown returns a function that is to be called the given number of times; its last call calls
// done. With 0 times, countdown calls done itself.
func countdown(times int, done func()) func() {
	if times == 0 {
		done()
	}
	var left atomic.Int64
	left.Store(int64(times))
	return func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
}

// view requests the view of the scheduler of one tree, or of all trees if none is named, and
// replies with the merged views.
func (t *ledTrees) view(ctx actor.Context, term uint64, m viewRequest) {
	asked := t.schedulers.all()
	if tree := m.of.GetTree(); tree != "" {
		asked = nil
		if pid := t.schedulers.of(scheduling.TreeName(tree)); pid != nil {
			asked = []*actor.PID{pid}
		}
	}
	if len(asked) == 0 {
		m.reply(&actorpb.SchedulerView{Term: term})
		return
	}
	add := gather(len(asked), m.reply)
	for _, pid := range asked {
		ctx.Send(pid, scheduler.View{Of: m.of, Reply: add, Gone: m.gone})
	}
}

// gather returns a function to be called with each of the given number of views, at least one. The
// last call replies with all views merged.
func gather(views int, reply func(*actorpb.SchedulerView)) func(*actorpb.SchedulerView) {
	var mu sync.Mutex
	var seen []*actorpb.SchedulerView
	return func(v *actorpb.SchedulerView) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, v); len(seen) == views {
			reply(whole(seen))
		}
	}
}

// whole merges views. It does not change them, because they are shared with other requests.
func whole(views []*actorpb.SchedulerView) *actorpb.SchedulerView {
	if len(views) == 1 {
		return views[0]
	}
	all := &actorpb.SchedulerView{Time: views[0].GetTime(), Term: views[0].GetTerm(), Updated: views[0].GetUpdated()}
	var total resource.Amounts
	for _, v := range views {
		total = total.Add(v.GetTotal().Amounts())
		all.Elements = append(all.Elements, v.GetElements()...)
		all.Nodes = append(all.Nodes, v.GetNodes()...)
		all.Explanations = append(all.Explanations, v.GetExplanations()...)
	}
	all.Total = statepb.NewResources(total)
	return all
}

func (a *leaderActor) poolConfig(key poolKey) pool.Config {
	return pool.Config{
		Tree: key.tree, Name: key.pool, Term: a.term, State: a.replica.records, Log: a.terms,
		RetryAfter: a.replica.cfg.Timing.Retry, Now: a.replica.cfg.Clock.Now, Logger: a.log,
	}
}

func (a *leaderActor) schedulerConfig(tree scheduling.TreeName) scheduler.Config {
	timing := a.replica.cfg.Timing
	return scheduler.Config{
		Tree: tree, Term: a.term, State: a.replica.records, Log: a.terms, Engine: a.replica.cfg.Engine,
		TickEvery: timing.FairShareUpdate, TickGap: timing.FairShareGap, Heartbeat: func() time.Duration { return a.pacer.Tell().Heartbeat }, CheckpointEvery: scheduler.CheckpointEvery, NodesPerPlan: 256, MaxInFlight: 4,
		NewID: a.replica.cfg.NewID, Now: a.replica.cfg.Clock.Now, Figures: &a.replica.schedulerFigures, History: recorder{a.replica.histories}, Logger: a.log,
	}
}

// offers passes offers on to the scheduler of a node's tree. A node of an unknown tree is not
// scheduled.
type offers struct {
	root       *actor.RootContext
	schedulers *registry[scheduling.TreeName]
}

// Offer implements the Scheduler of nodes.
func (o *offers) Offer(tree, node string, limits resource.Amounts) {
	o.send(tree, scheduler.Offer{Node: node, Limits: limits})
}

// Withdraw implements the Scheduler of nodes.
func (o *offers) Withdraw(tree, node string) { o.send(tree, scheduler.Withdraw{Node: node}) }

// Doubt implements the Scheduler of nodes.
func (o *offers) Doubt(tree, node string) { o.send(tree, scheduler.Doubt{Node: node}) }

func (o *offers) send(tree string, message any) {
	if pid := o.schedulers.of(scheduling.TreeName(tree)); pid != nil {
		o.root.Send(pid, message)
	}
}

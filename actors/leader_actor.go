package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/node"
	"weir/actors/operation"
	"weir/actors/reconcile"
	"weir/cluster"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// toNode carries an agent's message to the actor of its node; that actor may not exist yet.
type toNode struct {
	node    string
	message node.FromAgent
}

// wordHeard says that the readiness of an instance of an operation has changed.
type wordHeard struct{ operation scheduling.OperationID }

// replicasChanged says that a replica came or left.
type replicasChanged struct{}

// viewRequest requests the scheduler's view.
type viewRequest struct {
	of    *actorpb.SchedulerViewRequest
	reply func(*actorpb.SchedulerView)
	// gone reports that the requester no longer waits.
	gone func() bool
}

// newLeader returns the producer of the actor that leads in a term: it spawns the leader's actors
// and passes each the committed events that concern it. ctx ends with the term.
func newLeader(ctx context.Context, r *Replica, term uint64) actor.Producer {
	// It outlives the lives of the actor: what it has proposed may still be committed.
	pacer := new(pacer)
	return reconcile.Live(r.cfg.Logger, func(life *reconcile.Life) reconcile.Body {
		ask := func(ctx context.Context) error {
			_, err := r.store.ReadIndex(ctx)
			return err
		}
		return &leaderActor{
			lead: lead{&confirmer{ctx: ctx, leads: ask}, func() proto.Message { return r.Redirect() }},
			ctx:  ctx, replica: r, term: term, life: life, pacer: pacer, log: r.cfg.Logger.With("term", term), terms: &termLog{ctx: ctx, replica: r},
			operations: map[scheduling.OperationID]*actor.PID{}, nodes: new(registry[string]), trees: newLedTrees(),
		}
	})
}

type leaderActor struct {
	ctx     context.Context
	replica *Replica
	term    uint64
	life    *reconcile.Life
	lead    lead
	log     *slog.Logger
	terms   *termLog
	pacer   *pacer
	pacing  reconcile.Timer
	// stop ends reading the log.
	stop context.CancelFunc

	// leads means that the actors have been spawned.
	leads      bool
	operations map[scheduling.OperationID]*actor.PID
	nodes      *registry[string]
	trees      *ledTrees
}

// Take implements reconcile.Body.
func (a *leaderActor) Take(message any) bool {
	ctx := a.life.Context()
	switch m := message.(type) {
	case toNode:
		a.toNode(ctx, m)
	case viewRequest:
		a.trees.view(ctx, a.term, m)
	case keepVolumes:
		a.trees.keepVolumes(ctx, m)
	case replicasChanged:
		a.lookAtOperations(ctx)
	case parted:
		a.lookAt(ctx, a.nodes.of(m.node), node.Parted{})
	case wordHeard:
		a.lookAt(ctx, a.operations[m.operation], reconcile.Look{})
	default:
		return false
	}
	return true
}

// Stop implements reconcile.Body.
func (a *leaderActor) Stop() {
	a.stop()
	a.replica.nodeActors.CompareAndSwap(a.nodes, nil)
}

// Start implements reconcile.Body: it waits until this replica has applied everything that earlier
// leaders committed, and fences those leaders off.
func (a *leaderActor) Start() {
	var reading context.Context
	reading, a.stop = context.WithCancel(a.ctx)
	ctx := a.life.Context()
	a.replica.nodeActors.Store(a.nodes)
	go func() {
		index, begun := untilBegun(reading, a.replica.cfg.Timing.Retry, a.log, a.beginTerm)
		if !begun {
			// The term is over; the parent stops this actor.
			return
		}
		a.life.Do(func() { a.rebuild(ctx, index) })
		follow(reading, a.replica.store, fmt.Sprintf("leader of term %d", a.term), index+1, a.life, func(m batch) { a.batch(ctx, m) })
	}()
}

// untilBegun retries until the term has begun, and returns the index of its BeginTerm entry, or
// false if the term ended first. Only ctx shows that the term has ended: a leader that is
// transferring leadership rejects commands, but continues to lead if the transfer fails.
func untilBegun(ctx context.Context, retry time.Duration, log *slog.Logger, begin func(context.Context) (uint64, error)) (index uint64, begun bool) {
	for {
		index, err := begin(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, raftstore.ErrClosed):
			return 0, false
		case err == nil:
			return index, true
		}
		log.Warn("term not begun yet", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

func (a *leaderActor) beginTerm(ctx context.Context) (index uint64, err error) {
	if err := a.replica.store.Barrier(ctx); err != nil {
		return 0, fmt.Errorf("begin term: %w", err)
	}
	var done, began bool
	a.replica.store.View(func(s *state.State) {
		done, began, index = s.Term().GetTerm() == a.term, !s.LastTime().IsZero(), s.LastIndex()
	})
	if done {
		return index, nil
	}
	if !began {
		// The state has no time that could go on: its first one must not be wrong.
		select {
		case <-a.replica.cfg.Clock.Compared():
		case <-ctx.Done():
			return 0, fmt.Errorf("begin term: compare clocks: %w", ctx.Err())
		}
	}
	first := []proto.Message{&commandpb.BeginTerm{
		Term: a.term, Replica: a.replica.cfg.ID, ClusterId: a.replica.cfg.Cluster, Limits: state.WithGrants(state.WithBytes(a.replica.cfg.Limits)),
	}}
	if !began && foundsCurrent(a.replica.cfg.Directory.View()) {
		first = append(first, &commandpb.RaiseVersion{Version: versions.Current})
	}
	commands, err := encode(first)
	if err != nil {
		return 0, err
	}
	results, err := a.replica.store.Propose(ctx, commands...)
	if err != nil {
		return 0, fmt.Errorf("begin term: %w", err)
	}
	if refusal := reconcile.Refusal(results); refusal != nil {
		return 0, fmt.Errorf("begin term: %s: %s", refusal.GetCode(), refusal.GetMessage())
	}
	return results[0].GetIndex(), nil
}

// foundsCurrent reports whether a cluster that begins now begins with the newest version: no replica that is
// seen is too old for it.
func foundsCurrent(view *cluster.View) bool {
	return !slices.ContainsFunc(view.Replicas, func(r cluster.Replica) bool { return r.Live && r.Can < versions.Current })
}

// rebuild spawns the leader's actors from the state. Each actor reads its own part of the state.
// The scheduler registers running allocations before it plans anything.
func (a *leaderActor) rebuild(ctx actor.Context, index uint64) {
	var nodes []string
	var trees []scheduling.TreeName
	var operations []scheduling.OperationID
	var ended []*statepb.Operation
	a.replica.store.View(func(s *state.State) {
		a.pacer.begin(time.Now(), a.replica.cfg.Timing.Node, state.PaceOf(s))
		ended = stagedBefore(s, a.replica.cfg.Clock.Now())
		for _, n := range s.Nodes() {
			nodes = append(nodes, n.GetId())
		}
		for _, tree := range s.Trees() {
			trees = append(trees, scheduling.TreeName(tree.GetName()))
		}
		for op := range s.InProgress() {
			operations = append(operations, scheduling.OperationID(op.GetId()))
			a.trees.waiting.note(op)
		}
	})
	for _, name := range trees {
		a.treeChanged(ctx, name)
	}
	a.leads = true
	for _, id := range nodes {
		a.spawnNode(ctx, id)
	}
	for _, id := range operations {
		a.spawnOperation(ctx, id)
	}
	a.pace()
	for _, op := range ended {
		a.replica.discard(a.ctx, op)
	}
	a.log.Info("leading", "index", index, "operations", len(operations), "nodes", len(nodes), "trees", len(trees), "pools", len(a.trees.pools))
}

func (a *leaderActor) batch(ctx actor.Context, m batch) {
	// A tree that starts with this entry reads a state that already includes it.
	a.trees.tell(ctx, m)
	touched := map[string]bool{}
	admit := false
	for _, event := range m.Events {
		switch e := event.(type) {
		case state.OperationAccepted:
			// An operation that existed when the actors were spawned already has its actor.
			if a.operations[e.ID] == nil {
				a.spawnOperation(ctx, e.ID)
			}
		case state.OperationChanged:
			admit = a.operationChanged(ctx, e, touched) || admit
		case state.ControllerAssigned:
			a.lookAt(ctx, a.operations[e.ID], reconcile.Look{})
		case state.OutputPublished:
			a.lookAt(ctx, a.operations[e.ID], reconcile.Look{})
		case state.AllocationsStarted:
			for _, allocation := range e.Allocations {
				touched[allocation.GetNode()] = true
				if id := scheduling.OperationID(allocation.GetOperationId()); a.replica.records.handsOver(id) {
					a.lookAt(ctx, a.operations[id], reconcile.Look{})
				}
			}
		case state.StopsOrdered:
			for _, allocation := range e.Allocations {
				touched[allocation.GetNode()] = true
			}
			a.lookAt(ctx, a.operations[e.Operation], reconcile.Look{})
		case state.AllocationsEnded:
			for _, ended := range e.Ended {
				touched[ended.Allocation.GetNode()] = true
			}
			a.lookAt(ctx, a.operations[e.Operation], reconcile.Look{})
		case state.TreeChanged:
			a.treeChanged(ctx, e.Tree)
			admit = true
		case state.NodeChanged:
			touched[string(e.ID)] = true
			if a.nodes.of(string(e.ID)) == nil && e.State == statepb.NodeOnline {
				// The node had been removed before, which stopped the actor that registered it.
				a.spawnNode(ctx, string(e.ID))
			}
		case state.NodeRemoved:
			a.nodeRemoved(ctx, string(e.ID))
		}
	}
	for id := range touched {
		a.lookAt(ctx, a.nodes.of(id), reconcile.Look{})
	}
	if admit {
		a.lookAtPools(ctx)
	}
}

// nodeRemoved stops the actor of a removed node, unless the node has registered again.
func (a *leaderActor) nodeRemoved(ctx actor.Context, id string) {
	if pid := a.nodes.of(id); pid != nil && a.replica.records.NodeRecord(id) == nil {
		a.nodes.set(id, nil)
		ctx.Stop(pid)
	}
}

// operationChanged notifies the actors that an operation's new state concerns, and reports whether
// pools may have to admit operations or may have room again.
func (a *leaderActor) operationChanged(ctx actor.Context, e state.OperationChanged, touched map[string]bool) (admit bool) {
	waits := false
	if op, _ := a.replica.records.Operation(string(e.ID)); op != nil {
		waits = a.trees.waiting.note(op)
	} else {
		a.trees.waiting.forget(e.ID)
	}
	if e.To.Finishing() || e.AbortJobs {
		for _, id := range a.replica.records.nodesOf(e.ID) {
			touched[id] = true
		}
	}
	pid := a.operations[e.ID]
	if e.To.Terminal() && pid != nil {
		delete(a.operations, e.ID)
		ctx.Stop(pid)
	} else {
		a.lookAt(ctx, pid, reconcile.Look{})
	}
	return waits || e.From == e.To || e.To.Terminal()
}

func (a *leaderActor) lookAtOperations(ctx actor.Context) {
	for _, pid := range a.operations {
		ctx.Send(pid, reconcile.Look{})
	}
}

func (a *leaderActor) lookAt(ctx actor.Context, pid *actor.PID, look any) {
	if pid != nil {
		ctx.Send(pid, look)
	}
}

func (a *leaderActor) toNode(ctx actor.Context, m toNode) {
	if !a.leads {
		m.message.Reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "leader not ready yet", RetryMillis: 50})
		return
	}
	if a.nodes.of(m.node) == nil {
		a.spawnNode(ctx, m.node)
	}
	ctx.Send(a.nodes.of(m.node), m.message)
}

func (a *leaderActor) spawn(ctx actor.Context, producer actor.Producer) *actor.PID {
	return ctx.Spawn(supervised(a.log, producer, false))
}

func (a *leaderActor) spawnNode(ctx actor.Context, id string) {
	timing := a.replica.cfg.Timing
	a.nodes.set(id, ctx.Spawn(supervised(a.log, node.New(node.Config{
		ID: id, Term: a.term, Leader: a.replica.cfg.ID, State: a.replica.records, Log: a.terms,
		Scheduler: &offers{ctx.ActorSystem().Root, a.trees.schedulers}, Agents: a.replica, Board: a.replica.board, Words: nodeWords{a.replica, a.term}, Lead: a.lead,
		Replicas:    func() []*actorpb.Replica { return replicasOf(a.replica.cfg.Directory.View()) },
		Revocations: a.replica.records.revocations,
		Timing:      timing.Node, Pacer: a.pacer, RetryAfter: timing.Retry, Now: time.Now, StateNow: a.replica.cfg.Clock.Now, Logger: a.log,
	}), false).Configure(actor.WithDispatcher(a.replica.crew))))
}

func (a *leaderActor) spawnOperation(ctx actor.Context, id scheduling.OperationID) {
	timing := a.replica.cfg.Timing
	a.operations[id] = a.spawn(ctx, operation.New(operation.Config{
		ID: string(id), Term: a.term, State: a.replica.records, Instances: a.replica.heldBack, Replicas: a.replica.liveness, Log: a.terms,
		ReassignAfter: timing.ReassignAfter, RetryAfter: timing.Retry, Now: a.replica.cfg.Clock.Now, Logger: a.log,
	}))
}

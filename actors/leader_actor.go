package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/node"
	"weir/actors/operation"
	"weir/actors/pool"
	"weir/actors/scheduler"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// ready says that the term has begun: its first command is committed.
type ready struct{ index uint64 }

// toNode brings an agent's message to its node: a node.FromAgent or a
// node.Waiting. refuse answers it when there is no actor yet.
type toNode struct {
	node    string
	message any
	refuse  func(proto.Message)
}

// replicasChanged says that a replica came or went.
type replicasChanged struct{}

// viewRequest asks for what the scheduler sees.
type viewRequest struct {
	of    *actorpb.SchedulerViewRequest
	reply func(*actorpb.SchedulerView)
}

// newLeader returns the producer of the actor that leads in a term: it spawns the
// leader's actors and hands each the committed events that concern it. ctx ends
// with the term.
func newLeader(ctx context.Context, r *Replica, term uint64) actor.Producer {
	return func() actor.Actor {
		ask := func(ctx context.Context) error {
			_, err := r.store.ReadIndex(ctx)
			return err
		}
		return &leaderActor{
			lead: lead{&confirmer{ctx: ctx, leads: ask}, func() proto.Message { return r.Redirect() }},
			ctx:  ctx, replica: r, term: term, life: new(life), log: r.cfg.Logger.With("term", term), terms: &termLog{ctx: ctx, store: r.store},
			operations: map[scheduling.OperationID]*actor.PID{}, pools: map[scheduling.PoolName]*actor.PID{},
			nodes: map[string]*actor.PID{}, pending: map[scheduling.OperationID]scheduling.PoolName{},
		}
	}
}

type leaderActor struct {
	ctx     context.Context
	replica *Replica
	term    uint64
	life    *life
	lead    lead
	log     *slog.Logger
	terms   *termLog
	// stop ends the reading of the log.
	stop context.CancelFunc

	scheduler  *actor.PID
	operations map[scheduling.OperationID]*actor.PID
	pools      map[scheduling.PoolName]*actor.PID
	nodes      map[string]*actor.PID
	// pending are operations that wait for their pool.
	pending map[scheduling.OperationID]scheduling.PoolName
}

// Receive implements actor.Actor.
func (a *leaderActor) Receive(ctx actor.Context) {
	switch m := a.life.of(ctx.Message()).(type) {
	case nil:
		// It was for a former life of this actor.
	case *actor.Started:
		a.begin(ctx)
	case ready:
		a.rebuild(ctx, m)
	case batch:
		a.batch(ctx, m)
	case toNode:
		a.toNode(ctx, m)
	case viewRequest:
		a.view(ctx, m)
	case replicasChanged:
		a.lookAtOperations(ctx)
	case broken:
		// The supervisor starts the actor again, from the state as it is then.
		panic(fmt.Sprintf("leader of term %d: %v", a.term, m.err))
	case *actor.Stopping, *actor.Restarting:
		if a.stop != nil {
			a.stop()
		}
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.log.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

// begin waits until this replica knows everything that earlier leaders committed,
// and fences them off.
func (a *leaderActor) begin(ctx actor.Context) {
	var reading context.Context
	reading, a.stop = context.WithCancel(a.ctx)
	self, root := ctx.Self(), ctx.ActorSystem().Root
	send := func(m any) { root.Send(self, owned{a.life, m}) }
	go func() {
		for {
			index, err := a.beginTerm(reading)
			switch {
			case reading.Err() != nil, errors.Is(err, raftstore.ErrNotLeader), errors.Is(err, raftstore.ErrClosed):
				// The term is over; whoever started this actor stops it.
				return
			case err == nil:
				send(ready{index})
				follow(reading, a.replica.store, index+1, send)
				return
			}
			a.log.Warn("the term has not begun yet", "error", err)
			select {
			case <-reading.Done():
			case <-time.After(a.replica.cfg.Timing.Retry):
			}
		}
	}()
}

func (a *leaderActor) beginTerm(ctx context.Context) (index uint64, err error) {
	if err := a.replica.store.Barrier(ctx); err != nil {
		return 0, fmt.Errorf("begin term: %w", err)
	}
	var done bool
	a.replica.store.View(func(s *state.State) { done, index = s.Term().GetTerm() == a.term, s.LastIndex() })
	if done {
		return index, nil
	}
	commands, err := encode([]proto.Message{&commandpb.BeginTerm{
		Term: a.term, Replica: a.replica.cfg.ID, Time: timestamppb.New(time.Now()), ClusterId: a.replica.cfg.Cluster, Limits: a.replica.cfg.Limits,
	}})
	if err != nil {
		return 0, err
	}
	results, err := a.replica.store.Propose(ctx, commands...)
	if err != nil {
		return 0, fmt.Errorf("begin term: %w", err)
	}
	if refusal := results[0].GetRefusal(); refusal != nil {
		return 0, fmt.Errorf("begin term: %s: %s", refusal.GetCode(), refusal.GetMessage())
	}
	return results[0].GetIndex(), nil
}

// rebuild spawns the leader's actors from the state. Each reads its own part; the
// scheduler registers running allocations before it plans anything.
func (a *leaderActor) rebuild(ctx actor.Context, m ready) {
	var nodes []string
	var pools []scheduling.PoolName
	var operations []scheduling.OperationID
	a.replica.store.View(func(s *state.State) {
		for _, n := range s.Nodes() {
			nodes = append(nodes, n.GetId())
		}
		if tree, ok := s.Tree(scheduling.DefaultTree); ok {
			for _, p := range tree.GetPools() {
				pools = append(pools, scheduling.PoolName(p.GetName()))
			}
		}
		for op := range s.InProgress() {
			id := scheduling.OperationID(op.GetId())
			operations = append(operations, id)
			if op.GetState() == lifecycle.Pending.String() {
				a.pending[id] = scheduling.PoolName(op.GetPool())
			}
		}
	})
	a.scheduler = a.spawn(ctx, scheduler.New(a.schedulerConfig()))
	for _, id := range nodes {
		a.spawnNode(ctx, id)
	}
	for _, name := range pools {
		a.spawnPool(ctx, name)
	}
	for _, id := range operations {
		a.spawnOperation(ctx, id)
	}
	a.log.Info("leading", "index", m.index, "operations", len(operations), "nodes", len(nodes), "pools", len(pools))
}

func (a *leaderActor) batch(ctx actor.Context, m batch) {
	ctx.Send(a.scheduler, scheduler.Committed{Index: m.Index, Events: m.Events, Done: m.done})
	touched := map[string]bool{}
	admit := false
	for _, event := range m.Events {
		switch e := event.(type) {
		case state.OperationAccepted:
			a.spawnOperation(ctx, e.ID)
		case state.OperationChanged:
			admit = a.operationChanged(ctx, e, touched) || admit
		case state.ControllerAssigned:
			a.lookAt(ctx, a.operations[e.ID], operation.Look{})
		case state.AllocationsStarted:
			for _, allocation := range e.Allocations {
				touched[allocation.GetNode()] = true
			}
		case state.StopsOrdered:
			for _, allocation := range e.Allocations {
				touched[allocation.GetNode()] = true
			}
		case state.AllocationsEnded:
			for _, ended := range e.Ended {
				touched[ended.Allocation.GetNode()] = true
			}
			a.lookAt(ctx, a.operations[e.Operation], operation.Look{})
		case state.PoolChanged:
			a.poolChanged(ctx, e)
			admit = true
		case state.NodeChanged:
			touched[string(e.ID)] = true
		}
	}
	for id := range touched {
		a.lookAt(ctx, a.nodes[id], node.Look{})
	}
	if admit {
		a.lookAtPools(ctx)
	}
}

// operationChanged tells those whom an operation's new state concerns, and reports
// whether pools may have to admit or may have got room.
func (a *leaderActor) operationChanged(ctx actor.Context, e state.OperationChanged, touched map[string]bool) (admit bool) {
	if e.To == lifecycle.Pending {
		if op, _ := a.replica.records.Operation(string(e.ID)); op != nil {
			a.pending[e.ID] = scheduling.PoolName(op.GetPool())
		}
	} else {
		delete(a.pending, e.ID)
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
		a.lookAt(ctx, pid, operation.Look{})
	}
	return e.To == lifecycle.Pending || e.To.Terminal()
}

func (a *leaderActor) poolChanged(ctx actor.Context, e state.PoolChanged) {
	pid, known := a.pools[e.Name]
	switch {
	case e.Removed && known:
		delete(a.pools, e.Name)
		ctx.Stop(pid)
	case !e.Removed && !known:
		a.spawnPool(ctx, e.Name)
	}
}

// lookAtPools has the pools look whose operations wait.
func (a *leaderActor) lookAtPools(ctx actor.Context) {
	told := map[scheduling.PoolName]bool{}
	for _, name := range a.pending {
		if !told[name] {
			told[name] = true
			a.lookAt(ctx, a.pools[name], pool.Look{})
		}
	}
}

func (a *leaderActor) lookAtOperations(ctx actor.Context) {
	for _, pid := range a.operations {
		ctx.Send(pid, operation.Look{})
	}
}

func (a *leaderActor) lookAt(ctx actor.Context, pid *actor.PID, look any) {
	if pid != nil {
		ctx.Send(pid, look)
	}
}

func (a *leaderActor) toNode(ctx actor.Context, m toNode) {
	if a.scheduler == nil {
		m.refuse(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "the leader is getting ready", RetryMillis: 50})
		return
	}
	if a.nodes[m.node] == nil {
		a.spawnNode(ctx, m.node)
	}
	ctx.Send(a.nodes[m.node], m.message)
}

func (a *leaderActor) view(ctx actor.Context, m viewRequest) {
	if a.scheduler == nil {
		m.reply(&actorpb.SchedulerView{Term: a.term})
		return
	}
	ctx.Send(a.scheduler, scheduler.View{Of: m.of, Reply: m.reply})
}

func (a *leaderActor) spawn(ctx actor.Context, producer actor.Producer) *actor.PID {
	return ctx.Spawn(supervised(a.log, producer, false))
}

func (a *leaderActor) spawnNode(ctx actor.Context, id string) {
	timing := a.replica.cfg.Timing
	a.nodes[id] = a.spawn(ctx, node.New(node.Config{
		ID: id, Term: a.term, Leader: a.replica.cfg.ID, State: a.replica.records, Log: a.terms,
		Scheduler: &offers{ctx.ActorSystem().Root, a.scheduler}, Agents: a.replica, Board: a.replica.board, Lead: a.lead,
		Replicas: func() []*actorpb.Replica { return replicasOf(a.replica.cfg.Directory.View()) },
		Timing:   timing.Node, RetryAfter: timing.Retry, Now: time.Now, Logger: a.log,
	}))
}

func (a *leaderActor) spawnPool(ctx actor.Context, name scheduling.PoolName) {
	a.pools[name] = a.spawn(ctx, pool.New(pool.Config{
		Tree: scheduling.DefaultTree, Name: name, Term: a.term, State: a.replica.records, Log: a.terms,
		RetryAfter: a.replica.cfg.Timing.Retry, Now: time.Now, Logger: a.log,
	}))
}

func (a *leaderActor) spawnOperation(ctx actor.Context, id scheduling.OperationID) {
	timing := a.replica.cfg.Timing
	a.operations[id] = a.spawn(ctx, operation.New(operation.Config{
		ID: string(id), Term: a.term, State: a.replica.records, Replicas: a.replica.liveness, Log: a.terms,
		ReassignAfter: timing.ReassignAfter, RetryAfter: timing.Retry, Now: time.Now, Logger: a.log,
	}))
}

func (a *leaderActor) schedulerConfig() scheduler.Config {
	timing := a.replica.cfg.Timing
	return scheduler.Config{
		Tree: scheduling.DefaultTree, Term: a.term, State: a.replica.records, Log: a.terms, Engine: a.replica.cfg.Engine,
		TickEvery: timing.FairShareUpdate, TickGap: timing.FairShareGap, NodesPerPlan: 256, MaxInFlight: 4,
		NewID: a.replica.cfg.NewID, Now: time.Now, Figures: &a.replica.schedulerFigures, Logger: a.log,
	}
}

// offers tells the scheduler of nodes.
type offers struct {
	root *actor.RootContext
	pid  *actor.PID
}

// Offer implements the Scheduler of nodes.
func (o *offers) Offer(node string, limits resource.Amounts) {
	o.root.Send(o.pid, scheduler.Offer{Node: node, Limits: limits})
}

// Withdraw implements the Scheduler of nodes.
func (o *offers) Withdraw(node string) { o.root.Send(o.pid, scheduler.Withdraw{Node: node}) }

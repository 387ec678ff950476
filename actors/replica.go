// Package actors starts the actors of a replica and supervises them.
//
// A gateway, the actors of signals and of words, and the controllers of the operations that are
// assigned to this replica run on every replica. While the replica leads, a leader actor adds the
// scheduler, and an actor for each pool, operation and node; these end with the term. Actors
// persist nothing: all of them are rebuilt from the replicated state.
package actors

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/gateway"
	"weir/actors/hearsay"
	"weir/actors/node"
	"weir/actors/pool"
	"weir/actors/remote"
	"weir/actors/scheduler"
	"weir/actors/signal"
	"weir/cluster"
	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/raftstore"
	"weir/scheduling"
)

// maxSignals bounds the interruption signals that a replica remembers: 10,000 leaving jobs take
// about 2 MiB.
const maxSignals = 10000

// maxWords bounds the words of instances that a replica remembers: together they fit into the state
// that the replica sends to a joining member (gossip.MaxStateSize).
const maxWords = 16000

// maxNodeWords bounds the words of nodes that a replica remembers.
const maxNodeWords = 16000

// Replica holds the actors of a replica.
type Replica struct {
	nodeReads
	cfg      Config
	store    *raftstore.Store
	system   *actor.ActorSystem
	remote   *remote.Remote
	records  *records
	board    *board
	liveness *liveness
	// controllers are the controllers on this replica, by operation.
	controllers registry[string]
	// controlled is how far the controllers follow the log.
	controlled *progress
	// nodeActors are the node actors of the term that this replica leads in; nil while it does not
	// lead.
	nodeActors atomic.Pointer[registry[string]]
	signals    *signal.Signals
	words      *signal.Words
	nodes      *signal.Nodes
	news       *newsdesk
	histories  *pool.Histories

	// barriers and views are requests to the leader that callers share.
	barriers shared[uint64]
	views    shared[*actorpb.SchedulerView]

	gatewayFigures gateway.Figures
	// askers bounds the concurrent explain requests.
	askers            scheduler.Door
	schedulerFigures  scheduler.Figures
	heartbeatsDropped atomic.Uint64
	// crew runs the actors of nodes.
	crew *crew
	// leader is the actor of the term that this replica leads in; nil while it does not lead.
	leader atomic.Pointer[actor.PID]

	gatewayPID, signalPID, wordPID, nodePID, controllersPID *actor.PID

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	// discards are the pending removals of staging folders. discarding has a slot for each removal
	// that may run at the same time.
	discards   sync.WaitGroup
	discarding chan struct{}
	closeOnce  sync.Once
}

// Start starts the actors of a replica. They run until Close.
func Start(cfg Config) (*Replica, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Replica{
		cfg: cfg, store: cfg.Store, board: newBoard(), news: newNewsdesk(), controlled: newProgress(),
		histories: pool.NewHistories(), crew: newCrew(), discarding: make(chan struct{}, discardsAtOnce),
		records: &records{store: cfg.Store, directory: cfg.Directory},
		signals: signal.NewSignals(cfg.Timing.SignalKeep, maxSignals, cfg.Clock.Now),
		nodes:   signal.NewNodes(cfg.Timing.SignalKeep+2*cfg.Timing.Node.Lease, maxNodeWords, cfg.Clock.Now),
		system:  actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return cfg.Logger })),
	}
	r.nodeReads = nodeReads{r}
	r.words = signal.NewWords(cfg.Timing.SignalKeep, maxWords, cfg.Clock.Now, func(job string) bool { return r.records.Allocation(job) != nil })
	r.liveness = newLiveness(cfg.ID, func(id string) bool { return r.remote.Connected(peerOf(id)) })
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.barriers.ctx, r.views.ctx = r.ctx, r.ctx
	// Late answers to an earlier process must not match a future of this one.
	r.system.ProcessRegistry.SequenceID = cfg.Incarnation >> 1
	var err error
	r.remote, err = remote.Start(r.system, remote.Config{
		Self: identity.Identity{Cluster: cfg.Cluster, Role: identity.Replica, Name: cfg.ID}, Incarnation: cfg.Incarnation, Version: cfg.Version,
		Directory: addressBook{cfg.Directory}, Dialer: cfg.Dialer, IdentityOf: cfg.IdentityOf, Admit: admit, OnPeer: r.onPeer, Limits: cmp.Or(cfg.Streams, remote.DefaultLimits()), Logger: cfg.Logger,
	})
	if err != nil {
		r.cancel()
		return nil, err
	}
	inbox := r.remote.NewInbox(gateway.Busy(cfg.Gateway))
	r.spawn(inbox)
	if err := r.remote.Publish(actorpb.GatewayName, r.gatewayPID, inbox, identity.Agent, identity.Replica); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	cfg.Store.BeforeTransfer(r.keepVolumes)
	for _, run := range []func(){historian{r}.follow, r.followLeadership, r.catchUp, r.followReplicas, r.compareClocks} {
		r.done.Go(run)
	}
	return r, nil
}

func (r *Replica) spawn(inbox *remote.Inbox) {
	root := r.system.Root
	r.signalPID = hear(r, r.signals.Known, func(s *actorpb.InterruptionSignal) { r.news.tell(s.GetOperationId()) })
	r.wordPID = hear(r, r.words.Known, func(w *actorpb.InstanceWord) { r.hearWord(w.GetOperationId()) })
	r.nodePID = hear(r, r.nodes.Known, func(w *actorpb.NodeWord) { r.hearNode(w.GetNode()) })
	r.controllersPID = root.Spawn(supervised(r.cfg.Logger, newControllersActor(r.ctx, r), true))
	r.gatewayPID = root.Spawn(supervised(r.cfg.Logger, gateway.New(gateway.Config{
		Replica: r, Limits: r.cfg.Gateway, Patience: r.cfg.Timing.Patience,
		Figures: &r.gatewayFigures, Logger: r.cfg.Logger,
	}), true).Configure(inbox.Mailbox()))
}

// hear spawns the actor of a topic, which receives what other replicas broadcast.
func hear[M proto.Message](r *Replica, known *hearsay.Known[M], news func(M)) *actor.PID {
	subject := topic{r.cfg.Gossip, known.Topic()}
	pid := r.system.Root.Spawn(supervised(r.cfg.Logger, hearsay.New(hearsay.Config[M]{
		Self: hearsay.Speaker{Replica: r.cfg.ID, Incarnation: r.cfg.Incarnation}, Gossip: subject, News: news, ExpireEvery: 10 * time.Second, Logger: r.cfg.Logger,
	}, known), true))
	heard := func(full bool) func([]byte) {
		return func(payload []byte) { r.system.Root.Send(pid, hearsay.Heard{Payload: payload, Full: full}) }
	}
	r.cfg.Gossip.Handle(subject.name, gossip.Handler{Receive: heard(false), Merge: heard(true), LocalState: known.LocalState})
	return pid
}

// Handler returns the handler for the streams of other machines, and its path.
func (r *Replica) Handler() (path string, handler http.Handler) { return r.remote.Handler() }

// Stopping returns why a job is leaving, as far as this replica knows; empty if it is not.
func (r *Replica) Stopping(job string) string { return r.signals.Stopping(job) }

// Interrupt implements the Signals of controllers.
func (r *Replica) Interrupt(s *actorpb.InterruptionSignal) {
	r.system.Root.Send(r.signalPID, signal.Interrupt{Said: s})
}

// hearWord reports news about the instances of an operation to waiting readers and, if this
// replica leads, to the leader's actor.
func (r *Replica) hearWord(operation string) {
	r.news.tell(operation)
	if leader := r.leader.Load(); leader != nil {
		r.system.Root.Send(leader, wordHeard{scheduling.OperationID(operation)})
	}
}

// Tell implements the Signals of controllers.
func (r *Replica) Tell(word *actorpb.InstanceWord) {
	r.system.Root.Send(r.wordPID, signal.Tell{Said: word})
}

// Send implements the Agents of nodes.
func (r *Replica) Send(node string, msg proto.Message) {
	if err := r.remote.Send(peerOfAgent(node), actorpb.AgentName, msg); err != nil {
		// The reply to the node's next heartbeat contains the same.
		r.cfg.Logger.Debug("message not sent", "node", node, "error", err)
	}
}

// ToNode implements the Replica of the gateway.
func (r *Replica) ToNode(id string, msg proto.Message, reply func(proto.Message)) bool {
	leader := r.leader.Load()
	if leader == nil {
		return false
	}
	message := node.FromAgent{Message: msg, Reply: reply}
	if _, beat := msg.(*actorpb.Heartbeat); beat {
		message.Replaced = func() {
			r.heartbeatsDropped.Add(1)
			reply(&actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: "replaced by a newer heartbeat of the node"})
		}
	}
	if nodes := r.nodeActors.Load(); nodes != nil {
		if pid := nodes.of(id); pid != nil {
			r.system.Root.Send(pid, message)
			return true
		}
	}
	r.system.Root.Send(leader, toNode{id, message})
	return true
}

// Redirect implements the Replica of the gateway.
func (r *Replica) Redirect() *actorpb.Redirect {
	view := r.cfg.Directory.View()
	redirect := &actorpb.Redirect{Replicas: replicasOf(view)}
	if current, _ := r.store.Leadership(); current.LeaderID != "" && current.LeaderID != r.cfg.ID {
		redirect.Leader = &actorpb.Replica{Id: current.LeaderID, Address: current.LeaderAddress}
	}
	return redirect
}

// WaitApplied implements the Replica of the gateway.
func (r *Replica) WaitApplied(ctx context.Context, index uint64) error {
	return r.store.WaitApplied(ctx, index)
}

// WaitControlled implements the Replica of the gateway.
func (r *Replica) WaitControlled(ctx context.Context, grant uint64) error {
	return r.controlled.wait(ctx, grant)
}

// addresses returns the API addresses of the cluster, for jobs.
func (r *Replica) addresses() []string {
	var all []string
	for _, replica := range r.cfg.Directory.View().Replicas {
		if replica.APIAddress != "" {
			all = append(all, replica.APIAddress)
		}
	}
	return all
}

// followLeadership spawns the leader's actors when this replica is elected, stops them when it no
// longer leads, and announces changes to the other replicas.
func (r *Replica) followLeadership() {
	var leading uint64
	stop := func() {}
	defer func() { stop() }()
	for {
		current, changed := r.store.Leadership()
		r.cfg.Directory.ObserveLeader(scheduling.ReplicaID(current.LeaderID), current.Term)
		if err := r.cfg.Gossip.Update(func(m *gossip.Member) { m.Leader, m.Term = current.Leader, current.Term }); err != nil {
			r.cfg.Logger.Debug("leadership not announced", "error", err)
		}
		term := uint64(0)
		if current.Leader {
			term = current.Term
		}
		if term != leading {
			stop()
			stop = func() {}
			if term != 0 {
				stop = r.lead(term)
			}
			leading = term
		}
		select {
		case <-r.ctx.Done():
			return
		case <-changed:
		}
	}
}

// catchUp announces that this replica is ready, once it has applied everything that was committed
// before it started. Until then it is assigned no operations.
func (r *Replica) catchUp() {
	for r.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timing.Patience)
		err := r.ReadBarrier(ctx)
		cancel()
		if err == nil {
			err = r.cfg.Gossip.Update(func(m *gossip.Member) { m.Ready = true })
		}
		if err == nil {
			r.cfg.Logger.Info("caught up", "index", r.store.Applied())
			return
		}
		r.cfg.Logger.Debug("not caught up yet", "error", err)
		select {
		case <-r.ctx.Done():
		case <-time.After(r.cfg.Timing.LeaderRetry):
		}
	}
}

// lead spawns the leader actor of a term and returns a function that stops it.
func (r *Replica) lead(term uint64) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	pid := r.system.Root.Spawn(supervised(r.cfg.Logger, newLeader(ctx, r, term), true))
	r.leader.Store(pid)
	return func() {
		r.leader.Store(nil)
		cancel()
		if err := r.system.Root.StopFuture(pid).Wait(); err != nil {
			r.cfg.Logger.Warn("leader actors slow to stop", "term", term, "error", err)
		}
		r.cfg.Logger.Info("stepped down as leader", "term", term)
	}
}

// followReplicas maintains streams to the other replicas, and notifies the leader's operations
// when replicas come and leave.
func (r *Replica) followReplicas() {
	views, cancel := r.cfg.Directory.Watch()
	defer cancel()
	others := neighbours{self: scheduling.ReplicaID(r.cfg.ID), streams: r.remote, log: r.cfg.Logger}
	for {
		select {
		case <-r.ctx.Done():
			return
		case view, ok := <-views:
			if !ok {
				return
			}
			others.observe(view)
			r.observe(view)
		}
	}
}

// observe processes a view of the cluster, and notifies the leader's operations when a replica came
// or left. A leader actor that starts at the same time either sees the new view or is notified.
func (r *Replica) observe(view *cluster.View) {
	if !r.liveness.observe(r.cfg.Clock.Now(), view) {
		return
	}
	if leader := r.leader.Load(); leader != nil {
		r.system.Root.Send(leader, replicasChanged{})
	}
}

// Close stops the actors. It may be called more than once.
func (r *Replica) Close() error {
	r.closeOnce.Do(func() {
		r.cancel()
		r.done.Wait()
		r.remote.Unpublish(actorpb.GatewayName)
		for _, pid := range []*actor.PID{r.gatewayPID, r.controllersPID, r.signalPID, r.wordPID, r.nodePID} {
			if err := r.system.Root.StopFuture(pid).Wait(); err != nil {
				r.cfg.Logger.Warn("actor slow to stop", "actor", pid.GetId(), "error", err)
			}
		}
		r.discards.Wait()
		r.remote.Close()
		r.system.Shutdown()
	})
	return nil
}

// topic broadcasts on one topic.
type topic struct {
	gossip Gossip
	name   string
}

// Broadcast implements hearsay.Gossip.
func (t topic) Broadcast(key string, payload []byte) error {
	return t.gossip.Broadcast(t.name, key, payload)
}

// addressBook finds the addresses of replicas for streams.
type addressBook struct{ directory *cluster.Directory }

// Address implements remote.Directory.
func (b addressBook) Address(peer string) (string, bool) {
	role, name, err := remote.ParsePeer(peer)
	if err != nil || role != identity.Replica {
		return "", false
	}
	known, ok := b.directory.View().Replica(scheduling.ReplicaID(name))
	return known.Address, ok && known.Address != ""
}

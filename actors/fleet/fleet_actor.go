// Package fleet simulates many nodes in one process. Their jobs start no processes. Each node
// talks to the cluster as an agent does, with its own certificate and connection: it registers,
// sends heartbeats, accepts plans, requests the specs of jobs from controllers and reports their
// results, also when another replica leads or controls. Only the work is left out. It is for trying
// and measuring a cluster at a size that one machine does not have.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/scheduling/resource"
)

// Config describes a fleet.
type Config struct {
	// Names are the names of the nodes. Resources are what each node has for jobs.
	Names     []string
	Resources resource.Amounts
	// Tags are the tags of each node.
	Tags []string
	// Version is the version that the nodes say they run.
	Version string
	// Cluster is the cluster's id. Replicas are the replicas to register at, the leader best first.
	Cluster  string
	Replicas []agent.Replica
	// Dialer returns the dialer of a node, by its name.
	Dialer func(name string) (remote.Dialer, error)
	// Lasts returns how long a job runs; 0 completes it at once. If it is nil, jobs run until they are told to
	// leave.
	Lasts func() time.Duration
	// Registered, if set, is called with the number of nodes that have registered, as it grows.
	Registered func(nodes int)
}

// silence is the log of a node: a thousand of them would only say the same.
var silence = slog.New(slog.DiscardHandler)

// joinedAtOnce is how many nodes connect at a time.
const joinedAtOnce = 16

// Fleet is a set of running nodes.
type Fleet struct {
	cfg   Config
	nodes []*node
	// system has the actors of all nodes: one for each would take more memory than all else of a node.
	system *actor.ActorSystem
	// registered counts nodes that have registered, each once, and joined those that are connected with all
	// replicas. started counts jobs that began.
	registered, joined, started *tally
	// joining holds an entry for each node that is connecting.
	joining  chan struct{}
	exchange *exchange
	// asks is how many jobs of a node wait for an answer at a time.
	asks     int
	ctx      context.Context
	cancel   context.CancelFunc
	sessions sync.WaitGroup
}

// Start starts a fleet and returns when every node is registered, and connected with every replica.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	f := &Fleet{cfg: cfg, registered: newTally(cfg.Registered), joined: newTally(nil), started: newTally(nil), joining: make(chan struct{}, joinedAtOnce), exchange: newExchange(dialsAtOnce), asks: askedAtOnce(max(1, len(cfg.Names)))}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return silence }))
	life := uint64(time.Now().UnixNano())
	for i, name := range cfg.Names {
		n, err := f.open(name, life+uint64(i))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("start node %s: %w", name, err)
		}
		f.nodes = append(f.nodes, n)
		f.sessions.Go(n.session)
	}
	if err := f.registered.await(ctx, len(cfg.Names)); err != nil {
		f.Close()
		return nil, fmt.Errorf("register nodes: %w", err)
	}
	if err := f.joined.await(ctx, len(cfg.Names)); err != nil {
		f.Close()
		return nil, fmt.Errorf("connect nodes: %w", err)
	}
	return f, nil
}

// open creates a node with its connections.
func (f *Fleet) open(name string, life uint64) (*node, error) {
	dialer, err := f.cfg.Dialer(name)
	if err != nil {
		return nil, err
	}
	// The replicas are alive, but a handshake may have to wait for the handshakes of all other
	// nodes.
	peers := agent.NewPeers(patience)
	r, err := remote.Start(f.system, remote.Config{
		Self: identity.Identity{Cluster: f.cfg.Cluster, Role: identity.Agent, Name: name}, Version: f.cfg.Version,
		Directory: peers, Dialer: queued{dialer, f.exchange}, OnPeer: peers.OnPeer, Limits: remote.DefaultLimits(), Logger: silence,
	})
	if err != nil {
		return nil, err
	}
	peers.Use(r)
	n := &node{fleet: f, name: name, life: life, peers: peers, hurry: func() { peers.SetPatience(patienceLater) }, stop: r.Close, jobs: map[string]*job{}, urgent: make(chan struct{}, 1)}
	inbox := r.NewInbox(nil)
	pid := f.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if in, ok := ctx.Message().(*remote.Inbound); ok {
			if plan, ok := in.Message.(*actorpb.NodePlan); ok {
				n.plan(plan)
			}
		}
	}, inbox.Mailbox()))
	if err := r.Publish(actorpb.AgentName, pid, inbox, identity.Replica); err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// AwaitStarted waits until this many jobs have begun since Start, each counted once.
func (f *Fleet) AwaitStarted(ctx context.Context, jobs int) error {
	if err := f.started.await(ctx, jobs); err != nil {
		return fmt.Errorf("start of jobs: %w", err)
	}
	return nil
}

// Close stops all nodes without a goodbye.
func (f *Fleet) Close() {
	f.cancel()
	var stops sync.WaitGroup
	for _, n := range f.nodes {
		stops.Go(n.stop)
	}
	stops.Wait()
	f.sessions.Wait()
	f.system.Shutdown()
}

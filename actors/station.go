package actors

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent"
	"weir/actors/agent/runner"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// StationConfig is the configuration of a node's actors.
type StationConfig struct {
	Agent agent.Config
	// Cluster is the cluster's id.
	Cluster string
	Dialer  remote.Dialer
	// JobProxy is the path of the weir-jobproxy program.
	JobProxy string
}

// Station holds the actors of a node: its agent, and its connections to replicas.
type Station struct {
	system    *actor.ActorSystem
	runner    *runner.Runner
	remote    *remote.Remote
	agent     *agent.Agent
	log       *slog.Logger
	closeOnce sync.Once
	closed    error
}

// connectPatience is how long a request waits for a stream that is not connected: long enough for a
// handshake, but short enough not to matter if a dead replica is asked before a live one.
const connectPatience = 500 * time.Millisecond

// StartStation starts the agent of a node, which takes over the jobs of the previous agent process.
// It looks for the cluster until Close or Leave.
func StartStation(cfg StationConfig) (*Station, error) {
	s := &Station{log: cfg.Agent.Logger}
	if err := s.start(cfg); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Station) start(cfg StationConfig) (err error) {
	var caveat string
	if s.runner, caveat, err = agent.OpenRunner(cfg.Agent, cfg.JobProxy); err != nil {
		return err
	}
	cfg.Agent.Caveat = caveat
	s.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return cfg.Agent.Logger }))
	// Late answers to an earlier process must not match a future of this one.
	s.system.ProcessRegistry.SequenceID = cfg.Agent.Incarnation >> 1
	peers := agent.NewPeers(connectPatience)
	s.remote, err = remote.Start(s.system, remote.Config{
		Self:        identity.Identity{Cluster: cfg.Cluster, Role: identity.Agent, Name: cfg.Agent.Node},
		Incarnation: cfg.Agent.Incarnation, Version: cfg.Agent.Version, Directory: peers, Dialer: cfg.Dialer, OnPeer: peers.OnPeer,
		Limits: remote.DefaultLimits(), Logger: cfg.Agent.Logger,
	})
	if err != nil {
		return err
	}
	peers.Use(s.remote)
	inbox := s.remote.NewInbox(nil)
	if s.agent, err = agent.Start(s.system, cfg.Agent, agent.FromRunner(s.runner), peers, inbox.Mailbox()); err != nil {
		return err
	}
	return s.remote.Publish(actorpb.AgentName, s.agent.PID(), inbox, identity.Replica)
}

// StationStats is the work of a node's actors since they started.
type StationStats struct {
	Agent  agent.Stats
	Remote remote.Stats
}

// Stats returns a snapshot.
func (s *Station) Stats() StationStats { return StationStats{s.agent.Stats(), s.remote.Stats()} }

// Done is closed when the agent has ended: after Close or Leave, or because it failed.
func (s *Station) Done() <-chan struct{} { return s.agent.Done() }

// Err returns why the agent failed; nil if it did not, or if only its log says why.
func (s *Station) Err() error { return s.agent.Err() }

// Close ends the node's jobs, reports their results as far as it can, and stops the actors. ctx
// bounds the reporting. It may be called more than once.
func (s *Station) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closed = errors.Join(s.agent.Close(ctx), s.runner.Close(), s.release()) })
	return s.closed
}

// Leave stops the actors. The node's jobs keep running until their lease expires. A new
// station takes the jobs over if it starts before that. Leave may be called more than once, and
// Close does nothing after it.
func (s *Station) Leave(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closed = errors.Join(s.agent.Leave(ctx), s.release()) })
	return s.closed
}

// release releases everything except the jobs, in reverse order.
func (s *Station) release() error {
	if s.remote != nil {
		s.remote.Close()
	}
	if s.system != nil {
		s.system.Shutdown()
	}
	if s.runner != nil {
		return s.runner.Leave()
	}
	return nil
}

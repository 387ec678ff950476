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

// StationConfig is what the actors of a node work with.
type StationConfig struct {
	Agent agent.Config
	// Cluster is the cluster's id.
	Cluster string
	Dialer  remote.Dialer
	// JobProxy is the path of the weir-jobproxy program.
	JobProxy string
}

// Station is the actors of a node: its agent, and what connects it with replicas.
type Station struct {
	system    *actor.ActorSystem
	runner    *runner.Runner
	remote    *remote.Remote
	agent     *agent.Agent
	log       *slog.Logger
	closeOnce sync.Once
	closed    error
}

// connectPatience is how long a question waits for a stream that is not there: long
// for a handshake, and short when a dead replica is asked before a live one.
const connectPatience = 500 * time.Millisecond

// StartStation starts the agent of a node, with the jobs that an earlier process of
// it left. The cluster is sought until Close or Leave.
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
	// Answers that come late must not find a future of this life.
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

// StationStats is what the actors of a node have done since they started.
type StationStats struct {
	Agent  agent.Stats
	Remote remote.Stats
}

// Stats returns a snapshot.
func (s *Station) Stats() StationStats { return StationStats{s.agent.Stats(), s.remote.Stats()} }

// Done is closed when the agent has ended: after Close or Leave, or because it failed.
func (s *Station) Done() <-chan struct{} { return s.agent.Done() }

// Err says why the agent failed; nil: it did not, or see its log.
func (s *Station) Err() error { return s.agent.Err() }

// Close ends the node's jobs, tells their results as far as it can, and stops the
// actors. ctx can cut the telling short. It may be called again.
func (s *Station) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closed = errors.Join(s.agent.Close(ctx), s.runner.Close(), s.release()) })
	return s.closed
}

// Leave stops the actors. The node's jobs go on until their lease runs out; a
// station that is started before has them again. It may be called again, and Close
// does nothing after it.
func (s *Station) Leave(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closed = errors.Join(s.agent.Leave(ctx), s.release()) })
	return s.closed
}

// release gives back what is held, in reverse, but for the jobs.
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

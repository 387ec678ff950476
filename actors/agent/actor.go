package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/messages/actorpb"
)

// Name is the name by which an agent's actor is to be published for replicas.
const Name = "agent"

// Agent is a running agent.
type Agent struct {
	system *actor.ActorSystem
	pid    *actor.PID
	shared *shared
	once   sync.Once
}

// shared is what the agent actor lets its jobs and the owner of the Agent see.
type shared struct {
	replicas atomic.Pointer[[]Replica]
	// until is when the lease runs out.
	until atomic.Pointer[time.Time]
	// closing: the agent's end has been asked for.
	closing atomic.Bool
	// ended is closed when the actor has stopped.
	ended chan struct{}
}

// Start starts an agent. It fails on a configuration that cannot work and on
// damaged files; a cluster that cannot be reached is sought for ever. The PID has
// to be published for replicas, by Name.
func Start(system *actor.ActorSystem, cfg Config, processes Processes, replicas Replicas) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	dir, err := openFolder(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	token, err := dir.readToken()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	remembered, err := dir.readReplicas()
	if err != nil {
		cfg.Logger.Warn("known replicas are lost, the configured ones remain", "error", err)
	}
	roster := NewRoster(cfg.Seeds, remembered)
	if len(roster.All()) == 0 {
		return nil, errors.New("start agent: no replica is known: name at least one as id=host:port")
	}
	fence := NewFence(token)
	a := &agentActor{
		cfg: cfg, processes: processes, replicas: replicas, folder: dir,
		roster: roster, fence: fence,
		session: NewSession(cfg.Timing, roster, fence, rand.Float64),
		intake:  NewIntake(fence),
		ledger:  NewLedger(cfg.Incarnation, cfg.maxJobs()),
		jobs:    map[string]*child{},
		shared:  &shared{ended: make(chan struct{})},
	}
	a.shared.until.Store(&time.Time{})
	a.publishReplicas()
	// A panic stops the agent, and with it the process: its next life begins with
	// a new incarnation, and no job of this one is left by then.
	stop := actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })
	props := actor.PropsFromProducer(func() actor.Actor { return a },
		actor.WithGuardian(stop), actor.WithSupervisor(actor.NewExponentialBackoffStrategy(10*time.Second, 100*time.Millisecond)))
	pid, err := system.Root.SpawnNamed(props, Name)
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	return &Agent{system: system, pid: pid, shared: a.shared}, nil
}

// PID is the agent's actor. It takes *remote.Inbound.
func (a *Agent) PID() *actor.PID { return a.pid }

// Done is closed when the agent has ended: after Close, or because it broke.
func (a *Agent) Done() <-chan struct{} { return a.shared.ended }

// Close ends the agent's jobs, tells their results as far as it can within
// Timing.CloseTimeout, and stops the agent; ctx can cut that short. It may be
// called twice.
func (a *Agent) Close(ctx context.Context) error {
	a.shared.closing.Store(true)
	a.once.Do(func() { a.system.Root.Send(a.pid, leave{}) })
	select {
	case <-a.shared.ended:
		return nil
	case <-ctx.Done():
	}
	a.system.Root.Stop(a.pid)
	<-a.shared.ended
	return fmt.Errorf("close agent: %w: results of jobs may not have been told", ctx.Err())
}

// leave asks the agent to end.
type leave struct{}

// order tells a job to end.
type order struct{ Order }

// changed tells what heartbeats are to say about a job.
type changed struct{ held *actorpb.HeldJob }

// forgotten tells that nothing of a job is left.
type forgotten struct{ job string }

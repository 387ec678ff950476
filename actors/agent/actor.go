package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/discovery"
	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
)

// Agent is a running agent.
type Agent struct {
	system *actor.ActorSystem
	pid    *actor.PID
	shared *shared
	once   sync.Once
}

// shared is the state that the agent actor shares with its job actors and with the Agent.
type shared struct {
	replicas atomic.Pointer[[]Replica]
	// until is when the lease runs out, in nanoseconds on its clock.
	until   atomic.Int64
	clock   leaseClock
	figures figures
	waits   waits
	journal records
	files   *filecache.Cache
	// sharedUser is set if jobs without a named user share one.
	sharedUser bool
	// closing is set once Close or Leave was called. failure is why the agent ended by itself.
	closing atomic.Bool
	failure atomic.Pointer[error]
	// ended is closed when the actor has stopped.
	ended chan struct{}
}

// leaseLeft is how long the lease still lasts.
func (s *shared) leaseLeft() time.Duration { return time.Duration(s.until.Load()) - s.clock.now() }

// records is an agent's journal.
type records interface {
	Append(done func(error), records ...*journalpb.Record)
	// Full returns why records wait for disk space; nil if none waits.
	Full() error
	Stats() journal.Stats
	Close() error
}

// Start starts an agent and adopts the jobs that an earlier process left. It fails on an invalid
// configuration and on a damaged journal. An unreachable cluster is not an error: the agent retries
// until it is closed. Replicas must be able to reach the PID as actorpb.AgentName; options are
// further properties of its actor.
func Start(system *actor.ActorSystem, cfg Config, processes Processes, replicas Replicas, options ...actor.PropsOption) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	dir, err := openFolder(cfg.StateDir, cfg.JobUser != "")
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	remembered, err := dir.readReplicas()
	if err != nil {
		cfg.Logger.Warn("known replicas unreadable; using the configured ones", "error", err)
	}
	roster := NewRoster(cfg.Seeds, remembered)
	if len(roster.All()) == 0 {
		return nil, errors.New("start agent: no known replicas: give at least one as id=host:port")
	}
	log, found, err := journal.Open(journal.Config{Path: dir.journalFile(), Node: cfg.Node, Version: cfg.Version})
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	if found.Cut > 0 {
		cfg.Logger.Info("incomplete record cut off the end of the journal", "node", cfg.Node, "cut", found.Cut)
	}
	agent, err := start(system, &agentActor{
		environment: environment{cfg: cfg, processes: processes, replicas: replicas, folder: dir, journal: log}, roster: roster,
	}, found.State, options...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start agent: %w", err), log.Close())
	}
	return agent, nil
}

// openFiles opens the file cache and removes the files placed for jobs that an earlier process
// did not start.
func openFiles(cfg *Config, dir folder) (*filecache.Cache, error) {
	if err := os.RemoveAll(dir.placing("")); err != nil {
		return nil, err
	}
	return filecache.Open(filecache.Config{
		Dir: cmp.Or(cfg.FileCache, filepath.Join(cfg.StateDir, "files")), Limit: cfg.FileCacheSize, Logger: cfg.Logger,
	})
}

// start starts the actor from the state of its journal.
func start(system *actor.ActorSystem, a *agentActor, kept *journal.State, options ...actor.PropsOption) (*Agent, error) {
	a.fence = NewFence(kept.Token)
	a.session = NewSession(a.cfg.Timing, a.roster, a.fence, rand.Float64)
	a.ledger = NewLedger(kept.Life, a.cfg.maxJobs())
	a.intake = NewIntake(a.fence, a.ledger)
	a.space = NewSpace(a.cfg.StateDir, a.cfg.MinFree)
	a.guard = NewMemoryGuard(a.cfg.MemoryWatermark, a.cfg.MemoryOverdraftTimeout)
	a.gpus = NewGPUs(a.cfg.Resources.GPU)
	a.jobs = map[string]*child{}
	if a.cfg.slow != nil {
		a.journal = a.cfg.slow(a.journal)
	}
	a.shared = &shared{ended: make(chan struct{}), journal: a.journal, sharedUser: a.cfg.SharedUser() != ""}
	a.directory = discovery.NewDirectory(func() discovery.Source { return newInstances(a.replicas, &a.shared.replicas, a.cfg.Timing) })
	// Measure before the first registration, so that no job arrives before a full disk is
	// noticed.
	free, err := measureFree(a.cfg.StateDir)
	a.seen = measured{free, err}
	a.space.Saw(free, err, a.journal.Full(), nil)
	a.shared.figures.full(a.space.Full())
	if closed := a.space.Closed(); closed != "" {
		a.cfg.Logger.Error("not accepting new jobs", "node", a.cfg.Node, "reason", closed, "jobs", len(kept.Jobs))
	}
	a.nodeLife, a.process, a.boot = kept.Life, kept.Session, bootOf()
	if err := a.recover(kept); err != nil {
		return nil, err
	}
	if a.files, err = openFiles(&a.cfg, a.folder); err != nil {
		return nil, err
	}
	a.shared.files = a.files
	if a.shared.clock = a.cfg.leases; a.shared.clock.now == nil {
		a.shared.clock = bootClock()
	}
	a.publishReplicas()
	// A panic stops the agent, and with it the process. Its jobs go on, for the next
	// process to adopt.
	stop := actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })
	props := actor.PropsFromProducer(func() actor.Actor { return a },
		actor.WithGuardian(stop), actor.WithSupervisor(actor.NewExponentialBackoffStrategy(10*time.Second, 100*time.Millisecond)))
	pid, err := system.Root.SpawnNamed(props.Configure(options...), actorpb.AgentName)
	if err != nil {
		a.files.Close()
		return nil, err
	}
	return &Agent{system: system, pid: pid, shared: a.shared}, nil
}

// PID returns the agent's actor, which accepts *remote.Inbound.
func (a *Agent) PID() *actor.PID { return a.pid }

// Done returns a channel that is closed when the agent has ended: after Close or Leave, or
// because it failed.
func (a *Agent) Done() <-chan struct{} { return a.shared.ended }

// Err returns why the agent ended by itself. It is nil if the agent did not end by itself, and also
// after a panic, which only the log explains.
func (a *Agent) Err() error {
	if err := a.shared.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends the agent's jobs, reports as many results as it can within Timing.CloseTimeout, and
// stops the agent; ctx can cut that short. Close may be called twice.
func (a *Agent) Close(ctx context.Context) error { return a.stop(ctx, false) }

// Leave stops the agent at once. Its jobs run on until their lease expires; an agent started
// before then adopts them.
func (a *Agent) Leave(ctx context.Context) error { return a.stop(ctx, true) }

func (a *Agent) stop(ctx context.Context, keep bool) error {
	a.shared.closing.Store(true)
	a.once.Do(func() { a.system.Root.Send(a.pid, leave{keep: keep}) })
	select {
	case <-a.shared.ended:
		return nil
	case <-ctx.Done():
	}
	a.system.Root.Stop(a.pid)
	<-a.shared.ended
	return fmt.Errorf("close agent: %w: some job results may be unreported", ctx.Err())
}

// leave asks the agent to end. If keep is set, its jobs go on.
type leave struct{ keep bool }

// order is an order to a job's actor to end the job.
type order struct{ Order }

// changed reports to the agent what heartbeats say about a job, and the memory it uses.
type changed struct {
	held *actorpb.HeldJob
	use  MemoryUse
}

// forgotten reports to the agent that nothing of a job is left.
type forgotten struct{ job string }

package raftstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// closePatience bounds each of Close's steps: transferring leadership, and waiting for
// calls in progress.
const closePatience = 5 * time.Second

// Store is one replica of the replicated state.
type Store struct {
	cfg        Config
	disk       *disk
	log        *logStore
	transport  *transport
	machine    *machine
	raft       *raft.Raft
	batcher    *batcher
	leadership *leadershipSignal
	announcer  *announcer
	settings   settings
	// opened is when the store was opened.
	opened time.Time
	// calls counts the requests to raft in progress. Raft may drop them at shutdown.
	calls gate
	// readableTerm is the latest term in which this replica committed an entry as leader.
	readableTerm atomic.Uint64
	// patience bounds each of Close's steps.
	patience time.Duration
	// beforeTransfer, if set, is called before each transfer of leadership.
	beforeTransfer atomic.Pointer[func(context.Context)]

	// closing is closed when Close begins. down is closed when raft's goroutines have ended.
	// stopped is closed when no call can get an answer any more.
	closing, down, stopped chan struct{}
	// started is closed when raft runs.
	started chan struct{}
	// watching are the watches of leadership, of the leader, and of the log's size.
	watching  sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Open starts the replica in cfg.Dir: it restores the latest snapshot, joins its peers, and
// applies the log as the leader commits it. The caller closes the store before the process ends.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	logger := newRaftLogger(cfg.Logger)
	d, err := openDisk(cfg, logger)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), cfg.Transport.Listener.Close())
	}
	t := newTransport(cfg, d, logger)
	s, err := start(cfg, d, t, logger)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", cfg.Dir, err), t.Close(), d.Close())
	}
	return s, nil
}

// start runs raft on an open disk and transport.
func start(cfg Config, d *disk, t *transport, logger hclog.Logger) (*Store, error) {
	cfg.doubtAfter = cmp.Or(cfg.doubtAfter, doubtAfter)
	s := &Store{
		cfg:        cfg,
		opened:     time.Now(),
		disk:       d,
		log:        newLogStore(d, d.sizes, cfg.LogCacheBytes),
		transport:  t,
		settings:   settings{raft: &t.book.raft},
		machine:    newMachine(cfg),
		leadership: newLeadershipSignal(),
		patience:   closePatience,
		closing:    make(chan struct{}),
		down:       make(chan struct{}),
		stopped:    make(chan struct{}),
		started:    make(chan struct{}),
	}
	s.machine.raised = d.keepVersion
	s.machine.checks.begin(s)
	if err := s.beginEvents(); err != nil {
		return nil, err
	}
	long := make(chan struct{}, 1)
	s.log.stored = func() { s.tellLong(long) }
	s.log.parallel, t.written = func() bool { return leadsOthers(t.book.raft.Load()) }, s.log.unwritten.await
	var err error
	if s.raft, err = raft.NewRaft(raftConfig(cfg, logger), fsm{s.machine, s.trail}, s.log, s.log, d.snapshots, t); err != nil {
		return nil, errors.Join(fmt.Errorf("start raft: %w", err), s.machine.restoreErr)
	}
	s.machine.running.Store(true)
	s.announcer = newAnnouncer(s.tellCommit)
	t.announcer.Store(s.announcer)
	t.book.raft.Store(s.raft)
	close(s.started)
	s.batcher = newBatcher(cfg, s.appendEntry, s.explainPropose, &s.machine.proposed, s.announce)
	s.watching.Go(s.watchLeadership)
	s.watching.Go(vacancy{s}.watch)
	s.watching.Go(checker{s}.watch)
	s.watching.Go(func() { s.watchLog(long) })
	stats := s.Stats()
	cfg.Logger.Info("store open", "replica", cfg.ReplicaID, "dir", cfg.Dir, "new", d.bootstrapped,
		"term", stats.Term, "snapshot", stats.Snapshot, "last", stats.Last)
	return s, nil
}

// beginEvents gives the event log the last index of this replica's command log.
func (s *Store) beginEvents() error {
	if s.cfg.Events == nil {
		return nil
	}
	last, err := s.disk.LastIndex()
	if err != nil {
		return err
	}
	return s.cfg.Events.Begin(max(last, s.disk.snapshots.newest))
}

func raftConfig(cfg Config, logger hclog.Logger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.ReplicaID)
	c.HeartbeatTimeout = cfg.Timeouts.Heartbeat
	c.ElectionTimeout = cfg.Timeouts.Election
	c.LeaderLeaseTimeout = cfg.Timeouts.Lease
	c.CommitTimeout = commitTimeout
	c.SnapshotThreshold = cfg.SnapshotThreshold
	c.SnapshotInterval = cfg.SnapshotInterval
	c.TrailingLogs = cfg.TrailingLogs
	c.MaxAppendEntries = appendEntries
	// A removed replica keeps running, but takes no part in the cluster, until an operator stops
	// it.
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	c.Logger = logger
	return c
}

// Close transfers leadership, if this replica leads, waits for calls in progress and stops. Later
// calls return ErrClosed. Close may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	s.resign(ctx)
	close(s.closing)
	s.machine.checks.stop()
	// Raft drops unanswered calls at shutdown.
	if !s.settle() {
		s.cfg.Logger.Warn("closed with calls still in progress", "took", s.patience)
	}
	down := s.raft.Shutdown()
	// Close the connections before waiting for raft, because its goroutines wait for answers on
	// them.
	closed := s.transport.closeConns()
	err := down.Error()
	s.transport.late.working.Wait()
	s.announcer.close()
	close(s.down)
	s.watching.Wait()
	s.machine.checks.working.Wait()
	s.machine.feed.close()
	close(s.stopped)
	written := s.log.unwritten.awaitAll()
	return errors.Join(err, closed, written, s.disk.Close())
}

// resign announces the final commit index, rejects new proposals and transfers leadership
// if it can.
func (s *Store) resign(ctx context.Context) {
	leads := s.raft.State() == raft.Leader
	if leads {
		s.sayLastWords(ctx)
	}
	s.batcher.queue.close()
	if !leads || len(s.voters()) <= 1 {
		return
	}
	if err := s.transfer(ctx, ""); err != nil {
		s.cfg.Logger.Warn("leadership not transferred", "error", err)
	}
}

// settle waits until raft has answered every call; it returns false if patience runs out.
func (s *Store) settle() bool {
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	for _, done := range []<-chan struct{}{s.batcher.done, s.calls.shut()} {
		select {
		case <-done:
		case <-patience.C:
			return false
		}
	}
	return true
}

// leading returns nil if this replica is the leader of an open store, and otherwise the error for
// the caller.
func (s *Store) leading() error {
	select {
	case <-s.closing:
		return fmt.Errorf("store: %w", ErrClosed)
	default:
	}
	if s.raft.State() != raft.Leader {
		return s.notLeader()
	}
	return nil
}

// gate counts calls in progress and admits no further calls once it is shut.
type gate struct {
	mu     sync.Mutex
	inside sync.WaitGroup
	closed bool
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside.Add(1)
	}
	return !g.closed
}

func (g *gate) leave() { g.inside.Done() }

// shut closes the gate, once, and returns a channel that is closed when the last
// call has left.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	empty := make(chan struct{})
	go func() {
		g.inside.Wait()
		close(empty)
	}()
	return empty
}

package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/versions"
	"weir/raftstore/command"
	"weir/raftstore/events"
	"weir/raftstore/state"
)

// machine holds the state and the figures derived from it. Only one goroutine of raft writes.
type machine struct {
	log   *slog.Logger
	clock Clock
	feed  *feed
	// proposed holds the commands of entries that this replica has proposed.
	proposed proposed
	// restoreErr is the error of the last restore; raft logs it but returns a vaguer one.
	// Read only before raft runs.
	restoreErr error
	// version is the version of the cluster in the state. raised is called when it has changed, before any
	// answer.
	version atomic.Uint32
	raised  func(version uint32)
	// stop is called, once, with the error of an entry that this version cannot read. stopped is set before
	// that: nothing more is applied or written to a snapshot. Only the goroutine of raft that applies
	// entries uses stopped.
	stop    func(error)
	stopped error
	// running is set once raft runs: from then on snapshots come from a leader.
	running atomic.Bool

	// mu guards state, times and tally. The feed advances while mu is held, so that a reader that
	// holds mu sees the applied index of this state.
	mu    sync.RWMutex
	state *state.State
	times machineTimes
	// shelf keeps the records of ended operations.
	shelf *shelf
	// checks compare the state with those of other replicas.
	checks *checks
	tally  Tally
	// teller turns commands into events for the event log; both are nil without one.
	teller *events.Teller
	events EventLog
}

// machineTimes are how long the machine's work took.
type machineTimes struct {
	apply, restore, snapshot time.Duration
}

func newMachine(cfg Config) *machine {
	m := &machine{
		log: cfg.Logger, clock: cfg.Clock, feed: newFeed(cfg.WatchBuffer), state: state.New(), tally: newTally(), checks: newChecks(cfg.Hashes),
		stop: cfg.Fatal, raised: func(uint32) {},
	}
	m.shelf = &shelf{dir: cfg.Dir, log: cfg.Logger, fatal: cfg.Fatal}
	state.UseShelf(m.state, m.shelf, state.RecentOperations)
	m.version.Store(m.state.Version())
	if cfg.Events != nil {
		m.events, m.teller = cfg.Events, events.NewTeller(m.state)
	}
	return m
}

// apply carries out committed entries. At an entry that does not decode, which another version has written,
// the machine stops: to skip it would make this replica diverge from the others. The answer of an entry that
// is not applied is nil.
func (m *machine) apply(entries []*raft.Log) []any {
	answers := make([]any, len(entries))
	if m.stopped != nil {
		return answers
	}
	decoded, unreadable := m.decode(entries)
	m.applyDecoded(entries[:len(decoded)], decoded, answers)
	m.noteVersion()
	if unreadable != nil {
		m.stopped = unreadable
		m.stop(unreadable)
	}
	return answers
}

// decode returns the commands of entries, up to the first one that this version cannot read.
func (m *machine) decode(entries []*raft.Log) (decoded [][]command.Decoded, unreadable error) {
	decoded = make([][]command.Decoded, 0, len(entries))
	for _, entry := range entries {
		var commands []command.Decoded
		if entry.Type == raft.LogCommand {
			var err error
			if commands, err = m.proposed.take(entry.Data); err != nil {
				return decoded, unreadableEntry(entry, err)
			}
		}
		decoded = append(decoded, commands)
	}
	return decoded, nil
}

// unreadableEntry returns the error for an entry that does not decode.
func unreadableEntry(entry *raft.Log, err error) error {
	err = fmt.Errorf("%w: log entry at index %d of term %d, %d bytes: %w", ErrUnreadable, entry.Index, entry.Term, len(entry.Data), err)
	if errors.Is(err, versions.ErrNewer) {
		return err
	}
	return fmt.Errorf("%w: start the version of weir that the other replicas run (weir cluster members)", err)
}

// applyDecoded applies entries whose commands are decoded, and sets their answers.
func (m *machine) applyDecoded(entries []*raft.Log, decoded [][]command.Decoded, answers []any) {
	m.checks.pass()
	m.mu.Lock()
	defer m.mu.Unlock()
	begin := time.Now()
	for i, entry := range entries {
		if entry.Type == raft.LogCommand {
			answers[i] = m.applyEntry(entry.Index, decoded[i])
		}
	}
	m.clock.Applied(m.state.LastTime())
	m.times.apply += time.Since(begin)
}

// noteVersion notes a new version of the cluster in the state. Only the goroutine of raft that changes the
// state calls it.
func (m *machine) noteVersion() {
	if version := m.state.Version(); version != m.version.Load() {
		m.raised(version)
		m.version.Store(version)
	}
}

func (m *machine) applyEntry(index uint64, commands []command.Decoded) []*commandpb.Result {
	results := make([]*commandpb.Result, len(commands))
	var changes []state.Event
	var told []*eventpb.Event
	for i, cmd := range commands {
		msg := cmd.Message
		result, caused := state.ApplyBy(m.state, index, cmd.By, msg)
		result.Index = index
		results[i] = result
		if check, ok := msg.(*commandpb.CheckState); ok && result.GetRefusal() == nil {
			m.checks.passed(index, check, m.state)
		} else {
			m.checks.changed()
		}
		changes = append(changes, caused...)
		m.tally.count(msg, result, caused, m.state)
		m.audit(caused)
		if m.teller != nil && result.GetRefusal() == nil {
			told = m.teller.Tell(told, index, msg, caused, m.state)
		}
	}
	if m.events != nil {
		m.events.Append(index, told)
	}
	m.feed.publish(index, changes)
	return results
}

func (m *machine) view(f func(*state.State)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.state)
}

// frozen is a copy of the state that has not been written as a snapshot yet.
type frozen struct {
	machine *machine
	state   *state.Frozen
	// trail, if set, is called when the snapshot is written.
	trail func()
}

func (m *machine) freeze() *frozen {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := m.state.Freeze()
	// Whoever applies entries does not have to wait until the time slice of the writer is over, which is up to 20 ms.
	copied.Pause = runtime.Gosched
	return &frozen{machine: m, state: copied}
}

func (s *frozen) write(w io.Writer) error {
	begin := time.Now()
	written, err := writeSnapshot(w, s.state.Encoded)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	s.machine.mu.Lock()
	s.machine.times.snapshot = took
	s.machine.mu.Unlock()
	s.machine.log.Info("snapshot written", "index", written.index, "records", written.records, "bytes", written.bytes, "took", took)
	return nil
}

// restore replaces the state with the snapshot in r, after it has read and checked all of it.
func (m *machine) restore(r io.Reader) error {
	begin := time.Now()
	restored, read, err := readSnapshotAs(r, versions.Program, m.shelf)
	if err != nil {
		if err = fmt.Errorf("restore snapshot: %w", err); m.running.Load() {
			if errors.Is(err, ErrSnapshotFormat) && m.stopped == nil {
				// The leader would send it again and again.
				m.stopped = err
				m.stop(err)
			}
			return err
		}
		m.restoreErr = err
		return err
	}
	took := time.Since(begin)
	m.mu.Lock()
	m.state, m.times.restore = restored, took
	m.checks.restored()
	m.clock.Applied(restored.LastTime())
	if m.events != nil {
		m.teller = events.NewTeller(restored)
		m.events.Jump(read.index)
	}
	m.feed.reset(read.index)
	m.mu.Unlock()
	m.noteVersion()
	m.log.Info("snapshot restored", "index", read.index, "records", read.records, "bytes", read.bytes, "took", took)
	return nil
}

// syncPatience bounds how long a snapshot waits for earlier events to reach the disk.
const syncPatience = 5 * time.Second

// syncEvents syncs the events before a snapshot, which cannot be derived from it later. A
// snapshot is worth more than the events, so an error does not prevent it.
func (m *machine) syncEvents() {
	if m.events == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncPatience)
	defer cancel()
	if err := m.events.Sync(ctx); err != nil {
		m.log.Warn("events before the snapshot may not be on disk", "error", err)
	}
}

package raftstore

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/raftstore/command"
	"weir/raftstore/state"
)

// machine is the state and what is read off it. One goroutine of raft's writes.
type machine struct {
	log  *slog.Logger
	feed *feed
	// restoreErr is why the last restore did not work; raft logs it and says
	// less. Read before raft runs only.
	restoreErr error

	// mu guards state, times and tally. The feed moves on while it is held, so that
	// under a read lock the applied index is that of the state.
	mu    sync.RWMutex
	state *state.State
	times machineTimes
	tally Tally
}

// machineTimes are how long the machine's work took.
type machineTimes struct {
	apply, restore, snapshot time.Duration
}

func newMachine(watchBuffer int, log *slog.Logger) *machine {
	return &machine{log: log, feed: newFeed(watchBuffer), state: state.New(), tally: newTally()}
}

// apply carries out committed entries. One that does not decode was damaged, or
// written by a newer version; skipping it would make this replica differ from
// the others, so the process stops.
func (m *machine) apply(entries []*raft.Log) []any {
	decoded := make([][]proto.Message, len(entries))
	for i, entry := range entries {
		if entry.Type != raft.LogCommand {
			continue
		}
		messages, err := command.DecodeEntry(entry.Data)
		if err != nil {
			panic(fmt.Sprintf("apply log entry at index %d of term %d, %d bytes: %v: this replica stops, "+
				"because it would differ from the others; start a version that knows the entry, or rebuild the replica",
				entry.Index, entry.Term, len(entry.Data), err))
		}
		decoded[i] = messages
	}
	answers := make([]any, len(entries))
	m.mu.Lock()
	defer m.mu.Unlock()
	begin := time.Now()
	for i, entry := range entries {
		if entry.Type == raft.LogCommand {
			answers[i] = m.applyEntry(entry.Index, decoded[i])
		}
	}
	m.times.apply += time.Since(begin)
	return answers
}

func (m *machine) applyEntry(index uint64, messages []proto.Message) []*commandpb.Result {
	results := make([]*commandpb.Result, len(messages))
	var events []state.Event
	for i, msg := range messages {
		result, caused := m.state.Apply(index, msg)
		result.Index = index
		results[i] = result
		events = append(events, caused...)
		m.tally.count(msg, result, caused)
		m.audit(caused)
	}
	m.feed.publish(index, events)
	return results
}

func (m *machine) view(f func(*state.State)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.state)
}

// frozen is a snapshot that has been taken and not yet been written.
type frozen struct {
	machine *machine
	state   *state.Frozen
}

func (m *machine) freeze() *frozen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &frozen{machine: m, state: m.state.Freeze()}
}

func (s *frozen) write(w io.Writer) error {
	begin := time.Now()
	written, err := writeSnapshot(w, s.state.Records)
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

// restore replaces the state with the snapshot in r, all of which is read and
// checked before.
func (m *machine) restore(r io.Reader) error {
	begin := time.Now()
	restored, read, err := readSnapshot(r)
	if err != nil {
		m.restoreErr = fmt.Errorf("restore snapshot: %w", err)
		return m.restoreErr
	}
	took := time.Since(begin)
	m.mu.Lock()
	m.state, m.times.restore = restored, took
	m.feed.reset(read.index)
	m.mu.Unlock()
	m.log.Info("snapshot restored", "index", read.index, "records", read.records, "bytes", read.bytes, "took", took)
	return nil
}

package raftstore

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// fsm is raft's view of the machine. The function trail, if set, is called before raft cuts the log
// behind a snapshot.
type fsm struct {
	machine *machine
	trail   func()
}

var _ raft.BatchingFSM = fsm{}

// Apply implements raft.FSM.
func (f fsm) Apply(entry *raft.Log) any { return f.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch implements raft.BatchingFSM. Each answer is the []*commandpb.Result of its
// entry, or nil if the entry holds no commands.
func (f fsm) ApplyBatch(entries []*raft.Log) []any { return f.machine.apply(entries) }

// Snapshot implements raft.FSM: it copies the state; Persist encodes the copy.
func (f fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.machine.stopped != nil {
		return nil, fmt.Errorf("snapshot: %w", f.machine.stopped)
	}
	if f.machine.checks.halt() != nil {
		// Nobody may get a wrong state.
		return nil, ErrDiverged
	}
	frozen := f.machine.freeze()
	frozen.trail = f.trail
	return frozen, nil
}

// Restore implements raft.FSM.
func (f fsm) Restore(source io.ReadCloser) error {
	if f.trail != nil {
		f.trail()
	}
	return f.machine.restore(source)
}

// Persist implements raft.FSMSnapshot. Raft cancels the sink on an error.
func (s *frozen) Persist(sink raft.SnapshotSink) error {
	s.machine.syncEvents()
	if err := s.write(sink); err != nil {
		return fmt.Errorf("write snapshot %s: %w", sink.ID(), err)
	}
	if s.trail != nil {
		s.trail()
	}
	return nil
}

// Release implements raft.FSMSnapshot.
func (s *frozen) Release() {}

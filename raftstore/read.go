package raftstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"weir/raftstore/state"
)

// View lets f read this replica's state. No entry is applied while f runs. f must not change the
// state, keep any part of it, or call the store. It may only call Applied, which returns the index
// of this state.
func (s *Store) View(f func(*state.State)) { s.machine.view(f) }

// Applied returns the index of the last log entry applied to this replica's state.
func (s *Store) Applied() uint64 { return s.machine.feed.appliedIndex() }

// WaitApplied returns when this replica's state has applied the log entry at index, which
// must come from a Result, a Batch or ReadIndex.
func (s *Store) WaitApplied(ctx context.Context, index uint64) error {
	return s.machine.feed.waitApplied(ctx, index)
}

// ReadIndex returns an index. A replica that has applied this index shows every write that was
// acknowledged before the call. ReadIndex waits for the first commit of the leader's term, and for
// a majority to confirm that this replica still leads. On a replica that is not the leader, it
// returns a *NotLeaderError.
func (s *Store) ReadIndex(ctx context.Context) (uint64, error) {
	begin := time.Now()
	term, err := s.beginReading(ctx)
	if err != nil {
		return 0, fmt.Errorf("read index: %w", err)
	}
	commit := s.raft.CommitIndex()
	if err := (confirmation{s, term, begin}).wait(ctx); err != nil {
		return 0, fmt.Errorf("read index: %w", err)
	}
	index, err := s.lastCommand(commit)
	if err != nil {
		return 0, fmt.Errorf("read index: %w", err)
	}
	return index, nil
}

// confirmation is that this replica leads in the term: a majority has answered, as followers in it, requests that were sent at
// begin or later. Raft also counts answers to earlier ones: those that came late, and those that it is given again. After a
// pause, a leader could mistake an answer from before the pause for a confirmation.
type confirmation struct {
	*Store
	term  uint64
	begin time.Time
}

// wait returns when there is one.
func (s confirmation) wait(ctx context.Context) error {
	again := time.NewTicker(s.cfg.Timeouts.Lease / 5)
	defer again.Stop()
	for {
		_, changed := s.Leadership()
		if err := s.ask(ctx, s.raft.VerifyLeader); err != nil {
			return err
		}
		// It has had each peer asked. Ask again if that fails.
		for asked := true; asked; {
			answered := s.transport.nextAck()
			if s.transport.followedSince(s.self(), s.voters(), s.term, s.begin) {
				return nil
			}
			if s.raft.CurrentTerm() != s.term {
				return s.notLeader()
			}
			select {
			case <-answered:
				continue
			case <-again.C:
			case <-changed:
			case <-s.stopped:
			case <-ctx.Done():
			}
			asked = false
		}
	}
}

// beginReading returns the term that this replica leads in, once an entry of that term is
// committed: until that commit, the commit index may be stale.
func (s *Store) beginReading(ctx context.Context) (term uint64, err error) {
	for {
		term = s.raft.CurrentTerm()
		if err := s.leading(); err != nil {
			return 0, err
		}
		if s.readableTerm.Load() == term {
			return term, nil
		}
		if err := s.barrier(ctx); err != nil {
			return 0, err
		}
		if s.raft.CurrentTerm() == term {
			s.readableTerm.Store(term)
		}
	}
}

// lastCommand returns the index of the last entry at or before index that holds commands. Raft does
// not pass its own entries to the state machine, so nobody could wait for the index of such an
// entry.
func (s *Store) lastCommand(index uint64) (uint64, error) {
	for i := index; ; i-- {
		if applied := s.Applied(); i <= applied {
			return min(index, applied), nil
		}
		var entry raft.Log
		err := s.log.GetLog(i, &entry)
		switch {
		case err == nil && entry.Type == raft.LogCommand:
			return i, nil
		case errors.Is(err, raft.ErrLogNotFound):
			// A snapshot has replaced the entry, so it has been applied.
			return min(index, s.Applied()), nil
		case err != nil:
			return 0, fmt.Errorf("log entry %d: %w", i, err)
		}
	}
}

// Barrier returns when this replica, the leader, has applied every entry that was
// committed before the call, including those of earlier leaders. On other replicas it
// returns a *NotLeaderError.
func (s *Store) Barrier(ctx context.Context) error {
	if err := s.leading(); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if err := s.barrier(ctx); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return nil
}

func (s *Store) barrier(ctx context.Context) error {
	return s.ask(ctx, func() raft.Future { return s.raft.Barrier(0) })
}

// ask runs a request that only the leader can answer, and waits for raft's answer or ctx.
// Raft may block before it returns the future.
func (s *Store) ask(ctx context.Context, question func() raft.Future) error {
	if !s.calls.enter() {
		return fmt.Errorf("store: %w", ErrClosed)
	}
	answer := make(chan error, 1)
	go func() {
		defer s.calls.leave()
		answer <- question().Error()
	}()
	select {
	case err := <-answer:
		switch {
		case err == nil:
			return nil
		case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrLeadershipTransferInProgress):
			return s.notLeader()
		case errors.Is(err, raft.ErrRaftShutdown):
			return fmt.Errorf("store: %w", ErrClosed)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopped:
		return fmt.Errorf("store: %w", ErrClosed)
	}
}

package raftstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"weir/messages/commandpb"
	"weir/messages/versions"
	"weir/raftstore/state"
)

// Propose returns when the commands are committed and applied, in this order and without other
// commands in between. The time of each command is this replica's, whatever its proposer has set
// (command.Stamp). It returns a result for each command, which says whether the state machine
// refused it. On a replica that is not the leader it returns a *NotLeaderError at once. If a command
// is newer than the version of the cluster, all are refused (state.CodeNewerVersion), and none is written.
//
// ErrOverloaded, ErrTooLarge, ErrNotLeader and ErrClosed without ErrOutcomeUnknown mean that
// nothing has happened. If ctx ends first, the error is that of ctx; it also matches
// ErrOutcomeUnknown if the commands had already left the queue.
func (s *Store) Propose(ctx context.Context, commands ...*commandpb.Command) ([]*commandpb.Result, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	if err := s.leading(); err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	c, err := newCall(s.cfg.Clock.Now(), commands, s.cfg.EntryMaxBytes)
	if err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	if newer := s.machine.newer(c); newer != "" {
		refused := &commandpb.Result{Refusal: &commandpb.Refusal{Code: state.CodeNewerVersion, Message: newer}}
		return slices.Repeat([]*commandpb.Result{refused}, len(commands)), nil
	}
	if err := s.batcher.queue.push(c); err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	if results := tooEarly(commands); results != nil {
		return results, nil
	}
	results, err := s.batcher.wait(ctx, c, s.stopped)
	if err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	return results, nil
}

// newer says what in a call is newer than the version of the cluster, so that other replicas may be unable to read
// it, or newer than this program; empty if nothing is.
func (m *machine) newer(c *call) string {
	version := m.version.Load()
	for _, cmd := range c.decoded {
		if err := versions.Program.Check(versions.Of(cmd.Message)); errors.Is(err, versions.ErrNewer) {
			return err.Error()
		}
		if name := versions.Newer(cmd.Message, version); name != "" {
			return fmt.Sprintf("%s needs a newer version of the cluster than %d: raise it first: weir cluster upgrade finish", name, version)
		}
	}
	return ""
}

// Version returns the version of the cluster, as this replica has applied it.
func (s *Store) Version() uint32 { return s.machine.version.Load() }

// appendEntry submits an entry to raft.
func (s *Store) appendEntry(entry []byte) raft.ApplyFuture {
	return s.raft.ApplyLog(raft.Log{Data: entry, Extensions: checksum(entry)}, 0)
}

// explainPropose distinguishes "nothing happened" from "outcome unknown".
func (s *Store) explainPropose(err error) error {
	if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		return s.notLeader()
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

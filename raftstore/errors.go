package raftstore

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLeader matches every NotLeaderError. It is returned for a call that only the leader can
	// serve, by a replica that is not the leader. Nothing has happened.
	ErrNotLeader = errors.New("not the leader")

	// ErrOverloaded is returned when the queue of proposals is full. Nothing has
	// happened.
	ErrOverloaded = errors.New("overloaded")

	// ErrTooLarge is returned for commands that do not fit into a log entry.
	// Nothing has happened.
	ErrTooLarge = errors.New("too large for a log entry")

	// ErrOutcomeUnknown is returned when commands were sent to the log and it is unknown
	// whether they are or will be committed.
	ErrOutcomeUnknown = errors.New("outcome unknown")

	// ErrCompacted matches every CompactedError: the requested events are no longer kept.
	ErrCompacted = errors.New("events no longer kept")

	// ErrClosed is returned by calls on a store, or a watch, that is closed.
	ErrClosed = errors.New("closed")

	// ErrSnapshotFormat is returned for a snapshot whose format this version does not read.
	ErrSnapshotFormat = errors.New("unsupported snapshot format")

	// ErrSnapshotDamaged is returned for a snapshot that fails its checks.
	ErrSnapshotDamaged = errors.New("snapshot damaged")

	// ErrDisk is returned when the folder of a replica cannot be used.
	ErrDisk = errors.New("replica's disk")

	// ErrDamaged is returned when the data in a replica's folder have changed or are missing.
	ErrDamaged = errors.New("replica's data damaged")

	// ErrForeign is returned for the folder of another cluster or replica.
	ErrForeign = errors.New("folder belongs to another replica or cluster")

	// ErrUnreadable is passed to Config.Fatal for a log entry that this version cannot read, and returned
	// for a folder of another version. The error says which program can.
	ErrUnreadable = errors.New("replica's data is of another version")

	// ErrDiverged is returned for a replica whose state is not that of the others.
	ErrDiverged = errors.New("replica's state differs")

	// ErrMembership is returned when a change of the members is refused.
	ErrMembership = errors.New("members not changed")
)

// NotLeaderError names the leader, if this replica knows it. It matches ErrNotLeader.
type NotLeaderError struct {
	// LeaderID and Address are empty when no other leader is known.
	LeaderID, Address string
}

// Error implements error.
func (e *NotLeaderError) Error() string {
	if e.LeaderID == "" {
		return ErrNotLeader.Error() + ", and no leader is known"
	}
	return fmt.Sprintf("%v: the leader is replica %q at %s", ErrNotLeader, e.LeaderID, e.Address)
}

// Is makes errors.Is(err, ErrNotLeader) hold.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// CompactedError says from which index events are still kept. It matches ErrCompacted.
type CompactedError struct {
	// From is the requested index; Oldest is the first index from which all events are
	// still kept.
	From, Oldest uint64
}

// Error implements error.
func (e *CompactedError) Error() string {
	return fmt.Sprintf("watch from index %d: %v: the oldest kept index is %d; read the state and watch from its index", e.From, ErrCompacted, e.Oldest)
}

// Is makes errors.Is(err, ErrCompacted) hold.
func (e *CompactedError) Is(target error) bool { return target == ErrCompacted }

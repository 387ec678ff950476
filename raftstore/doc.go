// Package raftstore is the replicated store: one state machine (package state),
// the same on every replica, driven by a log that a majority has on disk.
//
// # Writing
//
// Propose sends commands to the log on the leader and returns when they are committed and applied.
// Commands of callers that wait at the same time share a log entry, so that one write to disk
// serves them all. The leader writes an entry while followers do (unwritten.go). Propose returns
// results or an error. NotLeaderError, ErrOverloaded, ErrTooLarge and ErrClosed mean that nothing
// happened. After ErrOutcomeUnknown the command may still be applied, so a retry is safe only if
// the command is idempotent.
//
// # Reading
//
// View reads the state of this replica, which may lag. To see every write that was acknowledged
// before the read began, get an index from ReadIndex on the leader, wait for that index with
// WaitApplied on any replica, and then read with View. Watch returns the events of all log entries
// at or after an index, in order and without gaps, or returns an error if some of the events are no
// longer kept.
//
// # What is on disk
//
// The folder of a replica holds the log and the vote in one bbolt file, written with fsync, and the
// latest snapshot. A snapshot is a stream of records: a header with the format number comes first,
// a footer with a count and a CRC-32C last. A snapshot is checked as a whole before it replaces any
// state. Each log entry has its own CRC-32C.
//
// # Stopping rather than guessing
//
// A committed entry that does not decode, a checksum mismatch, a write that fails or hangs: each of
// these stops the process (Config.Fatal). If it continued, replicas could diverge, or writes could
// be acknowledged that are not on disk.
//
// A replica can also diverge unseen. So the leader puts points into the log at which each replica hashes its
// state, and the hash that a majority of the voters has. A replica with another one stops, and its folder is
// refused until Rebuild has moved it aside (check.go, diverged.go).
//
// This is the only package that imports hashicorp/raft. It works around these problems of raft. The
// transport does not pipeline. Close closes every connection. Raft drops unanswered futures at
// shutdown, so the store first waits for all of them. A confirmation of leadership counts only
// answers to requests that were sent after the confirmation was asked for. A leader does not step down
// while a follower only answers late, over a connection that stands (lateness.go). A heartbeat bypasses
// raft's main loop only if its term is the one on disk, and blocks a change of that term until the
// heartbeat is handled. Callers see only indexes of entries with commands, because raft does not
// pass its own entries to the state machine.
package raftstore

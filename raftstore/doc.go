// Package raftstore is the replicated store: one state machine (package state),
// the same on every replica, driven by a log that a majority has on disk.
//
// # Writing
//
// Propose takes commands on the leader and answers when they are committed and
// applied. The commands of callers that wait at the same time share a log
// entry, so that one write to disk serves them all. An answer is one of three:
// a result; an error that says that nothing happened (NotLeaderError,
// ErrOverloaded, ErrTooLarge, ErrClosed); or ErrOutcomeUnknown, after which the
// command may still be carried out and only its own idempotence helps.
//
// # Reading
//
// View reads the state of this replica, which may lag. A read that must see
// every write answered before it takes an index from the leader's ReadIndex,
// waits for it with WaitApplied on any replica, and then reads with View.
// Watch hands out the events of every log entry from an index on, in order and
// without gaps, or says that they are no longer kept.
//
// # What is on disk
//
// The folder of a replica holds the log and the vote in one bbolt file, written
// with fsync, and the latest snapshot. A snapshot is a stream of records with a
// format number in front and a count and CRC-32C behind; it is checked as a
// whole before it replaces any state. A log entry carries a CRC-32C of its own.
//
// # Stopping rather than guessing
//
// A committed entry that does not decode, a checksum that does not fit, a write
// that fails or does not end: each stops the process (Config.Fatal), because
// going on could make replicas differ or acknowledge what is not on disk.
//
// This is the one package that imports hashicorp/raft. Its traps are handled
// here: the transport does not pipeline; every connection is closed by Close;
// futures that raft forgets at shutdown are waited for before it; a confirmation
// of leadership counts only answers to what was sent after the question; a
// heartbeat passes raft's main loop only if it is of the term that is on disk, and
// holds that term meanwhile; and indexes that callers see are those of entries that
// changed the state, since raft does not tell the state machine about the others.
package raftstore

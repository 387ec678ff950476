// Package events is the event log of a replica: what happened in the cluster, told
// from what the state machine has applied, and kept in files of the replica's own.
//
// # What happened
//
// A Teller turns each command that was carried out, and the events of package state
// that it caused, into records for people and programs. It looks at nothing but the
// command and the state after it, so all replicas tell the same, with the same index
// and position. The kinds are constants of this package; docs/events.md describes
// them.
//
// # What is kept
//
// A Log appends the records to segment files, each record with a checksum, and drops
// the oldest segments beyond a size or an age. Writing never waits for readers, and
// the state machine never waits for writing: what comes while the disk is busy waits
// in a queue of bounded length. Files are synced when a segment is full and before
// the store takes a snapshot, and that is enough: what a crash of the machine takes
// away is behind the last snapshot, and the store replays it.
//
// # What is missing is told
//
// A replica that was given a snapshot has not seen what happened before it, and one
// whose disk was full or too slow could not write it down. Either leaves a mark of
// which log entries are missing. A reader gets a *GapError when it comes there, and a
// *GoneError for what is older than the oldest record.
//
// The deciding halves are tell.go and those beside it (from commands to records) and
// frame.go (from records to bytes).
package events

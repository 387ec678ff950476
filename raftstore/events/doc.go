// Package events is the event log of a replica. It derives events from the commands that the state
// machine has applied, and keeps them in the replica's files.
//
// # From commands to events
//
// A Teller turns each command that was carried out, and the events of package state that
// it caused, into records for people and programs. It uses only the command and the
// states around it, so all replicas produce the same records, with the same index and
// position. The kinds are constants of this package; docs/events.md describes them.
//
// # What is kept
//
// A Log appends the records to segment files, each record with a checksum, and drops the oldest
// segments beyond a size or an age. Writing never waits for readers, and the state machine never
// waits for writing: while the disk is busy, records wait in a bounded queue. A segment is synced
// when it is full, and before the store takes a snapshot. That is enough: a crash of the machine
// loses only records after the last snapshot, and the store replays the commands from which they
// are derived.
//
// # Gaps
//
// A replica that was sent a snapshot has not seen the commands before it. A replica whose disk was
// full or too slow could not write its records. Both leave a mark with the missing log indexes. A
// reader gets a *GapError when it reaches the mark, and a *GoneError for events older than the
// oldest record.
//
// tell.go and the other tell files turn commands into records; frame.go turns records
// into bytes.
package events

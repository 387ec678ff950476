// Package journal keeps what a node agent must not forget: which leaders it has
// heard, which grants it follows, which jobs it started and how they ended.
//
// A journal is one file of records, each with a checksum, that grows at its end. A
// record is on disk before what it announces is done. Records that come while
// others are being written share the next write: a batch. When most of the file is
// about jobs that are over, it is written anew without them.
//
// Open reads the records up to the first that does not check. What follows it is
// cut off if it can be what a crash left of the last batch, which nobody was told
// to be on disk. Anything else is damage, which Open reports and does not mend.
//
// A full disk does not end a journal. It holds some space in reserve, where the file
// system can do that, so that the ends of jobs can be noted that fill the disk. When
// that is used up, what a write has left is cut off and the records wait: see Full.
// Any other error, and each of fsync, is the last thing that a journal does: what a
// file holds after it cannot be known.
//
// The deciding halves are frame.go (bytes and records) and state.go (what records
// amount to).
package journal

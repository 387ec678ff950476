// Package journal stores what a node agent must not forget: the highest leader token that it
// has seen, the grants that it follows, the jobs that it started and how they ended.
//
// A journal is one file of records, each with a checksum, that grows at its end. A record is on
// disk before the action that it announces. Records that arrive during a write share the next
// one: a batch. When most of the file is about jobs that are over, it is rewritten without them.
//
// Open reads the records up to the first invalid one. The rest is cut off if it may be the part of
// the last batch that was written before a crash; that batch was never reported as written.
// Anything else is damage, which Open reports and does not repair.
//
// A full disk does not end a journal. It reserves some space, if the file system can do that,
// so that the ends of the jobs that fill the disk can be recorded. When the reserve is used up,
// a partial write is cut off and the records wait: see Full. After any other error, and any
// error of fsync, the journal accepts no more records, because the content of the file is
// unknown.
//
// The decisions are made in frame.go (which bytes are valid records) and state.go (which state the
// records result in).
package journal

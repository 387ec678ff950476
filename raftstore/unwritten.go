package raftstore

import (
	"math"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// unwritten are the entries that a leader has yet to write to its own disk. Followers get them meanwhile, so that a
// commit takes the longer of two writes, not their sum (Ongaro, "Consensus: Bridging Theory and Practice", section
// 10.2.1). Raft takes them for stored by the leader at once. Therefore an answer of a follower is withheld from raft
// until the leader has written the same entries too: see transport.AppendEntries. Every commit needs such an answer,
// because entries wait here only where there are other voters; a change of members is written after all that wait. So
// what is committed is on the leader's disk, and it makes no difference to a leader that crashes whether its last
// entries had reached it. A replica writes them before it enters another term, so what it acknowledges as a follower
// and its votes rest on its disk. raft.Raft.Restore, which leaves a hole in the log, must not be used.
type unwritten struct {
	// write writes entries. It is not called again after an error.
	write func([]*raft.Log) error
	// batch is what is being written; nil if nothing is. A batch that could not be written stays.
	batch atomic.Pointer[batch]
}

// batch are entries that are written together. Their indexes are consecutive.
type batch struct {
	entries []*raft.Log
	// done is closed when the write has ended, with err.
	done chan struct{}
	err  error
}

// add has entries written, once those before are: raft stores together what comes meanwhile, as far as it does so. It
// returns the error of an earlier write. Only one goroutine may call it at a time.
func (u *unwritten) add(entries []*raft.Log) error {
	if err := u.awaitAll(); err != nil {
		return err
	}
	b := &batch{entries: entries, done: make(chan struct{})}
	u.batch.Store(b)
	go func() {
		defer close(b.done)
		if b.err = u.write(entries); b.err == nil {
			u.batch.Store(nil)
		}
	}()
	return nil
}

// get returns the entry at index; nil: it does not wait.
func (u *unwritten) get(index uint64) *raft.Log {
	b := u.batch.Load()
	if b == nil || index < b.first() || index-b.first() >= uint64(len(b.entries)) {
		return nil
	}
	return b.entries[index-b.first()]
}

// await waits until all entries up to index are written. It returns the error of a write that failed.
func (u *unwritten) await(index uint64) error {
	b := u.batch.Load()
	if b == nil || index < b.first() {
		return nil
	}
	<-b.done
	return b.err
}

// awaitAll waits until all entries are written that wait now.
func (u *unwritten) awaitAll() error { return u.await(math.MaxUint64) }

func (b *batch) first() uint64 { return b.entries[0].Index }

// leadsOthers reports whether the replica of r leads, and commits no entry by itself alone. r is nil until raft runs.
func leadsOthers(r *raft.Raft) bool {
	return r != nil && r.State() == raft.Leader && len(votersOf(r.GetConfiguration().Configuration())) > 1
}

package raftstore

import (
	"sync"

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

	mu      sync.Mutex
	changed *sync.Cond
	// entries have consecutive indexes. While there are any, a goroutine writes them, and writing is set.
	entries []*raft.Log
	writing bool
	err     error
}

func newUnwritten(write func([]*raft.Log) error) *unwritten {
	u := &unwritten{write: write}
	u.changed = sync.NewCond(&u.mu)
	return u
}

// add has entries written, after those that wait. It returns the error of an earlier write.
func (u *unwritten) add(entries []*raft.Log) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return u.err
	}
	u.entries = append(u.entries, entries...)
	if !u.writing {
		u.writing = true
		go u.writeAll()
	}
	return nil
}

// writeAll writes entries until none waits. Those that have come during one write share the next.
func (u *unwritten) writeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.entries) > 0 && u.err == nil {
		entries := u.entries
		u.mu.Unlock()
		err := u.write(entries)
		u.mu.Lock()
		if u.err = err; err == nil {
			u.entries = u.entries[len(entries):]
		}
		u.changed.Broadcast()
	}
	u.writing = false
}

// get returns the entry at index; nil: it does not wait.
func (u *unwritten) get(index uint64) *raft.Log {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.entries); n > 0 && index >= u.entries[0].Index && index <= u.entries[n-1].Index {
		return u.entries[index-u.entries[0].Index]
	}
	return nil
}

// await waits until all entries up to index are written. It returns the error of a write that failed.
func (u *unwritten) await(index uint64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.err == nil && len(u.entries) > 0 && u.entries[0].Index <= index {
		u.changed.Wait()
	}
	return u.err
}

// awaitAll waits until all entries are written that wait now.
func (u *unwritten) awaitAll() error {
	u.mu.Lock()
	var last uint64
	if n := len(u.entries); n > 0 {
		last = u.entries[n-1].Index
	}
	u.mu.Unlock()
	return u.await(last)
}

// leadsOthers reports whether the replica of r leads, and commits no entry by itself alone. r is nil until raft runs.
func leadsOthers(r *raft.Raft) bool {
	return r != nil && r.State() == raft.Leader && len(votersOf(r.GetConfiguration().Configuration())) > 1
}

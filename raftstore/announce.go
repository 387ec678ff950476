package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// announcer sends followers the commit index as soon as it grows. Raft itself sends it only with
// the next entry or after its commit timeout. Until then, followers do not show writes that the
// leader has acknowledged. The message is an AppendEntries request without entries, placed after an
// entry that the follower has; a leader may send one at any time. If the message is lost, raft
// sends the commit index later anyway.
type announcer struct {
	// tell sends a follower the commit index of a term and reports whether the follower accepted
	// it.
	tell func(to raft.ServerID, term, index uint64) bool
	// talks counts the calls of tell that are in progress.
	talks sync.WaitGroup

	mu sync.Mutex
	// term is the term that the fields below belong to. commit is the commit index of that term.
	term, commit uint64
	followers    map[raft.ServerID]*follower
	closed       bool
}

// follower is what the leader knows about one follower.
type follower struct {
	// has is the index up to which the follower's log matches the leader's. heard is the latest
	// commit index that the follower is known to have.
	has, heard uint64
	// listens is set while a call of tell to the follower is in progress.
	listens bool
}

func newAnnouncer(tell func(to raft.ServerID, term, index uint64) bool) *announcer {
	return &announcer{tell: tell, followers: map[raft.ServerID]*follower{}}
}

// stored records that a follower has accepted a request of a term. Its log then matches the
// leader's up to the index `has`, and it knows the commit index `heard`.
func (a *announcer) stored(id raft.ServerID, term, has, heard uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.enter(term) {
		return
	}
	f := a.followers[id]
	if f == nil {
		f = &follower{}
		a.followers[id] = f
	}
	f.has, f.heard = max(f.has, has), max(f.heard, min(heard, has))
	a.look(id, f)
}

// committed records the commit index of a term.
func (a *announcer) committed(term, index uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.enter(term) {
		return
	}
	a.commit = max(a.commit, index)
	for id, f := range a.followers {
		a.look(id, f)
	}
}

// enter forgets all terms before the given one, and reports whether the given one is the latest.
func (a *announcer) enter(term uint64) bool {
	if term > a.term {
		a.term, a.commit = term, 0
		clear(a.followers)
	}
	return term == a.term
}

// look sends a follower the commit index if the follower has the entry at that index and does not
// know yet that it is committed.
func (a *announcer) look(id raft.ServerID, f *follower) {
	if a.closed || f.listens || f.has < a.commit || f.heard >= a.commit {
		return
	}
	f.listens = true
	term, index := a.term, a.commit
	a.talks.Go(func() {
		took := a.tell(id, term, index)
		a.mu.Lock()
		defer a.mu.Unlock()
		f.listens = false
		if took && a.followers[id] == f {
			f.heard = max(f.heard, index)
			a.look(id, f)
		}
	})
}

// close waits for calls of tell in progress and prevents further ones.
func (a *announcer) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.talks.Wait()
}

// announce sends followers the current commit index.
func (s *Store) announce() {
	if current, _ := s.leadership.read(); current.Leader {
		s.announcer.committed(current.Term, s.raft.CommitIndex())
	}
}

// tellCommit sends a follower the commit index.
func (s *Store) tellCommit(to raft.ServerID, term, index uint64) bool {
	var entry raft.Log
	if err := s.log.GetLog(index, &entry); err != nil {
		// A snapshot has replaced the entry, so the follower is far behind.
		return false
	}
	address, err := s.transport.book.ServerAddr(to)
	if err != nil {
		return false
	}
	self := s.transport.EncodePeer(s.self(), raft.ServerAddress(s.cfg.Address))
	request := raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(s.self()), Addr: self},
		Term:      term, PrevLogEntry: index, PrevLogTerm: entry.Term, LeaderCommitIndex: index,
	}
	var answer raft.AppendEntriesResponse
	return s.transport.AppendEntries(to, address, &request, &answer) == nil && answer.Success
}

// commitTimeout is the delay after which raft sends followers a commit index if no other entry
// follows. Usually the announcer has sent the index earlier.
const commitTimeout = 50 * time.Millisecond

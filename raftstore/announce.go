package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// announcer tells followers at once how far the log is committed. Raft by itself says
// so with the next entry, or when its commit timeout has passed, and until then
// followers do not show what the leader has answered. What is said is one of the
// requests that any leader may send at any time: no entries, behind one that the
// follower has. Whatever gets lost, raft says again.
type announcer struct {
	// tell sends a follower the commit index, in a term, and reports whether it took it.
	tell func(to raft.ServerID, term, index uint64) bool
	// talks are under way.
	talks sync.WaitGroup

	mu sync.Mutex
	// term is of what follows; commit is how far its log is committed.
	term, commit uint64
	followers    map[raft.ServerID]*follower
	closed       bool
}

// follower is what a leader knows of one.
type follower struct {
	// has is how far its log is this leader's, heard how far it knows that to be
	// committed.
	has, heard uint64
	// listens: it is being told.
	listens bool
}

func newAnnouncer(tell func(to raft.ServerID, term, index uint64) bool) *announcer {
	return &announcer{tell: tell, followers: map[raft.ServerID]*follower{}}
}

// stored notes that a follower has taken a request of a term: its log is the leader's
// up to has, and committed up to heard.
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

// committed notes how far the log is committed in a term.
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

// enter forgets former terms, and reports whether term is no former one.
func (a *announcer) enter(term uint64) bool {
	if term > a.term {
		a.term, a.commit = term, 0
		clear(a.followers)
	}
	return term == a.term
}

// look tells a follower what it has not heard of its own log.
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

// close returns when nothing is being told any more, nor will be.
func (a *announcer) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.talks.Wait()
}

// announce lets followers know what has been committed.
func (s *Store) announce() {
	if current, _ := s.leadership.read(); current.Leader {
		s.announcer.committed(current.Term, s.raft.CommitIndex())
	}
}

// tellCommit sends a follower the commit index.
func (s *Store) tellCommit(to raft.ServerID, term, index uint64) bool {
	var entry raft.Log
	if err := s.log.GetLog(index, &entry); err != nil {
		// It has been replaced by a snapshot: the follower is far behind.
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

// commitTimeout is how soon raft tells followers that an entry is committed when no
// other follows it; the announcer has most often told them before.
const commitTimeout = 50 * time.Millisecond

package raftstore

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// silentAfter is how many requests in turn a peer leaves unanswered until it is silent.
	silentAfter = 3
	// longestHold bounds how long a request for a silent peer is held: its leader may lead no more.
	longestHold = 30 * time.Second
)

// silences are the peers that do not answer this leader. After each failure raft waits twice as long, up to
// 10 s, before it sends entries to the peer again, also if the peer is back meanwhile: one that was away for 11 s would
// get no entry for 10 s more, and the cluster could not do without another replica in that time. So what is no heartbeat
// is held until the peer answers one, and few attempts fail.
type silences struct {
	mu    sync.Mutex
	peers map[raft.ServerID]*silence
}

// silence is what a peer has left unanswered in a term of this leader.
type silence struct {
	term       uint64
	unanswered int
	// over is closed when the peer answers, or with its term.
	over chan struct{}
}

// heard says whether a peer has answered a request of a term.
func (s *silences) heard(id raft.ServerID, term uint64, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.peers[id]
	if now != nil && (answered || now.term < term) {
		close(now.over)
		delete(s.peers, id)
		now = nil
	}
	switch {
	case answered:
	case now == nil:
		s.peers[id] = &silence{term, 1, make(chan struct{})}
	case now.term == term:
		now.unanswered++
	}
}

// silent returns the silence of a peer in a term; nil: it answers, as far as is known.
func (s *silences) silent(id raft.ServerID, term uint64) *silence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.peers[id]; now != nil && now.term == term && now.unanswered >= silentAfter {
		return now
	}
	return nil
}

// await waits while a peer is silent in a term, for longestHold at most, and no longer than until ctx is done.
func (s *silences) await(ctx context.Context, id raft.ServerID, term uint64) {
	now := s.silent(id, term)
	if now == nil {
		return
	}
	late := time.NewTimer(longestHold)
	defer late.Stop()
	select {
	case <-now.over:
	case <-late.C:
	case <-ctx.Done():
	}
}

// isHeartbeat reports whether a request has what raft's heartbeats have, and raft's transport looks for.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

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

type silence struct {
	unanswered int
	// over is closed when the peer answers.
	over chan struct{}
}

// heard says whether a peer has answered a request.
func (s *silences) heard(id raft.ServerID, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.peers[id]
	switch {
	case answered && now != nil:
		close(now.over)
		delete(s.peers, id)
	case !answered && now == nil:
		s.peers[id] = &silence{1, make(chan struct{})}
	case !answered:
		now.unanswered++
	}
}

// await waits while a peer is silent, for longestHold at most, and no longer than until ctx is done.
func (s *silences) await(ctx context.Context, id raft.ServerID) {
	s.mu.Lock()
	now := s.peers[id]
	silent := now != nil && now.unanswered >= silentAfter
	s.mu.Unlock()
	if !silent {
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

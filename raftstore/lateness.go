package raftstore

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// lateness lets followers answer heartbeats late. Raft gives up the lead if no majority has answered for Timeouts.Lease
// (hashicorp/raft, checkLeaderLease). But where many goroutines or processes wait for a processor, answers of followers
// that are alive take longer, and an election would only make more work. So raft does not wait for an answer if the former
// one is no older than limit: it is given that one again. A follower that hears nothing for Timeouts.Heartbeat still stands
// for election. After a request that failed, or was refused, raft waits for the answer to the next. Reads do not depend on
// what raft is given: ReadIndex counts only what was sent after it was called.
type lateness struct {
	limit time.Duration

	mu    sync.Mutex
	peers map[raft.ServerID]*pulse
	// working are the requests in flight.
	working sync.WaitGroup
}

// pulse is what is heard of a peer in a term.
type pulse struct {
	term uint64
	// answer is that to the last request that is over, which was sent at the time; err says why there is none.
	answer raft.AppendEntriesResponse
	sent   time.Time
	err    error
	// failed is why the last heartbeat has no answer.
	failed error
	// open is closed when the request in flight is answered; nil: none is in flight.
	open chan struct{}
	// again: there was another heartbeat meanwhile. It is sent next.
	again bool
}

// beat sends a heartbeat of a term to a peer, after the one in flight if there is one, and returns the former answer, or
// the next one.
func (l *lateness) beat(id raft.ServerID, term uint64, resp *raft.AppendEntriesResponse, send func(*raft.AppendEntriesResponse) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of(id, term)
	if p.again = p.open != nil; !p.again {
		p.open = make(chan struct{})
		l.working.Go(func() { l.ask(p, send) })
	}
	if p.err != nil || !p.answer.Success || time.Since(p.sent) > l.limit {
		open := p.open
		l.mu.Unlock()
		<-open
		l.mu.Lock()
		if p.failed != nil && time.Since(p.sent) > l.limit {
			return p.failed
		}
	}
	*resp = p.answer
	return p.err
}

func (l *lateness) ask(p *pulse, send func(*raft.AppendEntriesResponse) error) {
	for again := true; again; {
		var answer raft.AppendEntriesResponse
		sent := time.Now()
		err := send(&answer)
		l.mu.Lock()
		p.hear(answer, sent, err)
		p.failed = err
		close(p.open)
		p.open = nil
		if again, p.again = p.again, false; again {
			p.open = make(chan struct{})
		}
		l.mu.Unlock()
	}
}

// follows says that a peer has answered a request with entries as a follower in the term. It may have lacked entries before them.
func (l *lateness) follows(id raft.ServerID, term uint64, sent time.Time, answer raft.AppendEntriesResponse) {
	answer.Success = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(id, term).hear(answer, sent, nil)
}

// hear notes the outcome of a request, unless one that was sent later is known.
func (p *pulse) hear(answer raft.AppendEntriesResponse, sent time.Time, err error) {
	if !sent.Before(p.sent) {
		p.answer, p.sent, p.err = answer, sent, err
	}
}

// of returns the pulse of a peer in a term. A request of an earlier term does not delay those of this one.
func (l *lateness) of(id raft.ServerID, term uint64) *pulse {
	p := l.peers[id]
	switch {
	case p != nil && p.term == term:
		return p
	case p != nil && p.term > term:
		return &pulse{term: term}
	}
	p = &pulse{term: term}
	l.peers[id] = p
	return p
}

// forget drops what is known of a peer.
func (l *lateness) forget(id raft.ServerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.peers, id)
}

package raftstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Leadership says who leads, as far as this replica knows.
type Leadership struct {
	// Leader is set when this replica leads, since Term began. Its state may
	// still lack entries of earlier terms: Barrier waits for them.
	Leader bool
	Term   uint64
	// LeaderID and LeaderAddress are empty while no leader is known.
	LeaderID, LeaderAddress string
}

// Leadership returns who leads and a channel that is closed when that changes. A
// leader that lost and won again between two calls shows another Term.
func (s *Store) Leadership() (current Leadership, changed <-chan struct{}) {
	return s.leadership.read()
}

// leadershipSignal holds the latest value.
type leadershipSignal struct {
	mu      sync.Mutex
	current Leadership
	changed chan struct{}
}

func newLeadershipSignal() *leadershipSignal {
	return &leadershipSignal{changed: make(chan struct{})}
}

func (l *leadershipSignal) read() (Leadership, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.changed
}

// set reports whether next differs from what was there, and returns that.
func (l *leadershipSignal) set(next Leadership) (before Leadership, differs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.current
	if before == next {
		return before, false
	}
	l.current = next
	close(l.changed)
	l.changed = make(chan struct{})
	return before, true
}

// watchLeadership keeps the signal up to date until raft is down. Its state does
// not tell: a request that comes while raft shuts down makes it a follower again,
// for good. Raft's
// channels only say that it is time to look: nothing is lost when they drop, and
// raft never waits for us. It does not tell of everything, so the clock looks
// too.
func (s *Store) watchLeadership() {
	observations := make(chan raft.Observation, 1)
	observer := raft.NewObserver(observations, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	s.raft.RegisterObserver(observer)
	defer s.raft.DeregisterObserver(observer)
	ticker := time.NewTicker(s.cfg.Timeouts.Heartbeat)
	defer ticker.Stop()
	for {
		s.updateLeadership(s.observeLeadership())
		select {
		case <-s.down:
			s.updateLeadership(Leadership{Term: s.raft.CurrentTerm()})
			return
		case <-observations:
		case <-s.raft.LeaderCh():
		case <-ticker.C:
		}
	}
}

func (s *Store) updateLeadership(next Leadership) {
	before, differs := s.leadership.set(next)
	switch {
	case !differs:
	case next.Leader && (!before.Leader || before.Term != next.Term):
		s.cfg.Logger.Info("leads", "replica", s.cfg.ReplicaID, "term", next.Term)
	case before.Leader && !next.Leader:
		s.cfg.Logger.Info("no longer the leader", "replica", s.cfg.ReplicaID, "term", before.Term, "leader", next.LeaderID)
	case before.LeaderID != next.LeaderID:
		s.cfg.Logger.Info("leader changed", "leader", next.LeaderID, "term", next.Term)
	}
}

// observeLeadership reads raft's view. Raft lowers the state before it raises
// the term, so a leader's term is its own if it stood still meanwhile.
func (s *Store) observeLeadership() Leadership {
	for {
		term := s.raft.CurrentTerm()
		address, id := s.raft.LeaderWithID()
		leader := s.raft.State() == raft.Leader
		if s.raft.CurrentTerm() == term {
			return Leadership{Leader: leader, Term: term, LeaderID: string(id), LeaderAddress: string(address)}
		}
	}
}

// notLeader names the leader, unless that is this replica on its way out.
func (s *Store) notLeader() *NotLeaderError {
	address, id := s.raft.LeaderWithID()
	if id == s.self() {
		return &NotLeaderError{}
	}
	return &NotLeaderError{LeaderID: string(id), Address: string(address)}
}

// BeforeTransfer has last words committed before this replica gives its leadership away,
// and before it closes as the leader: f is called while it leads still, and is to return
// soon.
func (s *Store) BeforeTransfer(f func(ctx context.Context)) { s.beforeTransfer.Store(&f) }

// sayLastWords has them committed, if there are any.
func (s *Store) sayLastWords(ctx context.Context) {
	if before := s.beforeTransfer.Load(); before != nil {
		(*before)(ctx)
	}
}

// Transfer makes the replica named to the leader, or the most up to date one
// when to is empty. It needs the leader and returns when that has stepped down.
func (s *Store) Transfer(ctx context.Context, to string) error {
	if err := s.leading(); err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	members, err := s.Members()
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	if to == s.cfg.ReplicaID {
		return nil
	}
	s.sayLastWords(ctx)
	return s.transfer(ctx, members, to)
}

// transfer makes another voter the leader.
func (s *Store) transfer(ctx context.Context, members []Member, to string) error {
	target, err := transferTarget(members, s.cfg.ReplicaID, to)
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	err = s.ask(ctx, func() raft.Future {
		if to == "" {
			return s.raft.LeadershipTransfer()
		}
		return s.raft.LeadershipTransferToServer(raft.ServerID(target.ID), raft.ServerAddress(target.Address))
	})
	if err != nil {
		return fmt.Errorf("transfer leadership to %q: %w", to, err)
	}
	return nil
}

// transferTarget returns the member named to, which must be another voter; for
// "" any.
func transferTarget(members []Member, self, to string) (Member, error) {
	var voters []string
	for _, m := range members {
		if m.ID == self || m.Suffrage != Voter {
			continue
		}
		if to == "" || m.ID == to {
			return m, nil
		}
		voters = append(voters, m.ID)
	}
	if to == "" {
		return Member{}, fmt.Errorf("replica %q is the only voter", self)
	}
	return Member{}, fmt.Errorf("replica %q is not another voter: the others are %q", to, voters)
}

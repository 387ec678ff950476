package raftstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Leadership names the leader, as far as this replica knows.
type Leadership struct {
	// Leader is set while this replica is the leader of Term. Its state may still lack entries of
	// earlier terms: Barrier waits for them.
	Leader bool
	Term   uint64
	// LeaderID and LeaderAddress are empty while no leader is known.
	LeaderID, LeaderAddress string
}

// Leadership returns the leader and a channel that is closed when the leader or the term changes.
// If a leader lost and regained leadership between two calls, Term differs.
func (s *Store) Leadership() (current Leadership, changed <-chan struct{}) {
	return s.leadership.read()
}

// leadershipSignal holds the latest Leadership.
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

// set stores `next`. It returns the previous value and whether `next` differs from it.
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

// watchLeadership keeps the signal up to date until raft is down. Raft's state alone does not show
// that it is down: a request that arrives during the shutdown leaves the state at follower. Raft's
// channels only wake this loop, so a dropped notification does no harm, and raft never waits for
// the loop. The channels do not report every change, so a ticker wakes the loop too.
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
		s.cfg.Logger.Info("became leader", "replica", s.cfg.ReplicaID, "term", next.Term)
	case before.Leader && !next.Leader:
		s.cfg.Logger.Info("no longer the leader", "replica", s.cfg.ReplicaID, "term", before.Term, "leader", next.LeaderID)
	case before.LeaderID != next.LeaderID:
		s.cfg.Logger.Info("leader changed", "leader", next.LeaderID, "term", next.Term)
	}
}

// observeLeadership reads raft's view of the leader. It reads the term before and after the other
// values, and repeats this until both terms are the same. Raft leaves the leader state before it
// raises the term, so that term is the one in which this replica led.
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

// notLeader returns the error that names the leader. If raft still names this replica, which is
// stepping down, the error names no leader.
func (s *Store) notLeader() *NotLeaderError {
	address, id := s.raft.LeaderWithID()
	if id == s.self() {
		return &NotLeaderError{}
	}
	return &NotLeaderError{LeaderID: string(id), Address: string(address)}
}

// BeforeTransfer registers f, which is called before this replica transfers leadership,
// and before it closes as the leader. f may still commit commands; it should return soon.
func (s *Store) BeforeTransfer(f func(ctx context.Context)) { s.beforeTransfer.Store(&f) }

// sayLastWords calls the function registered with BeforeTransfer, if any.
func (s *Store) sayLastWords(ctx context.Context) {
	if before := s.beforeTransfer.Load(); before != nil {
		(*before)(ctx)
	}
}

// Transfer transfers leadership to the named replica, or to the most up-to-date one if none is
// named. It must be called on the leader, and returns when this replica has stepped down. It is refused for a
// replica that does not answer: raft would accept no command until it does.
func (s *Store) Transfer(ctx context.Context, to string) error {
	if err := s.leading(); err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	if to == s.cfg.ReplicaID {
		return nil
	}
	if s.transport.silent.silent(raft.ServerID(to), s.raft.CurrentTerm()) != nil {
		return fmt.Errorf("transfer leadership: replica %q does not answer", to)
	}
	s.sayLastWords(ctx)
	return s.transfer(ctx, to)
}

// transfer transfers leadership to another voter.
func (s *Store) transfer(ctx context.Context, to string) error {
	members, err := s.Members()
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
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

// transferTarget returns the named member, which must be another voter. If none is named, it
// returns any other voter.
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

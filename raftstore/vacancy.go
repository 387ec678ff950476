package raftstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// vacancyTurns is the part of the lease by which the voters stand for election one after the other.
	// Raft refuses a vote to a candidate as long as it knows a leader, and voters that stand at once
	// divide the votes.
	vacancyTurns = 5
	// vacancyLooks is how often, within the lease, a leader's port is looked at: a process that is about to
	// end may lose its connections before its port.
	vacancyLooks = 10
)

// vacancy replaces a leader whose process has ended without waiting for Timeouts.Heartbeat. Silence alone
// may be that of a leader that is slow; but if its connection breaks and its port refuses the next one, the
// process that led is gone. Then the lease is wait enough: after that time without connections the leader would
// have stepped down even if it lived.
type vacancy struct{ *Store }

// watch runs until the store closes.
func (s vacancy) watch() {
	for {
		select {
		case <-s.transport.stream.parted:
			if leader, gone := s.leaderGone(); gone {
				s.replace(leader)
			}
		case <-s.closing:
			return
		}
	}
}

// leaderGone looks at the port of the leader, if this replica is a voter that follows one, until the port
// refuses a connection, the leader is heard or replaced, or the lease is over.
func (s vacancy) leaderGone() (leader Leadership, gone bool) {
	leader, changed := s.Leadership()
	if leader.Leader || leader.LeaderID == "" || !slices.Contains(s.voters(), s.self()) {
		return leader, false
	}
	parted := time.Now()
	for range vacancyLooks {
		if address, err := s.transport.book.ServerAddr(raft.ServerID(leader.LeaderID)); err != nil || s.refuses(address) {
			return leader, err == nil
		}
		if !s.wait(changed, s.cfg.Timeouts.Lease/vacancyLooks) || s.raft.LastContact().After(parted) {
			break
		}
	}
	return leader, false
}

// refuses reports whether nobody listens at an address. A machine that does not answer refuses nothing.
func (s vacancy) refuses(address raft.ServerAddress) bool {
	ctx, cancel := context.WithTimeout(s.transport.stream.ctx, s.cfg.Timeouts.Lease)
	defer cancel()
	conn, err := s.transport.stream.Transport.Dial(ctx, string(address))
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// replace has this replica stand for election once the lease of a leader that is gone is over, in its turn
// among the voters, and has elections follow each other sooner until there is a leader.
func (s vacancy) replace(gone Leadership) {
	t := s.cfg.Timeouts
	turn := turnOf(s.self(), raft.ServerID(gone.LeaderID), s.voters())
	if s.succeeded(gone, s.raft.LastContact().Add(t.Lease+time.Duration(turn)*t.Lease/vacancyTurns)) {
		return
	}
	s.cfg.Logger.Info("leader gone: its port refuses connections", "leader", gone.LeaderID, "term", gone.Term)
	s.hasten(t.Lease, t.Lease)
	defer s.hasten(t.Heartbeat, t.Election)
	s.succeeded(gone, time.Now().Add(2*t.Election))
}

// turnOf returns after how many of the voters self stands for election, when a leader is gone. The one whose id follows
// the leader's is first: agents ask it first.
func turnOf(self, gone raft.ServerID, voters []raft.ServerID) int {
	others := slices.DeleteFunc(slices.Sorted(slices.Values(voters)), func(id raft.ServerID) bool { return id == gone })
	next, _ := slices.BinarySearch(others, gone)
	return max(slices.Index(slices.Concat(others[next:], others[:next]), self), 0)
}

// succeeded waits until the deadline for another leader, and returns true if there is one, or the store closes.
func (s vacancy) succeeded(gone Leadership, deadline time.Time) bool {
	for {
		current, changed := s.Leadership()
		if current.LeaderID != "" && current.Term > gone.Term {
			return true
		}
		if s.wait(changed, time.Until(deadline)) {
			return false
		}
		select {
		case <-s.closing:
			return true
		default:
		}
	}
}

// hasten sets raft's timeouts. If they become shorter, a follower checks at once whether it has heard from
// its leader within the heartbeat timeout.
func (s vacancy) hasten(heartbeat, election time.Duration) {
	if err := s.settings.change(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election }); err != nil {
		s.cfg.Logger.Error("timeouts of elections not changed", "error", err)
	}
}

// wait returns true after d, or false as soon as leadership changes or the store closes.
func (s vacancy) wait(changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-changed:
	case <-s.closing:
	}
	return false
}

// settings are those of raft that change while it runs.
type settings struct {
	mu sync.Mutex
	// raft is set once raft runs.
	raft *atomic.Pointer[raft.Raft]
}

// change does nothing before raft runs.
func (s *settings) change(change func(*raft.ReloadableConfig)) error {
	r := s.raft.Load()
	if r == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := r.ReloadableConfig()
	change(&next)
	return r.ReloadConfig(next)
}

package raftstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"weir/messages/versions"
)

const (
	// settled is how long a replica must have kept up with the leader before it can get a vote.
	settled = time.Second
	// maxVoters bounds the number of voters. More voters would make every decision slower, but none
	// safer.
	maxVoters = 7
)

// Applicant is a replica that asks the leader for its suffrage.
type Applicant struct {
	ID, Address string
	// Empty is set if the applicant's folder is empty. A member with an empty folder has lost its
	// log.
	Empty bool
	// Votes is set if the applicant wants a vote.
	Votes bool
	// Can is the highest version of the cluster that its program works with; 0: 1.
	Can uint32
}

// Admit decides on an applicant and returns its suffrage from now on. It must be called on the
// leader.
//
//   - A voter that has lost its log loses its vote too: it no longer knows which votes it
//     cast, so it counts as new.
//   - A non-voter that wants a vote gets it once it has had nearly all of the log for a
//     second.
//   - A replica that is not a member stays a stranger: only an operator adds replicas.
func (s *Store) Admit(ctx context.Context, a Applicant) (is Suffrage, err error) {
	c := membership{s}
	err = c.change(ctx, "admit", a.ID, func(now raft.Configuration, index uint64) (err error) {
		is, err = c.admit(ctx, a, now, index)
		return err
	})
	return is, err
}

func (s membership) admit(ctx context.Context, a Applicant, now raft.Configuration, index uint64) (Suffrage, error) {
	self, member := find(now, a.ID)
	switch {
	case !member:
		// A leader that does not know that it has been replaced may not know this member yet.
		_, err := s.ReadIndex(ctx)
		return Stranger, err
	case max(a.Can, versions.Oldest) < s.machine.version.Load():
		return Stranger, fmt.Errorf("%w: %w", ErrMembership, versions.TooOld("replica "+a.ID, a.Can, s.machine.version.Load()))
	case a.ID == s.cfg.ReplicaID && a.Empty:
		return Stranger, fmt.Errorf("%w: a replica with this name is the current leader: give each replica its own name", ErrMembership)
	case a.Empty && self.Suffrage == raft.Voter:
		if err := s.demote(ctx, now, index, self); err != nil {
			return Voter, err
		}
		s.cfg.Logger.Warn("voter has lost its log; rejoining without a vote", "replica", a.ID, "address", a.Address)
		return NonVoter, nil
	case self.Suffrage == raft.Voter:
		return Voter, nil
	case !a.Votes || a.Empty || s.readiness(a.ID) != nil || len(votersOf(now)) >= maxVoters:
		return NonVoter, nil
	}
	// The replica knows its own address best.
	self.Address = raft.ServerAddress(cmp.Or(a.Address, string(self.Address)))
	if err := s.promote(ctx, self, index); err != nil {
		return NonVoter, err
	}
	s.cfg.Logger.Info("replica caught up; now a voter", "replica", a.ID)
	return Voter, nil
}

// AddReplica makes a replica a member without a vote. It must be called on the leader. It returns
// nil if the replica is already a member at this address.
func (s *Store) AddReplica(ctx context.Context, id, address string) error {
	c := membership{s}
	return c.change(ctx, "add", id, func(now raft.Configuration, index uint64) error {
		if id == "" || address == "" {
			return fmt.Errorf("%w: a replica needs an id and an address", ErrMembership)
		}
		for _, m := range now.Servers {
			switch {
			case string(m.ID) == id && string(m.Address) == address:
				return nil
			case string(m.ID) == id:
				return fmt.Errorf("%w: already a member at %s: remove it first", ErrMembership, m.Address)
			case string(m.Address) == address:
				return fmt.Errorf("%w: replica %q is already at %s: remove it first", ErrMembership, m.ID, address)
			}
		}
		s.transport.forget(raft.ServerID(id))
		return c.reconfigure(ctx, func() raft.Future {
			return s.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), index, 0)
		})
	})
}

// RemoveReplica ends a replica's membership. It must be called on the leader, which steps down
// first if it is to be removed. Without force it returns an error if fewer live voters than a
// majority would remain. It returns nil if the replica is not a member.
func (s *Store) RemoveReplica(ctx context.Context, id string, force bool) error {
	c := membership{s}
	return c.change(ctx, "remove", id, func(now raft.Configuration, index uint64) error {
		m, member := find(now, id)
		if !member {
			return nil
		}
		if err := c.yield(ctx, now, m, force); err != nil {
			return err
		}
		return c.reconfigure(ctx, func() raft.Future { return s.raft.RemoveServer(m.ID, index, 0) })
	})
}

// PromoteReplica gives a member a vote. It must be called on the leader. The member must have
// nearly all of the log.
func (s *Store) PromoteReplica(ctx context.Context, id string) error {
	c := membership{s}
	return c.change(ctx, "promote", id, func(now raft.Configuration, index uint64) error {
		m, member := find(now, id)
		switch {
		case !member:
			return fmt.Errorf("%w: not a member: add it first", ErrMembership)
		case m.Suffrage == raft.Voter:
			return nil
		case len(votersOf(now)) >= maxVoters:
			return fmt.Errorf("%w: there are already %d voters, the limit", ErrMembership, maxVoters)
		}
		if err := c.readiness(id); err != nil {
			return err
		}
		return c.promote(ctx, m, index)
	})
}

// DemoteReplica removes a member's vote. It must be called on the leader, which steps down first if
// it is to be demoted. Without force it returns an error if fewer live voters than a majority would
// remain.
func (s *Store) DemoteReplica(ctx context.Context, id string, force bool) error {
	c := membership{s}
	return c.change(ctx, "demote", id, func(now raft.Configuration, index uint64) error {
		m, member := find(now, id)
		switch {
		case !member:
			return fmt.Errorf("%w: not a member", ErrMembership)
		case m.Suffrage != raft.Voter:
			return nil
		}
		if err := c.yield(ctx, now, m, force); err != nil {
			return err
		}
		return c.demote(ctx, now, index, m)
	})
}

// membership decides on changes of a Store's members and makes them.
type membership struct{ *Store }

// change runs one change on the leader, with the current members and the index of the log
// entry that set them. Raft rejects a change based on this index if another change came first.
func (s membership) change(ctx context.Context, what, id string, f func(now raft.Configuration, index uint64) error) error {
	// A leader that has not committed an entry of its term may not know the latest members.
	_, err := s.beginReading(ctx)
	if err == nil {
		future := s.raft.GetConfiguration()
		if err = future.Error(); err == nil {
			err = f(future.Configuration(), future.Index())
		}
	}
	if err != nil {
		return fmt.Errorf("%s replica %q: %w", what, id, err)
	}
	return nil
}

func find(members raft.Configuration, id string) (raft.Server, bool) {
	for _, m := range members.Servers {
		if string(m.ID) == id {
			return m, true
		}
	}
	return raft.Server{}, false
}

// readiness returns why a member cannot get a vote yet, or nil.
func (s membership) readiness(id string) error {
	now := time.Now()
	follows, near := s.transport.follows(raft.ServerID(id), s.raft.CurrentTerm(), now.Add(-s.silence()), now)
	switch {
	case !follows:
		return fmt.Errorf("%w: no response to the leader for %v: is it running?", ErrMembership, s.silence())
	case near < settled:
		return fmt.Errorf("%w: still catching up with the log: retry later", ErrMembership)
	}
	return nil
}

// silence is how long a follower may fail to answer and still count as live.
func (s membership) silence() time.Duration { return s.cfg.Timeouts.silence() }

// dispensable returns an error if m is the only voter. Without force it also returns an error if
// the voters that remain without m have no live majority.
func (s membership) dispensable(now raft.Configuration, m raft.Server, force bool) error {
	if m.Suffrage != raft.Voter {
		return nil
	}
	since, term := time.Now().Add(-s.silence()), s.raft.CurrentTerm()
	var live, silent []string
	for _, other := range now.Servers {
		if other.Suffrage != raft.Voter || other.ID == m.ID {
			continue
		}
		follows, _ := s.transport.follows(other.ID, term, since, time.Now())
		if other.ID == s.self() || follows {
			live = append(live, string(other.ID))
		} else {
			silent = append(silent, string(other.ID))
		}
	}
	left := len(live) + len(silent)
	switch {
	case left == 0:
		return fmt.Errorf("%w: it is the only voter", ErrMembership)
	case len(live) > left/2 || force:
		return nil
	}
	return fmt.Errorf("%w: of the %d remaining voters only %d are up (%s), but %d are needed: "+
		"start or remove %s first, or force it", ErrMembership, left, len(live), strings.Join(live, ", "), left/2+1, strings.Join(silent, ", "))
}

// yield returns an error if m is not dispensable. If m is this replica, yield transfers leadership
// and returns a NotLeaderError that names the next leader.
func (s membership) yield(ctx context.Context, now raft.Configuration, m raft.Server, force bool) error {
	if err := s.dispensable(now, m, force); err != nil || m.ID != s.self() {
		return err
	}
	if err := s.Transfer(ctx, ""); err != nil {
		return err
	}
	return s.notLeader()
}

func (s membership) demote(ctx context.Context, now raft.Configuration, index uint64, m raft.Server) error {
	s.transport.forget(m.ID)
	if len(votersOf(now)) == 1 {
		return fmt.Errorf("%w: it is the only voter", ErrMembership)
	}
	return s.reconfigure(ctx, func() raft.Future { return s.raft.DemoteVoter(m.ID, index, 0) })
}

func (s membership) promote(ctx context.Context, m raft.Server, index uint64) error {
	return s.reconfigure(ctx, func() raft.Future { return s.raft.AddVoter(m.ID, m.Address, index, 0) })
}

// reconfigure commits a change.
func (s membership) reconfigure(ctx context.Context, change func() raft.Future) error {
	err := s.ask(ctx, change)
	if err == nil || errors.Is(err, ErrNotLeader) || errors.Is(err, ErrClosed) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w: another change may have come first: try again", ErrMembership, err)
}

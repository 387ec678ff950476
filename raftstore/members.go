package raftstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
)

// Suffrage says whether a replica is a voter, a non-voter or no member.
type Suffrage string

// The kinds of suffrage.
const (
	Voter    Suffrage = "voter"
	NonVoter Suffrage = "nonvoter"
	// Stranger is the suffrage of a replica that is no member.
	Stranger Suffrage = ""
)

// Member is a replica of the cluster.
type Member struct {
	ID, Address string
	Suffrage    Suffrage
}

// Members returns the replicas of the cluster, as far as this replica knows. A new replica knows
// none until it has been added to a cluster.
func (s *Store) Members() ([]Member, error) {
	future := s.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	var members []Member
	for _, server := range future.Configuration().Servers {
		address, err := s.transport.book.ServerAddr(server.ID)
		if err != nil {
			return nil, fmt.Errorf("members: %w", err)
		}
		m := Member{ID: string(server.ID), Address: string(address), Suffrage: NonVoter}
		if server.Suffrage == raft.Voter {
			m.Suffrage = Voter
		}
		members = append(members, m)
	}
	return members, nil
}

// doubtAfter is how long a replica without a leader trusts its own list of members. After that the
// others may have changed without it.
const doubtAfter = 10 * time.Second

// Accepts returns an error if a replica is not a member of the cluster. A replica that knows no
// members, or has heard from no leader since it started or for doubtAfter, accepts every replica:
// otherwise a leader that it does not know yet could never bring it up to date.
func (s *Store) Accepts(replica string) error {
	future := s.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return err
	}
	members := future.Configuration()
	if _, member := find(members, replica); member || len(members.Servers) == 0 {
		return nil
	}
	if _, leader := s.raft.LeaderWithID(); leader == "" && time.Since(s.raft.LastContact()) > doubtAfter {
		return nil
	}
	return fmt.Errorf("replica %q was not added, or was removed: see weir cluster add", replica)
}

func (s *Store) self() raft.ServerID { return raft.ServerID(s.cfg.ReplicaID) }

func (s *Store) voters() []raft.ServerID {
	return votersOf(s.raft.GetConfiguration().Configuration())
}

func votersOf(members raft.Configuration) (voters []raft.ServerID) {
	for _, server := range members.Servers {
		if server.Suffrage == raft.Voter {
			voters = append(voters, server.ID)
		}
	}
	return voters
}

// Stats are figures about this replica.
type Stats struct {
	Term uint64
	// Leader is set when this replica leads.
	Leader bool
	// Indexes of log entries: Last is the last one written here, Commit is the last one known to be
	// committed, Applied is the last one that changed the state here, and Snapshot is the last one
	// in the snapshot.
	Last, Commit, Applied, Snapshot uint64
	// LastContact is the time since this follower last heard from its leader; 0 on the
	// leader, -1 if it never did.
	LastContact time.Duration
	// Disk holds figures about writes to the log.
	Disk DiskStats
	// ApplyTotal is the total time spent in the state machine. SnapshotTook and RestoreTook are the
	// durations of the latest snapshot and the latest restore; 0 if there was none.
	ApplyTotal, SnapshotTook, RestoreTook time.Duration
	// QueuedCommands is the number of commands that wait for a log entry.
	QueuedCommands int
	// Batches holds figures about the entries that this replica proposed.
	Batches BatchStats
	// Tally counts events in the log since the store was opened.
	Tally Tally
}

// Stats returns figures about this replica; they are not one consistent snapshot.
func (s *Store) Stats() Stats {
	stats := Stats{
		Term:        s.raft.CurrentTerm(),
		Last:        s.raft.LastIndex(),
		Commit:      s.raft.CommitIndex(),
		Applied:     s.Applied(),
		Snapshot:    s.snapshotIndex(),
		LastContact: -1,
		Leader:      s.raft.State() == raft.Leader,
		Disk:        s.disk.stats(time.Now()),
		Batches:     s.batcher.stats(),
	}
	if last := s.raft.LastContact(); stats.Leader {
		stats.LastContact = 0
	} else if !last.IsZero() {
		stats.LastContact = time.Since(last)
	}
	s.machine.mu.RLock()
	times := s.machine.times
	stats.Tally = s.machine.tally.clone()
	s.machine.mu.RUnlock()
	stats.ApplyTotal, stats.SnapshotTook, stats.RestoreTook = times.apply, times.snapshot, times.restore
	stats.QueuedCommands = s.batcher.queue.waiting()
	return stats
}

// snapshotIndex reads the index from raft's statistics, which are text only.
func (s *Store) snapshotIndex() uint64 {
	index, err := strconv.ParseUint(s.raft.Stats()["last_snapshot_index"], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("raft's last_snapshot_index: %v", err))
	}
	return index
}

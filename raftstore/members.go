package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
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

// Accepts returns an error if a replica is not a member of the cluster, as far as this one knows.
//
// The members are those in the newest configuration in the log or the snapshot, from the start on.
// They are always accepted. Others are accepted in two cases only:
//   - This replica has no configuration. It has no state either, and a leader has to bring both.
//   - It doubts: it has had no leader for doubtAfter, counted from its start at the earliest. While
//     it was down, all others may have been replaced, and only their leader, which is not in its
//     list, knows where it is and can bring it up to date. To refuse the leader for good would lock
//     an honest replica out; to accept it at once would let removed replicas in at each start.
//
// Doubt ends with the first word of a leader; identity.Credentials.Review then cuts the connections
// that it let in. A replica that was removed wins no vote by it: raft refuses votes and pre-votes of
// candidates that are not in the voter's configuration, before it looks at their term. It deposes no
// leader: neither the leader nor a replica that follows one is in doubt. And it cannot be elected by
// replicas that still list it: each change of members was committed by a majority that overlaps
// with every majority of the members before, and those voters have a longer log. What doubt leaves
// open is a stolen certificate whose thief speaks for a leader: see docs/security.md.
func (s *Store) Accepts(replica string) error {
	future := s.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return err
	}
	members := future.Configuration()
	if _, member := find(members, replica); member || len(members.Servers) == 0 {
		return nil
	}
	heard := s.raft.LastContact()
	if heard.Before(s.opened) {
		heard = s.opened
	}
	if _, leader := s.raft.LeaderWithID(); leader == "" && time.Since(heard) > s.cfg.doubtAfter {
		return nil
	}
	return NotMember(replica)
}

// NotMember returns the error for a replica that is not accepted.
func NotMember(replica string) error {
	return fmt.Errorf("replica %q was not added, or was removed: see weir cluster add", replica)
}

// MembersOnDisk returns the ids of the members in a replica's folder, before a store is opened in it:
// those of the newest configuration in its log or snapshot. It returns none for a folder that has no
// configuration.
func MembersOnDisk(dir string) ([]string, error) {
	path := filepath.Join(dir, logFile)
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	if err := checkRoots(path); err != nil {
		return nil, err
	}
	newest, _, err := listSnapshots(filepath.Join(dir, snapshotsFolder))
	if err != nil {
		return nil, err
	}
	var meta raft.SnapshotMeta
	if newest != "" {
		if meta, err = checkSnapshotMeta(filepath.Join(dir, snapshotsFolder, newest)); err != nil {
			return nil, damaged(dir, fmt.Errorf("snapshot %s: %w", newest, err))
		}
	}
	members := meta.Configuration
	var opened error
	err = guard(func() error {
		var bolt *raftboltdb.BoltStore
		bolt, opened = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: openTimeout}})
		if opened != nil {
			return nil
		}
		found, err := configurationAfter(meta.Index, bolt)
		if found != nil {
			members = *found
		}
		return errors.Join(err, bolt.Close())
	})
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("%s: %w", logFile, err))
	}
	var ids []string
	for _, server := range members.Servers {
		ids = append(ids, string(server.ID))
	}
	return ids, explainBolt(path, opened)
}

// configurationAfter returns the newest configuration in a log after an index, nil if there is none.
func configurationAfter(index uint64, log raft.LogStore) (*raft.Configuration, error) {
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	for at := last; at >= max(first, index+1); at-- {
		var entry raft.Log
		if err := log.GetLog(at, &entry); err != nil {
			return nil, fmt.Errorf("log entry %d: %w", at, err)
		}
		if entry.Type != raft.LogConfiguration {
			continue
		}
		if err := unseal(&entry); err != nil {
			return nil, err
		}
		found := raft.DecodeConfiguration(entry.Data)
		return &found, nil
	}
	return nil, nil
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
	// Indexes of log entries: Last is the last one stored here, Commit is the last one known to be
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
	// Checks holds figures about comparisons of states.
	Checks CheckStats
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
		Checks:      s.machine.checks.read(),
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

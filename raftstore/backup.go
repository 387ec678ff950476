package raftstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/raftstore/state"
)

// restoredTerms is added to the term of a backup when it is restored. The original cluster may have
// continued after the backup, and the tokens of the restored one must be newer than all that agents
// have seen.
const restoredTerms = 1 << 20

// BackupInfo says what a backup holds.
type BackupInfo struct {
	// Cluster is the id of the cluster that was backed up.
	Cluster string
	// Version is the version of the cluster.
	Version uint32
	// Index and Term are those of the last log entry in the backup.
	Index, Term uint64
	// Operations counts the operations, in progress or finished. Allocations counts the running
	// jobs.
	Operations, Allocations int
	Bytes                   int64
}

// Backup writes this replica's state to w as it is now. To include every write acknowledged so far,
// call ReadIndex and WaitApplied first. The format is that of snapshots: a stream of records with
// checksums.
func (s *Store) Backup(w io.Writer) error {
	if err := s.machine.freeze().write(w); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

// CheckBackup reads a backup to its end and returns what it holds. It returns an error if any byte
// differs from what was written.
func CheckBackup(r io.Reader) (BackupInfo, error) {
	restored, read, err := readSnapshot(r)
	if err != nil {
		return BackupInfo{}, fmt.Errorf("backup: %w", err)
	}
	return infoOf(restored, read), nil
}

func infoOf(s *state.State, read snapshotInfo) BackupInfo {
	counts := s.Counts()
	return BackupInfo{
		Cluster: s.ClusterID(), Version: s.Version(), Index: read.index, Term: s.Term().GetTerm(), Operations: counts.Operations, Allocations: counts.Allocations, Bytes: read.bytes,
	}
}

// Founder is the first replica of a cluster that is restored from a backup.
type Founder struct {
	// Dir is the replica's folder, which must not have been used.
	Dir string
	// Cluster is the new cluster's id.
	Cluster string
	// ID and Address are the id and the address of the replica, as in Config.
	ID, Address string
}

// Restore fills a folder from a backup. A replica that is started on the folder is the only voter
// of a cluster with that state. Further replicas are added as to any cluster.
func Restore(backup io.Reader, f Founder) (BackupInfo, error) {
	info, err := restore(backup, f)
	if err != nil {
		return info, fmt.Errorf("restore into %s: %w", f.Dir, err)
	}
	return info, nil
}

func restore(backup io.Reader, f Founder) (info BackupInfo, err error) {
	if f.Dir == "" || f.Cluster == "" || f.ID == "" || f.Address == "" {
		return info, errors.New("folder, cluster, replica and address must be given")
	}
	if entries, err := os.ReadDir(f.Dir); err == nil && len(entries) > 0 {
		return info, fmt.Errorf("%w: the folder is not empty: give another folder, or move this one away", ErrDisk)
	}
	restored, read, err := readSnapshot(backup)
	if err != nil {
		return info, err
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return info, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	// The identity is written last, so that an interrupted restore does not leave a usable folder.
	log := newRaftLogger(Default().Logger)
	store, err := openSnapshots(f.Dir, log)
	if err != nil {
		return info, err
	}
	info = infoOf(restored, read)
	members := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(f.ID), Address: raft.ServerAddress(f.Address)}}}
	records := func(yield func(*statepb.Record, []byte) error) error {
		return restored.Freeze().Encoded(func(record *statepb.Record, encoded []byte) error {
			if record.GetHeader() != nil {
				record = proto.CloneOf(record)
				record.GetHeader().ClusterId = f.Cluster
			}
			return yield(record, encoded)
		})
	}
	term := restored.Term().GetTerm() + restoredTerms
	_, nowhere := raft.NewInmemTransport("")
	sink, err := store.Create(raft.SnapshotVersionMax, read.index, term, members, read.index, nowhere)
	if err != nil {
		return info, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	if _, err := writeSnapshot(sink, records); err != nil {
		return info, errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return info, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return info, found(f, term, restored.Version())
}

// found writes the log of a restored replica, which holds the term but no entries, and its
// identity.
func found(f Founder, term uint64, version uint32) error {
	bolt, err := openBolt(filepath.Join(f.Dir, logFile))
	if err != nil {
		return err
	}
	d := &disk{files: bolt, dir: f.Dir, stall: time.Minute, fatal: func(error) {}}
	if err := errors.Join(d.SetUint64(keyTerm, term), bolt.Close()); err != nil {
		return err
	}
	id := Identity{Format: version, Cluster: f.Cluster, Replica: f.ID, Disk: rand.Text(), Began: true}
	return id.write(f.Dir)
}

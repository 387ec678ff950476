package raftstore

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"weir/messages/versions"
	"weir/raftstore/recordlog"
)

const identityFile = "replica.json"

// Identity says which replica a folder belongs to. It is written before anything else.
type Identity struct {
	// Format is the version of the cluster in which the folder was last written. A folder of a
	// version that this program does not read is refused.
	Format uint32 `json:"format"`
	// Cluster and Replica are the ids of the cluster and the replica that own the folder.
	Cluster string `json:"cluster"`
	Replica string `json:"replica"`
	// Disk is a random id given to the folder when it is created. If a replica's folder has a
	// different id than before, the replica has lost its log.
	Disk string `json:"disk"`
	// Founders are the replicas that founded the cluster, this one among them, as
	// id=address separated by commas; empty if this replica joined later.
	Founders string `json:"founders,omitempty"`
	// Began is set once the replica has been part of a cluster that had a leader.
	Began bool `json:"began,omitempty"`
	// Voter is set once a leader has confirmed that the replica is a voter.
	Voter bool `json:"voter,omitempty"`
	// Demoted is set when an operator has removed the replica's vote. The replica then does not ask
	// for a vote by itself.
	Demoted bool `json:"demoted,omitempty"`
	// Diverged is the index at which the replica's state was not that of the majority; 0: none. The folder
	// is refused.
	Diverged uint64 `json:"diverged,omitempty"`
	// Backed is the last index at which the log had another hash than the replica's state, which was that of
	// the majority; 0: none. What the log says of states up to there is not believed when it is read again.
	Backed uint64 `json:"backed,omitempty"`
}

// ReadIdentity returns the identity of a folder. The error is fs.ErrNotExist if the folder was
// never used.
func ReadIdentity(dir string) (Identity, error) { return readIdentity(dir, versions.Program) }

// readIdentity is ReadIdentity for a program that reads some versions.
func readIdentity(dir string, program versions.Range) (Identity, error) {
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Identity{}, fmt.Errorf("%w: %w", ErrDisk, err)
		}
		return Identity{}, fmt.Errorf("%w: read %s: %w", ErrDisk, path, err)
	}
	text, sum, _ := bytes.Cut(data, []byte("\n"))
	if want := identitySum(text); string(sum) != want {
		return Identity{}, damaged(dir, fmt.Errorf("%s: stored checksum %q, computed %q", identityFile, sum, want))
	}
	var id Identity
	if err := json.Unmarshal(text, &id); err != nil {
		return Identity{}, damaged(dir, fmt.Errorf("%s: %w", identityFile, err))
	}
	if err := program.Check(id.Format); err != nil {
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrUnreadable, dir, err)
	}
	if id.Diverged != 0 {
		return Identity{}, divergedAt(dir, id.Diverged, "")
	}
	return id, nil
}

func identitySum(text []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(text, castagnoli))
}

// claim gives the folder to the replica if it belongs to none yet, and refuses it if it
// belongs to another.
func claim(dir, cluster, replica string) (Identity, error) {
	id, err := ReadIdentity(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, logFile)); err == nil {
			return Identity{}, damaged(dir, fmt.Errorf("%s is missing, but %s exists", identityFile, logFile))
		}
		id = Identity{Format: versions.Oldest, Cluster: cluster, Replica: replica, Disk: rand.Text()}
		return id, id.write(dir)
	case err != nil:
		return Identity{}, err
	case id.Cluster != cluster:
		return Identity{}, fmt.Errorf("%w: %s belongs to cluster %q, but this replica to %q: use the right folder, or an empty one",
			ErrForeign, dir, id.Cluster, cluster)
	case id.Replica != replica:
		return Identity{}, fmt.Errorf("%w: %s belongs to replica %q, not to %q: each replica has its own folder",
			ErrForeign, dir, id.Replica, replica)
	}
	return id, nil
}

// write replaces the identity on disk; a crash leaves the old one or the new one.
func (id Identity) write(dir string) error {
	text, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	path := filepath.Join(dir, identityFile)
	if err := replaceFile(path, append(append(text, '\n'), identitySum(text)...)); err != nil {
		return fmt.Errorf("%w: write %s: %w", ErrDisk, path, err)
	}
	return nil
}

// replaceFile replaces a file atomically; a crash leaves the old one or the new one.
func replaceFile(path string, data []byte) error {
	file, err := recordlog.Create(path+tmpSuffix, data)
	if err != nil {
		return err
	}
	return errors.Join(recordlog.Commit(file, path), file.Close())
}

// Identity returns the identity of the store's folder.
func (s *Store) Identity() Identity { return s.disk.identity() }

// keepVersion notes on disk that the folder has data of a version of the cluster, so that programs that
// cannot read them refuse it.
func (d *disk) keepVersion(version uint32) {
	if err := d.remember(func(id *Identity) { id.Format = max(id.Format, version) }); err != nil {
		d.fail(err)
	}
}

// Remember changes the identity on disk. Callers set Began, Voter and Demoted, which must
// outlive the process.
func (s *Store) Remember(change func(*Identity)) error {
	return s.disk.remember(change)
}

func (d *disk) identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id
}

func (d *disk) remember(change func(*Identity)) error {
	d.remembering.Lock()
	defer d.remembering.Unlock()
	before := d.identity()
	next := before
	change(&next)
	if next == before {
		return nil
	}
	if err := d.write(identityFile, nil, func() error { return next.write(d.dir) }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.id = next
	return nil
}

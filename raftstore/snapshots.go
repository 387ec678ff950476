package raftstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"
)

const (
	snapshotMeta = "meta.json"
	// snapshotMetaSum holds the checksum of snapshotMeta, which lists the members.
	snapshotMetaSum = "meta.sum"
)

// snapshots is raft's store of snapshots, with a checksum over what raft leaves
// without one.
type snapshots struct {
	*raft.FileSnapshotStore
	dir string
	// newest is the last log index of the newest snapshot when the store was opened.
	newest uint64
}

// openSnapshots opens the snapshots in a replica's folder. What an interrupted
// snapshot left is removed. Raft passes over a snapshot that it cannot read, as if
// it had never been; here that is an error.
func openSnapshots(dir string, log *raftLogger) (*snapshots, error) {
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, 1, log)
	if err != nil {
		return nil, fmt.Errorf("%w: snapshots in %s: %w", ErrDisk, dir, err)
	}
	s := &snapshots{FileSnapshotStore: store, dir: filepath.Join(dir, "snapshots")}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	for _, entry := range entries {
		path := filepath.Join(s.dir, entry.Name())
		if strings.HasSuffix(entry.Name(), tmpSuffix) {
			if err := os.RemoveAll(path); err != nil {
				return nil, fmt.Errorf("%w: remove unfinished snapshot: %w", ErrDisk, err)
			}
			continue
		}
		if !entry.IsDir() {
			continue
		}
		index, err := checkSnapshotMeta(path)
		if err != nil {
			return nil, damaged(dir, fmt.Errorf("snapshot %s: %w", entry.Name(), err))
		}
		s.newest = max(s.newest, index)
	}
	// Every one is opened, so that its content's checksum is checked too.
	metas, err := s.List()
	if err != nil {
		return nil, fmt.Errorf("%w: snapshots in %s: %w", ErrDisk, dir, err)
	}
	for _, meta := range metas {
		_, content, err := s.Open(meta.ID)
		if err != nil {
			return nil, damaged(dir, fmt.Errorf("snapshot %s: %w", meta.ID, err))
		}
		if err := content.Close(); err != nil {
			return nil, fmt.Errorf("%w: snapshot %s: %w", ErrDisk, meta.ID, err)
		}
	}
	return s, nil
}

// checkSnapshotMeta returns the last log index of the snapshot at path.
func checkSnapshotMeta(path string) (uint64, error) {
	data, err := os.ReadFile(filepath.Join(path, snapshotMeta))
	if err != nil {
		return 0, err
	}
	sum, err := os.ReadFile(filepath.Join(path, snapshotMetaSum))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A crash came between the two.
	case err != nil:
		return 0, err
	case string(sum) != metaSum(data):
		return 0, fmt.Errorf("%s: checksum %q, computed %q", snapshotMeta, sum, metaSum(data))
	}
	var meta raft.SnapshotMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return 0, fmt.Errorf("%s: %w", snapshotMeta, err)
	}
	return meta.Index, nil
}

func metaSum(meta []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(meta, castagnoli)) }

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, members, membersIndex, t)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, dir: s.dir}, nil
}

// snapshotSink adds the checksum once the snapshot is whole.
type snapshotSink struct {
	raft.SnapshotSink
	dir string
	// over is set once the sink is closed or cancelled: raft may do either again.
	over bool
}

// Close implements io.Closer.
func (s *snapshotSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil || s.over {
		return err
	}
	s.over = true
	path := filepath.Join(s.dir, s.ID())
	meta, err := os.ReadFile(filepath.Join(path, snapshotMeta))
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(path, snapshotMetaSum), []byte(metaSum(meta)))
}

// Cancel implements raft.SnapshotSink.
func (s *snapshotSink) Cancel() error {
	s.over = true
	return s.SnapshotSink.Cancel()
}

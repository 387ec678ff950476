package raftstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// snapshotsFolder is raft's name for the folder of snapshots in a replica's folder.
	snapshotsFolder = "snapshots"
	snapshotMeta    = "meta.json"
	// snapshotContent is raft's name for the file of the content.
	snapshotContent = "state.bin"
	// snapshotMetaSum names the file with the checksum of snapshotMeta, which also lists the
	// members.
	snapshotMetaSum = "meta.sum"
	// syncBytes is how much of a snapshot the disk may have yet to take. The log would wait for it.
	syncBytes = 4 << 20
)

// snapshots is raft's store of snapshots, plus a checksum over the metadata, for which
// raft has none.
type snapshots struct {
	*raft.FileSnapshotStore
	dir string
	// newest is the last log index of the newest snapshot when the store was opened.
	newest uint64
	// last is the newest snapshot now.
	last atomic.Pointer[raft.SnapshotMeta]
}

// openSnapshots opens the snapshots in a replica's folder. It removes the remains of an
// interrupted snapshot, and snapshots that the newest one has replaced. Raft silently
// skips a snapshot that it cannot read; here that is an error.
func openSnapshots(dir string, log hclog.Logger) (*snapshots, error) {
	store, err := raft.NewFileSnapshotStoreWithLogger(dir, 1, log)
	if err != nil {
		return nil, fmt.Errorf("%w: snapshots in %s: %w", ErrDisk, dir, err)
	}
	s := &snapshots{FileSnapshotStore: store, dir: filepath.Join(dir, snapshotsFolder)}
	newest, err := s.sweep()
	if err != nil || newest == "" {
		return s, err
	}
	meta, err := checkSnapshotMeta(filepath.Join(s.dir, newest))
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("snapshot %s: %w", newest, err))
	}
	s.newest = meta.Index
	s.last.Store(&meta)
	// Open checks the content's checksum too.
	_, content, err := s.Open(newest)
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("snapshot %s: %w", newest, err))
	}
	if err := content.Close(); err != nil {
		return nil, fmt.Errorf("%w: snapshot %s: %w", ErrDisk, newest, err)
	}
	return s, nil
}

// sweep removes all snapshots except the newest complete one, and returns the name of that one, or
// "" if none is complete. An older snapshot is present if a crash interrupted its removal.
func (s *snapshots) sweep() (newest string, err error) {
	newest, rest, err := listSnapshots(s.dir)
	if err != nil {
		return "", err
	}
	for _, name := range rest {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			return "", fmt.Errorf("%w: remove the remains of a snapshot: %w", ErrDisk, err)
		}
	}
	return newest, nil
}

// listSnapshots returns the name of the newest complete snapshot in a folder, "" if there is none, and
// the names of what else is there. A folder that does not exist has none.
func listSnapshots(dir string) (newest string, rest []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case !entry.IsDir():
		case strings.HasSuffix(name, tmpSuffix):
			rest = append(rest, name)
		case newest == "" || slices.Compare(snapshotOrder(name), snapshotOrder(newest)) > 0:
			if newest != "" {
				rest = append(rest, newest)
			}
			newest = name
		default:
			rest = append(rest, name)
		}
	}
	return newest, rest, nil
}

// snapshotOrder returns the term, index and time in a snapshot's name.
func snapshotOrder(name string) []uint64 {
	order := make([]uint64, 3)
	for i, part := range strings.SplitN(name, "-", len(order)) {
		// A name of another form gets zeros, so it sorts first.
		order[i], _ = strconv.ParseUint(part, 10, 64)
	}
	return order
}

// checkSnapshotMeta returns what is known of the snapshot at path.
func checkSnapshotMeta(path string) (meta raft.SnapshotMeta, err error) {
	data, err := os.ReadFile(filepath.Join(path, snapshotMeta))
	if err != nil {
		return meta, err
	}
	sum, err := os.ReadFile(filepath.Join(path, snapshotMetaSum))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A crash interrupted Close between the two files.
	case err != nil:
		return meta, err
	case string(sum) != metaSum(data):
		return meta, fmt.Errorf("%s: stored checksum %q, computed %q", snapshotMeta, sum, metaSum(data))
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return meta, fmt.Errorf("%s: %w", snapshotMeta, err)
	}
	return meta, nil
}

func metaSum(meta []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(meta, castagnoli)) }

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, members, membersIndex, t)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, of: s, meta: raft.SnapshotMeta{ID: sink.ID(), Index: index, Term: term}}, nil
}

// snapshotSink adds the checksum once the snapshot is complete.
type snapshotSink struct {
	raft.SnapshotSink
	of   *snapshots
	meta raft.SnapshotMeta
	// unsynced counts the bytes since the last sync.
	unsynced int
	// over is set once the sink is closed or cancelled; raft may do either again.
	over bool
}

// Write implements io.Writer.
func (s *snapshotSink) Write(data []byte) (int, error) {
	n, err := s.SnapshotSink.Write(data)
	s.meta.Size += int64(n)
	if s.unsynced += n; err == nil && s.unsynced >= syncBytes {
		s.unsynced = 0
		err = syncFile(filepath.Join(s.of.dir, s.ID()+tmpSuffix, snapshotContent))
	}
	return n, err
}

// syncFile has the disk take what has been written of a file.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Close implements io.Closer.
func (s *snapshotSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil || s.over {
		return err
	}
	s.over = true
	s.of.last.Store(&s.meta)
	path := filepath.Join(s.of.dir, s.ID())
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

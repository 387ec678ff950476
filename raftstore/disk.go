package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

const (
	logFile = "raft.db"
	// openTimeout is how long to wait for another process to release the folder.
	openTimeout = 2 * time.Second
	tmpSuffix   = ".tmp"
)

// keyTerm is raft's name for the latest term that it has seen.
var keyTerm = []byte("CurrentTerm")

// files stores the log and the vote.
type files interface {
	raft.LogStore
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Close() error
}

// disk is a replica's folder: log, vote and snapshots. A write that fails or hangs is fatal,
// and nothing is written after it, because a failed fsync leaves the disk in an unknown state.
type disk struct {
	files
	snapshots *snapshots
	dir       string
	stall     time.Duration
	fatal     func(error)
	// bootstrapped is set if this replica founded the cluster at this start.
	bootstrapped bool

	// doubt counts writes of log entries that have taken more than half of the stall limit. Other
	// writes do not count, because only writes of log entries keep a leader from serving its
	// followers.
	doubt doubt

	// term is the term on disk.
	term currentTerm

	// sizes has what the entries took when the disk was opened.
	sizes logSizes

	// remembering serializes changes of the identity.
	remembering sync.Mutex

	mu     sync.Mutex
	id     Identity
	failed error
	writes DiskStats
	recent recentWorst
}

// DiskStats are figures about writes to the log, fsync included.
type DiskStats struct {
	Writes       uint64
	Total, Worst time.Duration
	// RecentWorst is the longest write of the last one to two minutes.
	RecentWorst time.Duration
	// Doubts counts writes of log entries that took half of the stall limit or longer.
	Doubts uint64
}

var (
	_ raft.LogStore    = (*disk)(nil)
	_ raft.StableStore = (*disk)(nil)
)

// openDisk opens the folder of cfg's replica, or creates it. It refuses a folder that belongs to
// another replica or is incomplete.
func openDisk(cfg Config, log hclog.Logger) (*disk, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	id, err := claim(cfg.Dir, cfg.ClusterID, cfg.ReplicaID)
	if err != nil {
		return nil, err
	}
	if err := makeLog(cfg.Dir, id); err != nil {
		return nil, err
	}
	bolt, err := openBolt(filepath.Join(cfg.Dir, logFile))
	if err != nil {
		return nil, err
	}
	var f files = bolt
	if cfg.spoil != nil {
		f = cfg.spoil(f)
	}
	d := &disk{files: f, dir: cfg.Dir, id: id, stall: cfg.DiskStall, fatal: cfg.Fatal}
	d.doubt.tell = func() {
		cfg.Logger.Warn("slow write to the log; if this replica leads, it stops heartbeating until the write ends",
			"dir", cfg.Dir, "took", cfg.DiskStall/2, "limit", cfg.DiskStall)
	}
	if err = errors.Join(sweepLogs(cfg.Dir), d.check(log)); err == nil {
		d.bootstrapped, err = d.bootstrap(cfg.InitialPeers)
	}
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return d, nil
}

// readTerm reads the stored term, or 0 if none is stored.
func (d *disk) readTerm() error {
	term, err := d.GetUint64(keyTerm)
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return fmt.Errorf("read term: %w", err)
	}
	d.term.value.Store(term)
	return nil
}

func (d *disk) check(log hclog.Logger) error {
	// Only one snapshot is kept: falling back to an older one could lose entries that
	// this replica has acknowledged.
	var err error
	if d.snapshots, err = openSnapshots(d.dir, log); err != nil {
		return err
	}
	var first uint64
	if err := guard(func() (err error) { first, err = d.FirstIndex(); return err }); err != nil {
		return damaged(d.dir, fmt.Errorf("first log index: %w", err))
	}
	if first > d.snapshots.newest+1 {
		return damaged(d.dir, fmt.Errorf("the log starts at index %d, but the snapshot ends at index %d", first, d.snapshots.newest))
	}
	if err := d.checkLog(first); err != nil {
		return err
	}
	return d.readTerm()
}

// checksum returns the checksum of a log entry's data, sent and stored with it.
func checksum(data []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli))
}

func verify(entry *raft.Log) error {
	if entry.Type != raft.LogCommand {
		return nil
	}
	if want := checksum(entry.Data); string(entry.Extensions) != string(want) {
		return fmt.Errorf("%w: log entry at index %d of term %d, %d bytes: stored checksum %x, computed %x",
			ErrDamaged, entry.Index, entry.Term, len(entry.Data), entry.Extensions, want)
	}
	return nil
}

// GetLog implements raft.LogStore. A damaged entry is fatal: it must not reach the state
// or another replica.
func (d *disk) GetLog(index uint64, entry *raft.Log) error {
	if err := d.files.GetLog(index, entry); err != nil {
		return err
	}
	if err := errors.Join(unseal(entry), verify(entry)); err != nil {
		err = damaged(d.dir, err)
		d.fail(err)
		return err
	}
	return nil
}

// StoreLog implements raft.LogStore.
func (d *disk) StoreLog(entry *raft.Log) error { return d.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (d *disk) StoreLogs(entries []*raft.Log) error {
	sealed := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		if err := verify(entry); err != nil {
			d.fail(err)
			return err
		}
		sealed[i] = seal(entry)
	}
	return d.write("log entries", &d.doubt, func() error { return d.files.StoreLogs(sealed) })
}

// DeleteRange implements raft.LogStore.
func (d *disk) DeleteRange(first, last uint64) error {
	return d.write("truncated log", nil, func() error { return d.files.DeleteRange(first, last) })
}

// Set implements raft.StableStore.
func (d *disk) Set(key, value []byte) error {
	sealed := binary.BigEndian.AppendUint32(slices.Clone(value), valueSum(key, value))
	return d.write(string(key), nil, func() error { return d.files.Set(key, sealed) })
}

// SetUint64 implements raft.StableStore.
func (d *disk) SetUint64(key []byte, value uint64) error {
	write := func() error { return d.Set(key, binary.BigEndian.AppendUint64(nil, value)) }
	if bytes.Equal(key, keyTerm) {
		return d.term.set(value, write)
	}
	return write()
}

// write calls f to change the files. f must end within the stall limit. If the parameter doubt is
// not nil, it counts the write once half of that limit has passed.
func (d *disk) write(what string, doubt *doubt, f func() error) error {
	if err := d.failure(); err != nil {
		return err
	}
	begin := time.Now()
	watchdog := watch(d.stall, doubt, func() {
		d.fail(fmt.Errorf("%w: write %s: no answer within %v (disk stall limit)", ErrDisk, what, d.stall))
	})
	err := f()
	watchdog.stop()
	took := time.Since(begin)
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: free space on the disk of %s, then restart the replica: no acknowledged write is lost", err, d.dir)
		}
		err = fmt.Errorf("%w: write %s: %w", ErrDisk, what, err)
		d.fail(err)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes.Writes++
	d.writes.Total += took
	d.writes.Worst = max(d.writes.Worst, took)
	d.recent.add(begin.Add(took), took)
	return d.failed
}

// fail stops all writing, and passes the first error to d.fatal.
func (d *disk) fail(err error) {
	d.mu.Lock()
	first := d.failed == nil
	if first {
		d.failed = err
	}
	d.mu.Unlock()
	if first {
		d.fatal(err)
	}
}

// doubtful reports whether a write of log entries takes so long that the disk may hang, or a write has failed.
func (d *disk) doubtful() bool { return d.doubt.now.Load() > 0 || d.failure() != nil }

func (d *disk) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *disk) stats(now time.Time) DiskStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	stats := d.writes
	stats.RecentWorst = d.recent.worst(now)
	stats.Doubts = d.doubt.total.Load()
	return stats
}

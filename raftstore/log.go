package raftstore

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// logCacheEntries is how many log entries are kept in memory at most.
const logCacheEntries = 512

// entryBytes is what an entry takes on disk besides its data: its fields and its place in the tree.
const entryBytes = 128

// logStore is the log as raft uses it. It keeps the latest entries in memory, and knows how many
// bytes entries take, so that snapshots and what they leave of the log go by bytes. It writes the
// commands of a leader while followers get them.
//
// bbolt never shortens its file: pages of entries that are removed are used again. So the file has
// the size of the longest log that there was, which the limits in Config bound.
type logStore struct {
	stores
	unwritten unwritten
	// parallel, if set, reports whether this replica leads others.
	parallel func() bool
	// cacheBytes bounds the entries in memory.
	cacheBytes int64
	// stored, if set, is called after entries were stored.
	stored func()

	mu sync.RWMutex
	// cached are the latest entries; their indexes are consecutive.
	cached      []*raft.Log
	cachedBytes int64
	sizes       logSizes
}

// stores hold the log and raft's other values.
type stores interface {
	raft.LogStore
	raft.StableStore
}

// newLogStore returns the log in `on`. The entries there take sizes.
func newLogStore(on stores, sizes logSizes, cacheBytes int64) *logStore {
	return &logStore{stores: on, unwritten: unwritten{write: on.StoreLogs}, cacheBytes: cacheBytes, sizes: sizes}
}

// sizeOf returns what an entry takes, in bytes.
func sizeOf(entry *raft.Log) int64 { return int64(len(entry.Data)+len(entry.Extensions)) + entryBytes }

// GetLog implements raft.LogStore.
func (l *logStore) GetLog(index uint64, entry *raft.Log) error {
	l.mu.RLock()
	if n := len(l.cached); n > 0 && index >= l.cached[0].Index && index <= l.cached[n-1].Index {
		*entry = *l.cached[index-l.cached[0].Index]
		l.mu.RUnlock()
		return nil
	}
	l.mu.RUnlock()
	if waiting := l.unwritten.get(index); waiting != nil {
		*entry = *waiting
		return nil
	}
	return l.stores.GetLog(index, entry)
}

// FirstIndex implements raft.LogStore.
func (l *logStore) FirstIndex() (uint64, error) {
	if err := l.unwritten.awaitAll(); err != nil {
		return 0, err
	}
	return l.stores.FirstIndex()
}

// LastIndex implements raft.LogStore.
func (l *logStore) LastIndex() (uint64, error) {
	if err := l.unwritten.awaitAll(); err != nil {
		return 0, err
	}
	return l.stores.LastIndex()
}

// StoreLog implements raft.LogStore.
func (l *logStore) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore. Raft calls it in the goroutine that changes its state.
func (l *logStore) StoreLogs(entries []*raft.Log) error {
	if err := l.store(entries); err != nil {
		return err
	}
	l.mu.Lock()
	for _, entry := range entries {
		l.sizes.add(entry.Index, sizeOf(entry))
		l.cache(entry)
	}
	l.mu.Unlock()
	if l.stored != nil {
		l.stored()
	}
	return nil
}

// store writes entries, or has them written. Those of raft itself are written at once: a change of
// members may leave the leader alone. So are damaged ones: the write fails, and nobody gets them.
func (l *logStore) store(entries []*raft.Log) error {
	atOnce := func(entry *raft.Log) bool { return entry.Type != raft.LogCommand || verify(entry) != nil }
	if l.parallel != nil && l.parallel() && !slices.ContainsFunc(entries, atOnce) {
		return l.unwritten.add(entries)
	}
	if err := l.unwritten.awaitAll(); err != nil {
		return err
	}
	return l.stores.StoreLogs(entries)
}

// SetUint64 implements raft.StableStore. A new term begins with all entries of the old one.
func (l *logStore) SetUint64(key []byte, value uint64) error {
	if err := l.unwritten.awaitAll(); err != nil {
		return err
	}
	return l.stores.SetUint64(key, value)
}

// cache adds an entry to those in memory, and forgets the oldest beyond the limits.
func (l *logStore) cache(entry *raft.Log) {
	if n := len(l.cached); n > 0 && entry.Index != l.cached[n-1].Index+1 {
		l.cached, l.cachedBytes = nil, 0
	}
	l.cached = append(l.cached, entry)
	l.cachedBytes += sizeOf(entry)
	for len(l.cached) > logCacheEntries || l.cachedBytes > l.cacheBytes {
		l.cachedBytes -= sizeOf(l.cached[0])
		l.cached[0] = nil
		if l.cached = l.cached[1:]; len(l.cached) == 0 {
			break
		}
	}
}

// DeleteRange implements raft.LogStore. Raft removes from either end.
func (l *logStore) DeleteRange(first, last uint64) error {
	// As raft's own cache does it: what is removed must not be read, even if removing it fails.
	l.mu.Lock()
	l.cached, l.cachedBytes = nil, 0
	l.sizes.remove(first, last)
	l.mu.Unlock()
	if err := l.unwritten.awaitAll(); err != nil {
		return err
	}
	return l.stores.DeleteRange(first, last)
}

// since returns how many bytes the entries after index take.
func (l *logStore) since(index uint64) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sizes.since(index)
}

// within returns how many indexes at the end of the log have entries of at most limit bytes
// together; at most count, and at least 1: raft reckons with a log that is not empty.
func (l *logStore) within(limit int64, count uint64) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sizes.within(limit, count)
}

// logSizes holds what the entries of a log take. Indexes may be missing: a replica that received a
// snapshot goes on after it, and keeps entries from before.
type logSizes struct {
	// entries are in the order of their indexes. Each has the bytes of all entries up to and
	// including it since the replica started.
	entries []logEnd
}

type logEnd struct {
	index uint64
	// size is what the entry takes; upTo is the sum.
	size, upTo int64
}

func (s *logSizes) add(index uint64, size int64) {
	// Raft removes entries before it replaces them.
	var upTo int64
	if n := len(s.entries); n > 0 {
		upTo = s.entries[n-1].upTo
	}
	s.entries = append(s.entries, logEnd{index, size, upTo + size})
}

// after returns the place of the first entry after index.
func (s *logSizes) after(index uint64) int {
	i, _ := slices.BinarySearchFunc(s.entries, index, func(e logEnd, index uint64) int {
		if e.index <= index {
			return -1
		}
		return 1
	})
	return i
}

func (s *logSizes) remove(first, last uint64) {
	if first == 0 || len(s.entries) == 0 || first <= s.entries[0].index {
		s.entries = s.entries[s.after(last):]
		return
	}
	s.entries = s.entries[:s.after(first-1)]
}

func (s *logSizes) since(index uint64) int64 {
	i, n := s.after(index), len(s.entries)
	if i == n {
		return 0
	}
	return s.entries[n-1].upTo - s.entries[i].upTo + s.entries[i].size
}

func (s *logSizes) within(limit int64, count uint64) uint64 {
	n := len(s.entries)
	if n == 0 {
		return count
	}
	last := s.entries[n-1]
	i, _ := slices.BinarySearchFunc(s.entries, last.upTo-limit, func(e logEnd, least int64) int {
		if e.upTo-e.size < least {
			return -1
		}
		return 1
	})
	if i == n {
		return 1
	}
	return min(count, last.index-s.entries[i].index+1)
}

// tellLong fills `long` if the log is due for a snapshot because of its bytes.
func (s *Store) tellLong(long chan<- struct{}) {
	if !s.isLong() {
		return
	}
	select {
	case long <- struct{}{}:
	default:
	}
}

// isLong reports whether more bytes of log follow the last snapshot than may.
func (s *Store) isLong() bool {
	var index uint64
	limit := s.cfg.SnapshotLogBytes
	if last := s.disk.snapshots.last.Load(); last != nil {
		index, limit = last.Index, max(limit, last.Size)
	}
	return s.log.since(index) > limit
}

// watchLog takes a snapshot whenever the log is too long in bytes. After an error it waits before it
// tries again; raft takes snapshots too, by the number of entries.
func (s *Store) watchLog(long <-chan struct{}) {
	for {
		select {
		case <-long:
		case <-s.closing:
			return
		}
		if !s.isLong() {
			continue
		}
		err := s.raft.Snapshot().Error()
		if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) || errors.Is(err, raft.ErrRaftShutdown) {
			continue
		}
		s.cfg.Logger.Warn("no snapshot of a long log; retrying", "error", err)
		select {
		case <-time.After(s.cfg.SnapshotInterval):
		case <-s.closing:
			return
		}
	}
}

// trail sets how many entries raft keeps when it cuts the log behind a snapshot.
func (s *Store) trail() {
	if err := s.settings.change(func(c *raft.ReloadableConfig) { c.TrailingLogs = s.log.within(s.cfg.TrailingBytes, s.cfg.TrailingLogs) }); err != nil {
		s.cfg.Logger.Error("the log behind snapshots is not cut by bytes", "error", err)
	}
}

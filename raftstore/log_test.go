package raftstore

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestLogStore is a property: whatever is stored and removed, entries are those of the disk, those in
// memory take no more than the limit, and bytes are counted as one would by reading all entries.
func TestLogStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 4000
		files := raft.NewInmemStore()
		log := newLogStore(files, logSizes{}, limit)
		next := uint64(1)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			first, last := indexes(t, files)
			step := rapid.IntRange(0, 4).Draw(t, "step")
			if last == 0 {
				step = 0
			}
			switch step {
			case 0, 1, 2:
				if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
					next += 5 // a replica has received a snapshot
				}
				var entries []*raft.Log
				for range rapid.IntRange(1, 5).Draw(t, "entries") {
					entries = append(entries, &raft.Log{Index: next, Data: make([]byte, rapid.IntRange(0, 1500).Draw(t, "bytes"))})
					next++
				}
				must(t, log.StoreLogs(entries))
			case 3:
				must(t, log.DeleteRange(first, rapid.Uint64Range(first, last).Draw(t, "to")))
			case 4:
				from := rapid.Uint64Range(first, last).Draw(t, "from")
				must(t, log.DeleteRange(from, last))
				next = from
			}
			compareLog(t, log, files)
		}
	})
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func indexes(t *rapid.T, files *raft.InmemStore) (first, last uint64) {
	first, err := files.FirstIndex()
	must(t, err)
	last, err = files.LastIndex()
	must(t, err)
	return first, last
}

// compareLog compares a log with the files below it.
func compareLog(t *rapid.T, log *logStore, files *raft.InmemStore) {
	first, last := indexes(t, files)
	var kept int64
	for _, entry := range log.cached {
		kept += sizeOf(entry)
	}
	if kept > log.cacheBytes || kept != log.cachedBytes {
		t.Fatalf("%d bytes in memory, counted are %d, the limit is %d", kept, log.cachedBytes, log.cacheBytes)
	}
	var since int64
	within := uint64(1)
	for index := last; index >= first && index > 0; index-- {
		if got := log.since(index); got != since {
			t.Fatalf("%d bytes since %d, want %d", got, index, since)
		}
		var want, got raft.Log
		wantErr, err := files.GetLog(index, &want), log.GetLog(index, &got)
		if (wantErr == nil) != (err == nil) || want.Index != got.Index || len(want.Data) != len(got.Data) {
			t.Fatalf("entry %d: got %v, %v, want %v, %v", index, got.Index, err, want.Index, wantErr)
		}
		if wantErr == nil {
			since += sizeOf(&want)
			if since <= 3000 {
				within = last - index + 1
			}
		}
	}
	if got := log.since(0); got != since {
		t.Fatalf("%d bytes in all, want %d", got, since)
	}
	// The store in memory knows nothing of gaps: its last index may lack an entry.
	if got := log.within(3000, math.MaxUint64); files.GetLog(last, new(raft.Log)) == nil && got != within {
		t.Fatalf("%d entries within 3000 bytes, want %d (log %d to %d)", got, within, first, last)
	}
	if got := log.within(1<<40, 2); got > 2 {
		t.Fatalf("%d entries, at most 2 were asked for", got)
	}
}

// bulky returns a command of some bytes that changes nothing: it is refused.
func bulky(tb testing.TB, bytes int) *commandpb.Command {
	return mustCommand(tb, &commandpb.StartOperation{OperationId: "none", User: "ann", Spec: &statepb.OperationSpec{
		Tasks: []*statepb.TaskSpec{{Shell: strings.Repeat("x", bytes)}},
	}})
}

// waitUntil waits for a condition.
func waitUntil(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for late := time.Now().Add(patience); !holds(); {
		if time.Now().After(late) {
			tb.Fatalf("waited for: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestLogIsTrailedByBytes (T4) has large entries long before a snapshot is due by their number: each
// replica takes snapshots by bytes, and the log that is left, in memory and on disk, stays small
// while many times as much is written.
func TestLogIsTrailedByBytes(t *testing.T) {
	const before, behind, entry = 256 << 10, 64 << 10, 30 << 10
	c := startCluster(t, 3, func(cfg *Config) {
		cfg.SnapshotInterval = time.Hour
		cfg.SnapshotLogBytes, cfg.TrailingBytes, cfg.LogCacheBytes = before, behind, behind
	})
	written := 0
	for round := range 12 {
		for range 10 {
			c.propose(bulky(t, entry))
			written += entry
		}
		index := c.leader().raft.AppliedIndex()
		for id, s := range c.stores {
			waitUntil(t, fmt.Sprintf("%s has applied %d and takes a snapshot", id, index), func() bool {
				return s.raft.AppliedIndex() >= index && !s.isLong()
			})
			if round == 0 {
				continue
			}
			if s.disk.snapshots.last.Load() == nil || s.log.cachedBytes > behind {
				t.Fatalf("%s: %d bytes of log in memory, snapshot %v", id, s.log.cachedBytes, s.disk.snapshots.last.Load())
			}
		}
	}
	for id, s := range c.stores {
		// The log is cut after the snapshot is complete.
		waitUntil(t, id+" cuts its log", func() bool { return s.log.since(0) <= before+behind+2*entry })
		info, err := os.Stat(filepath.Join(s.cfg.Dir, logFile))
		if err != nil || info.Size() > int64(written)/2 {
			t.Errorf("%s: the file of the log has %d bytes after %d, %v", id, info.Size(), written, err)
		}
	}
	c.wantEqual()
	// What is left of the log is counted again after a restart.
	id := c.follower().cfg.ReplicaID
	kept := c.stores[id].log.since(0)
	c.stop(id)
	if got := c.start(id).log.since(0); got < kept || got > kept+entry {
		t.Errorf("%d bytes of log after a restart, %d before", got, kept)
	}
	c.wantEqual()
}

// TestSnapshotsAreNoSmallerThanTheLog has a snapshot larger than the limit: the next one waits for as
// many bytes of log.
func TestSnapshotsAreNoSmallerThanTheLog(t *testing.T) {
	s := &Store{cfg: Config{SnapshotLogBytes: 1000}, disk: &disk{snapshots: &snapshots{}}, log: newLogStore(raft.NewInmemStore(), logSizes{}, 1)}
	long := make(chan struct{}, 1)
	s.log.stored = func() { s.tellLong(long) }
	s.disk.snapshots.last.Store(&raft.SnapshotMeta{Index: 1, Size: 5000})
	for index := range uint64(8) {
		if err := s.log.StoreLog(&raft.Log{Index: index + 1, Data: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
		// Entries 2 to 5 take 4*1128 bytes.
		if got, want := len(long) > 0, index+1 > 5; got != want {
			t.Errorf("after entry %d: due for a snapshot: %t", index+1, got)
		}
	}
}

// TestRequestsToFollowersAreCut has requests of one entry at most: a replica that lags gets all.
func TestRequestsToFollowersAreCut(t *testing.T) {
	entries := make([]*raft.Log, 5)
	for i := range entries {
		entries[i] = &raft.Log{Index: uint64(i + 1), Data: make([]byte, 1000)}
	}
	for limit, want := range map[int64]int{1: 1, 1000 + entryBytes: 1, 2*(1000+entryBytes) - 1: 1, 2 * (1000 + entryBytes): 2, 1 << 20: 5} {
		if got := len(firstBytes(entries, limit)); got != want {
			t.Errorf("limit %d: %d entries, want %d", limit, got, want)
		}
	}
	if got := firstBytes(nil, 1); len(got) != 0 {
		t.Errorf("a heartbeat has %d entries", len(got))
	}
	c := startCluster(t, 3, func(cfg *Config) { cfg.AppendBytes = 1 })
	lagging := c.follower().cfg.ReplicaID
	c.wires[lagging].setCut(true)
	for range 40 {
		c.propose(bulky(t, 1000))
	}
	c.wires[lagging].setCut(false)
	c.wantEqual()
}

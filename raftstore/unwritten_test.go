package raftstore

import (
	"errors"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// turns are stores that write entries when they are let.
type turns struct {
	*raft.InmemStore
	let chan struct{}
	err error
}

func newTurns() *turns {
	return &turns{InmemStore: raft.NewInmemStore(), let: make(chan struct{}, 1000)}
}

func (w *turns) StoreLogs(entries []*raft.Log) error {
	<-w.let
	if w.err != nil {
		return w.err
	}
	return w.InmemStore.StoreLogs(entries)
}

// has reports whether the entries from first to last are written.
func (w *turns) has(first, last uint64) bool {
	for index := first; index <= last; index++ {
		if w.GetLog(index, new(raft.Log)) != nil {
			return false
		}
	}
	return true
}

// commandEntry is an entry of raft's log with a command of some bytes.
func commandEntry(index uint64, bytes int) *raft.Log {
	data := make([]byte, bytes)
	return &raft.Log{Index: index, Type: raft.LogCommand, Data: data, Extensions: checksum(data)}
}

// TestWritingInParallel is a property: what a leader has stored can be read at once, whoever waits for an entry waits
// until it is written, and all is written before raft's own entries and those that are damaged, before the log is cut,
// and before another term.
func TestWritingInParallel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := newTurns()
		log := newLogStore(files, logSizes{}, 2000)
		log.parallel = func() bool { return true }
		var waiting sync.WaitGroup
		defer waiting.Wait()
		let := func(n int) {
			for range n {
				files.let <- struct{}{}
			}
		}
		defer let(100)
		first, next := uint64(1), uint64(1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			step := rapid.SampledFrom([]string{"add", "add", "add", "let", "await", "term", "noop", "damaged", "cut"}).Draw(t, "step")
			switch step {
			case "add":
				// It waits for those before.
				if !files.has(first, next-1) && len(files.let) == 0 {
					let(1)
				}
				var entries []*raft.Log
				for range rapid.IntRange(1, 3).Draw(t, "entries") {
					entries = append(entries, commandEntry(next, rapid.IntRange(0, 1500).Draw(t, "bytes")))
					next++
				}
				must(t, log.StoreLogs(entries))
			case "let":
				let(1)
			case "await":
				index := rapid.Uint64Range(first-1, next-1).Draw(t, "awaited")
				from := first
				waiting.Go(func() {
					if err := log.unwritten.await(index); err != nil || !files.has(max(from, index), index) {
						t.Errorf("waited for entry %d, %v, which is not written", index, err)
					}
				})
			default:
				let(100)
				switch step {
				case "term":
					must(t, log.SetUint64(keyTerm, next))
				case "noop":
					must(t, log.StoreLog(&raft.Log{Index: next, Type: raft.LogNoop}))
					next++
				case "damaged":
					must(t, log.StoreLog(&raft.Log{Index: next, Type: raft.LogCommand, Extensions: []byte("x")}))
					next++
				case "cut":
					waiting.Wait()
					to := rapid.Uint64Range(first-1, next-1).Draw(t, "to")
					must(t, log.DeleteRange(first, to))
					first = to + 1
				}
				if !files.has(first, next-1) {
					t.Fatalf("%s: entries %d to %d are not all written", step, first, next-1)
				}
				for len(files.let) > 0 {
					<-files.let
				}
			}
			for index := uint64(1); index < next; index++ {
				var entry raft.Log
				if index < first {
					if err := log.GetLog(index, &entry); err == nil {
						t.Fatalf("entry %d has been cut, and is there", index)
					}
					continue
				}
				if err := log.GetLog(index, &entry); err != nil || entry.Index != index {
					t.Fatalf("entry %d: %+v, %v", index, entry, err)
				}
			}
		}
	})
}

// TestFailedWrite refuses whatever comes after it, and those who wait hear of it.
func TestFailedWrite(t *testing.T) {
	errBroken := errors.New("broken")
	files := newTurns()
	files.err = errBroken
	log := newLogStore(files, logSizes{}, 0)
	log.parallel = func() bool { return true }
	if err := log.StoreLog(commandEntry(1, 0)); err != nil {
		t.Fatal(err)
	}
	close(files.let)
	for name, err := range map[string]error{
		"await":   log.unwritten.await(1),
		"a term":  log.SetUint64(keyTerm, 2),
		"a noop":  log.StoreLog(&raft.Log{Index: 2, Type: raft.LogNoop}),
		"entries": log.StoreLog(commandEntry(2, 0)),
		"a cut":   log.DeleteRange(1, 1),
	} {
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := log.LastIndex(); !errors.Is(err, errBroken) {
		t.Errorf("last index: got %v", err)
	}
	if _, err := log.FirstIndex(); !errors.Is(err, errBroken) {
		t.Errorf("first index: got %v", err)
	}
}

// TestLeaderWritesLast has followers write an entry before their leader: it is committed when the leader has it too.
func TestLeaderWritesLast(t *testing.T) {
	disks := map[string]*frozenFiles{}
	c := startCluster(t, 3, func(cfg *Config) {
		disk := newFrozenFiles()
		disks[cfg.ReplicaID] = disk
		cfg.spoil = func(f files) files { disk.files = f; return disk }
	})
	c.propose(createPool(t, testPool))
	leader := c.leader()
	// The first read of a term writes an entry.
	if _, err := leader.ReadIndex(testContext(t)); err != nil {
		t.Fatal(err)
	}
	before := leader.raft.LastIndex()
	done, thaw := proposeFrozen(t, leader, disks[leader.cfg.ReplicaID])
	waitUntil(t, "the followers have the entry, and have answered", func() bool {
		leader.transport.mu.Lock()
		defer leader.transport.mu.Unlock()
		for _, s := range c.running() {
			if s.raft.LastIndex() <= before || s != leader && leader.transport.acks[s.self()].last <= before {
				return false
			}
		}
		return true
	})
	// A whole round of heartbeats later it is still not committed.
	if read, err := leader.ReadIndex(testContext(t)); err != nil || read > before || leader.raft.CommitIndex() > before {
		t.Errorf("a read of index %d, %v; committed are %d, before entry %d is written", read, err, leader.raft.CommitIndex(), before+1)
	}
	thaw()
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.wantEqual()
}

// TestOnlyVoterWritesFirst has a replica write an entry that it commits by itself.
func TestOnlyVoterWritesFirst(t *testing.T) {
	disk := newFrozenFiles()
	c := startCluster(t, 1, func(cfg *Config) { cfg.spoil = func(f files) files { disk.files = f; return disk } })
	c.propose(createPool(t, testPool))
	leader := c.leader()
	before := leader.raft.LastIndex()
	done, thaw := proposeFrozen(t, leader, disk)
	if leader.log.unwritten.get(before+1) != nil {
		t.Error("raft takes an entry for stored that is not written")
	}
	thaw()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// proposeFrozen freezes a leader's disk, and returns when it writes a command there. done has the outcome.
func proposeFrozen(t *testing.T, leader *Store, disk *frozenFiles) (done <-chan error, thaw func()) {
	thaw = sync.OnceFunc(func() { close(disk.thaw) })
	t.Cleanup(thaw)
	hangs := make(chan struct{})
	disk.hangs = sync.OnceFunc(func() { close(hangs) })
	disk.frozen.Store(true)
	outcome := make(chan error, 1)
	go func() {
		_, err := leader.Propose(testContext(t), setWeight(t, 5))
		outcome <- err
	}()
	<-hangs
	return outcome, thaw
}

package raftstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"weir/messages/commandpb"
)

// TestCallersShareEntries shows that many callers need few log entries.
func TestCallersShareEntries(t *testing.T) {
	c := startCluster(t, 1, nil)
	created := c.propose(createPool(t, testPool))[0].GetIndex()
	const callers, calls = 64, 20
	s := c.leader()
	proposeInParallel(t, s, callers, callers*calls)
	entries := s.Applied() - created
	t.Logf("%d commands of %d callers in %d log entries: %.1f each", callers*calls, callers, entries, callers*calls/float64(entries))
	if entries >= callers*calls {
		t.Errorf("%d commands took %d log entries", callers*calls, entries)
	}
}

// proposeInParallel sends n commands through so many callers.
func proposeInParallel(tb testing.TB, s *Store, callers, n int) {
	tb.Helper()
	ctx := testContext(tb)
	cmd := setWeight(tb, 5)
	var sent atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for sent.Add(1) <= int64(n) {
				results, err := s.Propose(ctx, cmd)
				if err != nil || results[0].GetRefusal() != nil {
					tb.Errorf("got %v, %v", results, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkCommits measures commands that are committed and applied, by how many a
// caller hands in at once.
func BenchmarkCommits(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		c := startCluster(b, replicas, nil)
		c.propose(createPool(b, testPool))
		s, ctx := c.leader(), testContext(b)
		for _, size := range []int{1, 16, 256} {
			batch := make([]*commandpb.Command, size)
			for i := range batch {
				batch[i] = setWeight(b, i+1)
			}
			b.Run(fmt.Sprintf("replicas=%d/batch=%d", replicas, size), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Propose(ctx, batch...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

// BenchmarkPropose measures the commands of callers that each wait for one, and how
// many of them share a log entry.
func BenchmarkPropose(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		c := startCluster(b, replicas, nil)
		c.propose(createPool(b, testPool))
		s := c.leader()
		for _, callers := range []int{1, 8, 512} {
			b.Run(fmt.Sprintf("replicas=%d/callers=%d", replicas, callers), func(b *testing.B) {
				before := s.Stats().Applied
				b.ResetTimer()
				proposeInParallel(b, s, callers, b.N)
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				b.ReportMetric(float64(b.N)/float64(s.Stats().Applied-before), "commands/entry")
			})
		}
	}
}

// slowDisk takes diskTime longer to write entries.
type slowDisk struct{ files }

const diskTime = 2 * time.Millisecond

func (d slowDisk) StoreLogs(entries []*raft.Log) error {
	time.Sleep(diskTime)
	return d.files.StoreLogs(entries)
}

// BenchmarkSlowDisks measures commands one after the other where each replica has a disk of its own that is slow.
func BenchmarkSlowDisks(b *testing.B) {
	c := startCluster(b, 3, func(cfg *Config) { cfg.spoil = func(f files) files { return slowDisk{f} } })
	c.propose(createPool(b, testPool))
	s, ctx, weight := c.leader(), testContext(b), setWeight(b, 5)
	for b.Loop() {
		if _, err := s.Propose(ctx, weight); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(diskTime)/float64(b.N), "disk-times")
}

// BenchmarkReadIndex measures reads that see every write before them.
func BenchmarkReadIndex(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		c := startCluster(b, replicas, nil)
		s, ctx := c.leader(), testContext(b)
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.ReadIndex(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package raftstore

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/command"
	"weir/raftstore/state/statetest"
)

// mustBeDone fails if a command or a part of it was refused.
func mustBeDone(tb testing.TB, results ...*commandpb.Result) {
	tb.Helper()
	for _, result := range results {
		if r := result.GetRefusal(); r != nil {
			tb.Fatal(r)
		}
		for _, g := range result.GetStartAllocations().GetGrants() {
			if g.GetRefusal() != "" {
				tb.Fatal(g)
			}
		}
		for _, j := range result.GetFinishJobs().GetJobs() {
			if j.GetRefusal() != "" {
				tb.Fatal(j)
			}
		}
	}
}

// turnover ends the jobs of a crowd one after another, and starts another for each.
type turnover struct {
	statetest.Crowd
	term  uint64
	jobs  int
	carry func(...proto.Message)
}

func (t *turnover) next() {
	first := t.jobs
	t.jobs++
	start := t.Grant(t.Running + first)
	t.carry(
		&commandpb.FinishJobs{OperationId: statetest.Operation(first % t.Operations()), Epoch: 1, Jobs: []*statepb.FinishedJob{statetest.End(statetest.Job(first), first)}},
		&commandpb.StartAllocations{Term: t.term, Grants: []*commandpb.Grant{start}},
	)
}

// during turns jobs over, one after another, while the function work runs. It returns the longest that one took.
func (t *turnover) during(work func()) (worst time.Duration) {
	var over atomic.Bool
	go func() {
		work()
		over.Store(true)
	}()
	for last := time.Now(); !over.Load(); {
		t.next()
		now := time.Now()
		worst, last = max(worst, now.Sub(last)), now
	}
	return worst
}

// liveHeap is what live objects take, in MiB.
func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// median returns the median of durations, in milliseconds.
func median(all []time.Duration) float64 {
	slices.Sort(all)
	return milli(all[len(all)/2])
}

// BenchmarkSnapshot shows what snapshots and backups cost a replica with 10,000 nodes, 300,000 running jobs and
// 1,000,000 archived ones: for how long it copies the state, and the state machine stops at most between two entries, with
// a snapshot and without, on the median of b.N; for how long commands wait that a replica commits one after another; how long it takes to write a snapshot
// or a backup, and to start from one; and the memory of the state.
func BenchmarkSnapshot(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(200)) // that of replicas
	crowd := statetest.Crowd{Nodes: 10_000, Running: 300_000, Archived: 1_000_000}
	cluster := newCluster(b, 1, nil)
	backup := filepath.Join(b.TempDir(), "backup")
	b.Run("machine", func(b *testing.B) {
		before := liveHeap()
		cfg := Default()
		cfg.Logger = slog.New(slog.DiscardHandler)
		m, index := newMachine(cfg), uint64(0)
		for msg := range crowd.Commands() {
			index++
			result, _ := m.state.Apply(index, msg)
			mustBeDone(b, result)
		}
		live, alone := liveHeap()-before, writeTo(b, backup, m.freeze().write)
		turn := turnover{Crowd: crowd, term: statetest.Term, carry: func(messages ...proto.Message) {
			index++
			entry := &raft.Log{Index: index, Type: raft.LogCommand, Data: []byte{0}}
			decoded := make([]command.Decoded, len(messages))
			for i, msg := range messages {
				decoded[i].Message = msg
			}
			m.proposed.add(entry.Data, decoded)
			mustBeDone(b, fsm{m, nil}.Apply(entry).([]*commandpb.Result)...)
		}}
		var with, without, copying []time.Duration
		for b.Loop() {
			var took, copied time.Duration
			with = append(with, turn.during(func() {
				began := time.Now()
				frozen := m.freeze()
				copied = time.Since(began)
				took = writeTo(b, backup+".2", frozen.write)
			}))
			copying = append(copying, copied)
			without = append(without, turn.during(func() { time.Sleep(took) }))
		}
		b.ReportMetric(median(copying), "copy-ms")
		b.ReportMetric(median(with), "pause-ms")
		b.ReportMetric(median(without), "pause-without-ms")
		info, err := os.Stat(backup)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
		b.ReportMetric(live, "live-MiB")
		b.ReportMetric(alone.Seconds(), "write-s")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("replica", func(b *testing.B) {
		source, err := os.Open(backup)
		if err != nil {
			b.Fatal(err)
		}
		peer := cluster.peers[0]
		began := time.Now()
		_, err = Restore(source, Founder{Dir: filepath.Join(cluster.dir, peer.ID), Cluster: "test", ID: peer.ID, Address: peer.Address})
		if err = errors.Join(err, source.Close()); err != nil {
			b.Fatal(err)
		}
		restored := time.Since(began)
		began = time.Now()
		s := cluster.start(peer.ID)
		opened := time.Since(began)
		term := cluster.leader().Stats().Term
		mustBeDone(b, cluster.propose(mustCommand(b, &commandpb.BeginTerm{Term: term, Replica: peer.ID}))...)
		turn := turnover{Crowd: crowd, term: term, carry: func(messages ...proto.Message) {
			commands := make([]*commandpb.Command, len(messages))
			for i, msg := range messages {
				commands[i] = mustCommand(b, msg)
			}
			results, err := s.Propose(b.Context(), commands...)
			if err != nil {
				b.Fatal(err)
			}
			mustBeDone(b, results...)
		}}
		for b.Loop() {
			var took time.Duration
			b.ReportMetric(milli(turn.during(func() {
				began := time.Now()
				if err := s.raft.Snapshot().Error(); err != nil {
					b.Error(err)
				}
				took = time.Since(began)
			})), "snapshot-wait-ms")
			b.ReportMetric(took.Seconds(), "snapshot-s")
			b.ReportMetric(milli(turn.during(func() { time.Sleep(took) })), "wait-without-ms")
			b.ReportMetric(milli(turn.during(func() { took = writeTo(b, backup+".2", s.Backup) })), "backup-wait-ms")
			b.ReportMetric(took.Seconds(), "backup-s")
		}
		b.ReportMetric(restored.Seconds(), "restore-s")
		b.ReportMetric(opened.Seconds(), "start-s")
		b.ReportMetric(0, "ns/op")
	})
}

// writeTo writes a file, and syncs it.
func writeTo(b *testing.B, path string, write func(io.Writer) error) time.Duration {
	b.Helper()
	began := time.Now()
	file, err := os.Create(path)
	if err != nil {
		b.Error(err)
		return 0
	}
	if err := errors.Join(write(file), file.Sync(), file.Close()); err != nil {
		b.Error(err)
	}
	return time.Since(began)
}

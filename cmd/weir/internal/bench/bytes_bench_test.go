package bench

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/actors/agent/runner/proctree"
	"weir/api/client"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
	"weir/messages/bounds"
)

// bytesFor is how long BenchmarkBytes has one user start and abort.
var bytesFor = flag.Duration("bytes-for", 20*time.Second, "how long BenchmarkBytes starts and aborts operations")

// BenchmarkBytes is T4: one user starts and aborts operations with the largest specifications as fast
// as it can. What each replica takes, in memory, in its folder and in its snapshot, is printed beside
// the bounds of docs/running.md; so is how long another user's submissions take before and meanwhile.
func BenchmarkBytes(b *testing.B) {
	const quota, atOnce, quiet = 256 << 20, 4, 50
	c := startClusterOf(b, "default", 3, 1)
	bob := c.as(b, "bob")
	for b.Loop() {
		var before times
		for range quiet {
			before = append(before, submission(b, bob))
		}
		memory := c.watchMemory(b)
		ctx, cancel := context.WithTimeout(b.Context(), *bytesFor)
		ann := c.as(b, "ann")
		spec := largestSpec(b)
		var started atomic.Int64
		var flood sync.WaitGroup
		for range atOnce {
			flood.Go(func() {
				for ctx.Err() == nil {
					if startAndAbort(ctx, ann, spec) == nil {
						started.Add(1)
					}
				}
			})
		}
		var meanwhile times
		for ctx.Err() == nil || len(meanwhile) == 0 {
			meanwhile = append(meanwhile, submission(b, bob))
		}
		cancel()
		flood.Wait()
		tell("T4: one user starts and aborts %d operations of 1 MiB in %v; submissions of another: p50 %.1f ms, p99 %.1f ms, before p50 %.1f ms, p99 %.1f ms",
			started.Load(), *bytesFor, millis(meanwhile.percentile(50)), millis(meanwhile.percentile(99)), millis(before.percentile(50)), millis(before.percentile(99)))
		b.ReportMetric(float64(started.Load()), "starts")
		b.ReportMetric(millis(meanwhile.percentile(99))/millis(before.percentile(99)), "p99-ratio")
		// Two users have a quota each.
		c.tellBytes(b, 2*quota, memory())
	}
}

// watchMemory looks at the memory of the replicas each second until the result is called, which returns
// the most that each had, by name.
func (c *cluster) watchMemory(b *testing.B) func() map[string]int64 {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	peaks := make(chan map[string]int64, 1)
	replicas := c.replicas(b)
	go func() {
		most := map[string]int64{}
		for ctx.Err() == nil {
			for _, m := range replicas {
				if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Process.Pid)); err == nil {
					if sizes, err := proctree.Sizes(data); err == nil {
						most[m.Name] = max(most[m.Name], sizes["RssAnon"])
					}
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		peaks <- most
	}()
	return func() map[string]int64 {
		stop()
		return <-peaks
	}
}

// replicas are those of the cluster.
func (c *cluster) replicas(b *testing.B) []devcluster.Member {
	b.Helper()
	record, err := devcluster.Load(c.Dir)
	if err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(record.Members, func(m devcluster.Member) bool { return m.Kind != devcluster.Replica })
}

// as returns the client of a user.
func (c *cluster) as(b *testing.B, user string) *client.Client {
	b.Helper()
	settings, err := c.As(user)
	if err != nil {
		b.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		b.Fatal(err)
	}
	made, err := client.New(config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(made.Close)
	return made
}

// largestSpec is a specification of nearly 1 MiB, whose job can run on no node.
func largestSpec(b *testing.B) *structpb.Struct {
	b.Helper()
	tasks := map[string]any{}
	for i := range 10 {
		tasks[fmt.Sprint("t", i)] = map[string]any{
			"job_count": 1, "command": []any{"/bin/true"}, "cpu_limit": 1000, "memory_limit": "64MiB", "environment": map[string]any{"PART": strings.Repeat("x", 100<<10)},
		}
	}
	spec, err := structpb.NewStruct(map[string]any{"tasks": tasks})
	if err != nil {
		b.Fatal(err)
	}
	return spec
}

func startAndAbort(ctx context.Context, user *client.Client, spec *structpb.Struct) error {
	answer, err := user.StartOperation(ctx, &apipb.StartRequest{Spec: spec})
	if err != nil {
		return err
	}
	return user.AbortOperation(ctx, answer.GetOperationId(), "", 0)
}

// submission starts a small operation, waits until it has ended, and returns how long the start took.
func submission(b *testing.B, user *client.Client) time.Duration {
	b.Helper()
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"t": map[string]any{"job_count": 1, "command": []any{"/bin/true"}, "cpu_limit": 0.1, "memory_limit": "64MiB"}}})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	started, err := user.StartOperation(b.Context(), &apipb.StartRequest{Spec: spec})
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if _, err := user.WaitOperation(b.Context(), started.GetOperationId()); err != nil {
		b.Fatal(err)
	}
	return took
}

// tellBytes prints what each replica takes, beside what it may take if users' operations take quota.
func (c *cluster) tellBytes(b *testing.B, quota int64, memory map[string]int64) {
	b.Helper()
	for _, m := range c.replicas(b) {
		snapshot, folder := sizesIn(b, m.Data)
		want := devcluster.BytesOf(quota, 256<<20, 64<<20)
		text := bounds.Text
		tell("T4: %s: memory %s of %s, folder %s of %s, snapshot %s of %s", m.Name,
			text(memory[m.Name]), text(want.Memory), text(folder), text(want.Folder), text(snapshot), text(want.Snapshot))
	}
}

// sizesIn returns the size of the largest snapshot in a folder, and of all files.
func sizesIn(b *testing.B, dir string) (snapshot, all int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // Snapshots go meanwhile.
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		all += info.Size()
		if filepath.Base(path) == "state.bin" {
			snapshot = max(snapshot, info.Size())
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return snapshot, all
}

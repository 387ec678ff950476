package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/actors/agent"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// patience is how long anything may take before a benchmark gives up.
const patience = 2 * time.Minute

// agents is how many a cluster has, unless its nodes are simulated.
const agents = 2

// cluster is replicas and agents, each a process, and a client.
type cluster struct {
	*devcluster.Reach
	started *devcluster.Cluster
	done    chan error
	end     context.CancelFunc
}

// dataRoot is the folder whose files operations may use.
var dataRoot = filepath.Join(os.TempDir(), fmt.Sprintf("weir-bench-%d", os.Getpid()))

// files returns a new folder for files of operations. It is removed with the benchmark.
func files(b *testing.B) string {
	b.Helper()
	err := os.MkdirAll(dataRoot, 0o755)
	dir := ""
	if err == nil {
		dir, err = os.MkdirTemp(dataRoot, "")
	}
	if err == nil {
		// Jobs are other users.
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = os.RemoveAll(dir)
		_ = os.Remove(dataRoot) // Unless another benchmark uses it.
	})
	return dir
}

// startCluster starts a cluster of three replicas with a profile of raft's times. It
// ends with the benchmark.
func startCluster(b *testing.B, timing string) *cluster {
	b.Helper()
	return startClusterOf(b, timing, 3, agents)
}

func startClusterOf(b *testing.B, timing string, replicas, agents int) *cluster {
	b.Helper()
	// Enough for 64 jobs at once, so that nothing waits for room.
	return startClusterWith(b, timing, replicas, agents, devcluster.Share{CPU: 32, Memory: 8 << 30, Slots: 32})
}

// startClusterWith starts a cluster whose agents offer a share each.
func startClusterWith(b *testing.B, timing string, replicas, agents int, share devcluster.Share) *cluster {
	b.Helper()
	c := &cluster{done: make(chan error, 1)}
	config := devcluster.Default()
	config.Dir, config.Timing, config.Replicas, config.Agents, config.LogLevel = b.TempDir(), timing, replicas, agents, "warn"
	// It logs where they are.
	config.DataRoots = []string{dataRoot}
	config.AgentArguments = []string{"--metrics-listen", "127.0.0.1:0", "--metrics-insecure", "--log-level", "info"}
	config.NodePrefix = fmt.Sprintf("bench-%d-", time.Now().UnixNano())
	config.Program, config.JobProxy = program("weir"), program("weir-jobproxy")
	config.Share = share
	config.Sweep = sweep
	started, err := devcluster.Start(config, func(string) {})
	if err != nil {
		b.Fatal(err)
	}
	c.started = started
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	go func() { c.done <- started.Run(ctx) }()
	b.Cleanup(func() {
		c.end()
		if err := errors.Join(<-c.done, started.Stop()); err != nil {
			b.Error(err)
		}
	})
	if c.Reach, err = devcluster.OpenReach(config.Dir); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	if err := started.AwaitReady(b.Context(), c.View, func(devcluster.Progress) {}); err != nil {
		b.Fatal(err)
	}
	return c
}

// sweep ends what a killed agent has left.
func sweep(m devcluster.Member) error {
	cfg := agent.DefaultConfig()
	cfg.Node, cfg.StateDir, cfg.Logger = m.Name, m.Data, slog.New(slog.DiscardHandler)
	left, _, err := agent.OpenRunner(cfg, program("weir-jobproxy"))
	if err != nil {
		return err
	}
	return left.Close()
}

// whole waits until every replica knows the leader, and returns it.
func (c *cluster) whole(b *testing.B) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for {
		view, err := c.View(ctx)
		if err == nil && view.Leader != "" && len(view.Online) == agents {
			return view.Leader
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			b.Fatalf("the cluster is not whole: %+v, %v", view, err)
		}
	}
}

// submit starts an operation of so many jobs that do nothing.
func (c *cluster) submit(b *testing.B, jobs int) (operation string) {
	b.Helper()
	return c.start(b, map[string]any{"tasks": map[string]any{"nothing": map[string]any{
		"job_count": jobs, "command": []any{"/bin/true"}, "cpu_limit": 0.1, "memory_limit": "64MiB",
	}}})
}

// start starts an operation.
func (c *cluster) start(b *testing.B, document map[string]any) (operation string) {
	b.Helper()
	spec, err := structpb.NewStruct(document)
	if err != nil {
		b.Fatal(err)
	}
	started, err := c.StartOperation(b.Context(), &apipb.StartRequest{Spec: spec})
	if err != nil {
		b.Fatal(err)
	}
	return started.GetOperationId()
}

// complete waits until an operation has completed, each job of it once.
func (c *cluster) complete(b *testing.B, operation string, jobs int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	op, err := c.WaitOperation(ctx, operation)
	if err != nil {
		b.Fatal(err)
	}
	if op.GetState() != lifecycle.Completed.String() || op.GetProgress().GetCompleted() != int64(jobs) {
		b.Fatalf("operation %s is %s with %v", operation, op.GetState(), op.GetProgress())
	}
}

// kill ends a replica at once.
func (c *cluster) kill(b *testing.B, replica string) {
	b.Helper()
	if err := devcluster.Kill(c.Dir, replica); err != nil {
		b.Fatal(err)
	}
}

// revive starts a killed replica and waits until the cluster is whole again.
func (c *cluster) revive(b *testing.B, replica string) {
	b.Helper()
	if _, err := devcluster.StartMember(b.Context(), c.Dir, replica, patience); err != nil {
		b.Fatal(err)
	}
	c.whole(b)
	members, err := c.Members(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if !slices.ContainsFunc(members, func(m *apipb.Member) bool { return m.GetId() == replica }) {
		b.Fatalf("%s is no member: %v", replica, members)
	}
}

package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/messages/apipb"
)

const (
	// silentSockets, floodCalls and floodOutputs are how many a flood has at once.
	silentSockets, floodCalls, floodOutputs = 5000, 2000, 500
	// foreignDialers make handshakes with a foreign certificate, one after the other.
	foreignDialers = 200
	// floodRounds is how many submissions and reads of the other user are measured at a time: in quiet and in
	// the flood by turns, floodTurns times each, since the machine is not the same at all times.
	floodRounds, floodTurns = 1200, 3
	// goalRatio is how much longer they may take during a flood.
	goalRatio = 2.0
)

// BenchmarkFlood is T5: what a submission and a read of one user take while others flood the replicas, as a
// ratio to what they take in quiet, and whether a leader or an agent is lost. Whoever floods is a process of its own
// with the lowest priority: elsewhere it would not use the processors of the replicas.
func BenchmarkFlood(b *testing.B) {
	c := startCluster(b, "default")
	mallory, err := c.As("mallory")
	if err != nil {
		b.Fatal(err)
	}
	foreign, err := identity.CreateAuthority(filepath.Join(b.TempDir(), "authority"), "elsewhere")
	if err != nil {
		b.Fatal(err)
	}
	stranger := filepath.Join(b.TempDir(), "stranger")
	if err := foreign.Issue(stranger, identity.Identity{Role: identity.User, Name: "mallory"}, []string{"localhost"}, 0); err != nil {
		b.Fatal(err)
	}
	told := flood{Settings: mallory, Stranger: stranger, Job: c.loud(b)}
	for _, kind := range []string{"silent", "handshakes", "calls", "outputs"} {
		told.Kind = kind
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				c.flooded(b, told)
			}
		})
	}
}

// flooded measures another user's calls in quiet and during a flood, by turns.
func (c *cluster) flooded(b *testing.B, f flood) {
	b.Helper()
	before, err := c.Status(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var quietStarts, quietReads, starts, reads times
	var count string
	for range floodTurns {
		moreStarts, moreReads := c.visits(b)
		quietStarts, quietReads = append(quietStarts, moreStarts...), append(quietReads, moreReads...)
		stop := startFlood(b, f)
		moreStarts, moreReads = c.visits(b)
		starts, reads = append(starts, moreStarts...), append(reads, moreReads...)
		count = stop()
		c.whole(b)
	}
	after, err := c.Status(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ratio := func(during, quiet times) float64 {
		return float64(during.percentile(99)) / float64(quiet.percentile(99))
	}
	b.ReportMetric(ratio(starts, quietStarts), "submission-ratio")
	b.ReportMetric(ratio(reads, quietReads), "read-ratio")
	tell("T5: %s (%s): a submission takes p50 %.1f ms, p99 %.1f ms instead of %.1f and %.1f: ratio %.1f; a read %.1f and %.1f instead of %.1f and %.1f: ratio %.1f; goal below %.0f; %d elections, goal 0; %d of %d agents online",
		f.Kind, count, millis(starts.percentile(50)), millis(starts.percentile(99)), millis(quietStarts.percentile(50)), millis(quietStarts.percentile(99)), ratio(starts, quietStarts),
		millis(reads.percentile(50)), millis(reads.percentile(99)), millis(quietReads.percentile(50)), millis(quietReads.percentile(99)), ratio(reads, quietReads),
		goalRatio, after.GetTerm()-before.GetTerm(), after.GetNodesOnline(), agents)
}

// loud starts a job with a MiB of output, and returns its id.
func (c *cluster) loud(b *testing.B) (job string) {
	b.Helper()
	operation := c.start(b, map[string]any{"tasks": map[string]any{"loud": map[string]any{
		"job_count": 1, "shell": true, "command": "head -c 1048576 /dev/zero; exec sleep 3600", "memory_limit": "64MiB",
	}}, "acl": map[string]any{"read": []any{"*"}}})
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for {
		jobs, err := c.Jobs(ctx, operation)
		if err != nil {
			b.Fatal(err)
		}
		if len(jobs) == 1 && jobs[0].GetState() == "running" {
			return jobs[0].GetId()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			b.Fatal("the job does not run")
		}
	}
}

// visits measures submissions and reads, one after the other. What is submitted fits on no node.
func (c *cluster) visits(b *testing.B) (starts, reads times) {
	b.Helper()
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"huge": map[string]any{"job_count": 1, "command": []any{"true"}, "cpu_limit": 5000}}})
	if err != nil {
		b.Fatal(err)
	}
	for range floodRounds {
		began := time.Now()
		started, err := c.StartOperation(b.Context(), &apipb.StartRequest{Spec: spec})
		if err != nil {
			b.Fatal(err)
		}
		starts = append(starts, time.Since(began))
		began = time.Now()
		if _, err := c.GetOperation(b.Context(), started.GetOperationId()); err != nil {
			b.Fatal(err)
		}
		reads = append(reads, time.Since(began))
		if err := c.AbortOperation(b.Context(), started.GetOperationId(), "measured", 0); err != nil {
			b.Fatal(err)
		}
	}
	return starts, reads
}

// flood is what a process does that floods.
type flood struct {
	Kind     string
	Settings client.Settings
	// Stranger is the folder of a certificate of another cluster. Job is one with output.
	Stranger, Job string
}

// floodVariable holds the flood of a process, as JSON.
const floodVariable = "WEIR_BENCH_FLOOD"

// startFlood starts a process that floods, and returns when it does. `stop` ends it, and says how many ended.
func startFlood(b *testing.B, f flood) (stop func() (made string)) {
	b.Helper()
	told, err := json.Marshal(f)
	if err != nil {
		b.Fatal(err)
	}
	process := exec.Command(os.Args[0])
	process.Env, process.Stderr = append(os.Environ(), floodVariable+"="+string(told)), os.Stderr
	// A session of its own has a priority of its own, where the system groups processes by session.
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	in, err := process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		b.Fatalf("no flood of %s: %v", f.Kind, errors.Join(lines.Err(), process.Wait()))
	}
	return func() string {
		_ = in.Close() // It ends when nobody is there.
		lines.Scan()
		made := lines.Text()
		if err := process.Wait(); err != nil {
			b.Error(err)
		}
		return made
	}
}

// runFlood floods until its input ends.
func runFlood(told string) error {
	var f flood
	if err := json.Unmarshal([]byte(told), &f); err != nil {
		return err
	}
	files := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur = files.Max
	if err := errors.Join(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files), syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/autogroup", []byte("19"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	once, count, err := f.work()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var made atomic.Int64
	for i := range count {
		go func() {
			for ctx.Err() == nil {
				once(ctx, i)
				made.Add(1)
			}
		}()
	}
	fmt.Println("floods")
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	fmt.Printf("%d at once, %d ended\n", count, made.Load())
	return err // What still runs ends with the process.
}

// work returns what is done again and again, however it ends, and how often at once.
func (f flood) work() (once func(ctx context.Context, i int), count int, err error) {
	address := func(i int) string { return f.Settings.Addresses[i%len(f.Settings.Addresses)] }
	switch f.Kind {
	case "silent":
		return func(ctx context.Context, i int) {
			// A hundred from each address, of several subnets.
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i/1000), byte(1+i/100%10))}}
			if conn, err := dialer.DialContext(ctx, "tcp", address(i)); err == nil {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
		}, silentSockets, nil
	case "handshakes":
		credentials, err := identity.LoadCredentials(f.Stranger)
		if err != nil {
			return nil, 0, err
		}
		config := credentials.ClientConfig(identity.Replica)
		config.InsecureSkipVerify, config.VerifyConnection = true, nil //nolint:gosec // It is the replica that is to refuse.
		return func(ctx context.Context, i int) {
			dialer := tls.Dialer{Config: config, NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 10, byte(i%20), 1)}}}
			if conn, err := dialer.DialContext(ctx, "tcp", address(i)); err == nil {
				_, _ = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
		}, foreignDialers, nil
	}
	config, err := f.Settings.Config()
	if err != nil {
		return nil, 0, err
	}
	calls, err := client.New(config)
	if err != nil {
		return nil, 0, err
	}
	if f.Kind == "outputs" {
		return func(ctx context.Context, _ int) {
			_, _ = calls.CopyOutput(ctx, io.Discard, client.Output{JobID: f.Job, Stream: "stdout"})
		}, floodOutputs, nil
	}
	return func(ctx context.Context, _ int) { _, _ = calls.ListOperations(ctx, &apipb.ListOperationsRequest{}) }, floodCalls, nil
}

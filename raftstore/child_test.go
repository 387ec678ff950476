package raftstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// childDir tells the test binary to be a replica of its own, to be killed, and
// childPeers which of several: its name, and where all of them are.
const (
	childDir   = "RAFTSTORE_TEST_CHILD_DIR"
	childPeers = "RAFTSTORE_TEST_CHILD_PEERS"
)

// childT is what the cluster helpers need of a test, in a process that is none.
type childT struct {
	testing.TB
	dir string
}

func (t childT) Helper()           {}
func (t childT) TempDir() string   { return t.dir }
func (t childT) Cleanup(func())    {}
func (t childT) Fatal(args ...any) { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }

// runChild writes ever higher weights and prints each one that is answered,
// until it is killed.
func runChild(dir string) {
	t := childT{dir: dir}
	// What has started it holds the other end, and takes the child along when it dies.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		t.Fatal("the test has gone")
	}()
	if peers := os.Getenv(childPeers); peers != "" {
		runPeer(t, strings.Split(peers, " "))
	}
	c := startCluster(t, 1, func(cfg *Config) {
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = 20, 5*time.Millisecond, 5
	})
	s := c.leader()
	results, err := s.Propose(context.Background(), createPool(t, testPool))
	for i := 1; err == nil && results[0].GetRefusal() == nil; i++ {
		fmt.Println(i)
		results, err = s.Propose(context.Background(), setWeight(t, i+1))
	}
	t.Fatal(results, err)
}

// TestKilledReplicaKeepsWhatItAnswered kills a replica's process while it writes
// and snapshots, and opens its folder: nothing answered is missing, and at most
// the one write that was under way came too.
func TestKilledReplicaKeepsWhatItAnswered(t *testing.T) {
	c := newCluster(t, 1, nil)
	// The child is replica r1 of a cluster of one, with an address of its own.
	child, out := startChild(t, childDir+"="+c.dir)
	answered, killed := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		weight, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("child: %v", err)
			break
		}
		if answered = weight; answered < 300 || killed {
			continue
		}
		// The process is in the midst of its writes, and has snapshots behind it.
		whole, err := filepath.Glob(filepath.Join(c.dir, "r1", "snapshots", "*", snapshotMetaSum))
		if err != nil {
			t.Fatal(err)
		}
		if killed = len(whole) > 0; killed {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("child ended with %v", err)
	}
	if answered < 300 {
		t.Fatalf("the child answered %d writes", answered)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "r1", logFile)); err != nil {
		t.Fatal(err)
	}
	s := c.start("r1")
	// The child's address, not ours, is the voter's; alone it needs no other.
	c.leader()
	if got := weightOf(s); got != answered && got != answered+1 {
		t.Errorf("got weight %d after %d was answered", got, answered)
	}
	if s.Stats().Snapshot == 0 {
		t.Error("the child made no snapshot")
	}
}

// startChild runs this test's binary with more settings, and returns what it prints. The
// process ends with the test.
func startChild(t *testing.T, settings ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), settings...)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if child.ProcessState == nil { // The test has failed before it has come to wait for it.
			_ = child.Process.Kill()
			_ = child.Wait()
		}
	})
	return child, out
}

// trying stands before a weight that a child is about to write.
const trying = "trying "

// runPeer is a replica of several, whose name stands before all addresses. It
// writes while it leads, and prints what it tries to write and what is answered.
func runPeer(t childT, names []string) {
	self, addresses := names[0], names[1:]
	c := &cluster{tb: t, dir: t.dir, stores: map[string]*Store{}, wires: map[string]*wire{self: {}}, tune: func(cfg *Config) {
		restless(cfg)
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = 20, 5*time.Millisecond, 5
	}}
	for i, address := range addresses {
		c.peers = append(c.peers, Peer{ID: fmt.Sprintf("r%d", i+1), Address: address})
	}
	s := c.start(self)
	ctx := context.Background()
	for {
		current, changed := s.Leadership()
		if !current.Leader || s.Barrier(ctx) != nil {
			select {
			case <-changed:
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		// That it is there already is no error of this test.
		_, err := s.Propose(ctx, createPool(t, testPool))
		for i := weightOf(s) + 1; err == nil; i++ {
			fmt.Println(trying + strconv.Itoa(i))
			if _, err = s.Propose(ctx, setWeight(t, i)); err == nil {
				fmt.Println(i)
			}
		}
	}
}

// TestPowerLossOfAllReplicas kills three replicas at once while they write, three
// times, and starts them again on their folders: nothing answered is missing, and nothing is
// there that nobody tried to write.
func TestPowerLossOfAllReplicas(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) {
		restless(cfg)
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = 20, 5*time.Millisecond, 5
	})
	var addresses []string
	for _, p := range c.peers {
		addresses = append(addresses, p.Address)
		if err := c.wires[p.ID].listener.Close(); err != nil {
			t.Fatal(err)
		}
		c.wires[p.ID].listener = nil
	}
	answered, tried := 0, 0
	for range 3 {
		a, b := runAndKill(t, c, addresses, answered+60)
		answered, tried = max(answered, a), max(tried, b)
	}
	c.startAll()
	c.leader()
	c.wantEqual()
	if got := weightOf(c.leader()); got < answered || got > tried {
		t.Errorf("got weight %d after %d was answered and %d was tried", got, answered, tried)
	}
}

// runAndKill runs a process for each replica until enough is answered, kills them
// all, and returns the greatest weights that were answered and that were tried.
func runAndKill(t *testing.T, c *cluster, addresses []string, enough int) (answered, tried int) {
	t.Helper()
	var mu sync.Mutex
	reached := make(chan struct{})
	var children []*exec.Cmd
	var reading sync.WaitGroup
	for _, p := range c.peers {
		child, out := startChild(t, childDir+"="+c.dir, childPeers+"="+strings.Join(append([]string{p.ID}, addresses...), " "))
		children = append(children, child)
		reading.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				word, tries := strings.CutPrefix(lines.Text(), trying)
				weight, err := strconv.Atoi(word)
				if err != nil {
					t.Errorf("child %s: %v", p.ID, err)
					return
				}
				mu.Lock()
				tried = max(tried, weight)
				if !tries {
					if answered < enough && weight >= enough {
						close(reached)
					}
					answered = max(answered, weight)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-reached:
	case <-time.After(2 * patience): // Each weight waits for several disks.
		t.Errorf("the replicas did not come to weight %d", enough)
	}
	for _, child := range children {
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	reading.Wait()
	for _, child := range children {
		if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("child ended with %v", err)
		}
	}
	return answered, tried
}

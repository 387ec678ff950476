package raftstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// childDir tells the test binary to be a replica of its own, to be killed.
const childDir = "RAFTSTORE_TEST_CHILD_DIR"

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
	child := exec.Command(os.Args[0])
	// The child is replica r1 of a cluster of one, with an address of its own.
	child.Env = append(os.Environ(), childDir+"="+c.dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if answered, err = strconv.Atoi(lines.Text()); err != nil {
			t.Errorf("child: %v", err)
			break
		}
		if answered == 300 {
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

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestSuspendedNode (T7) stops all processes of a node for longer than its lease, as a suspend of the
// machine does, and lets agent and proxies go on first. The job runs again elsewhere, and its first
// attempt does nothing after that.
func TestSuspendedNode(t *testing.T) {
	c := prepareCluster(t, here, "n1", "n2")
	c.more = []string{"--lease", "5s"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.startAgent("n1")
	c.ready(t, 1)
	steps := filepath.Join(c.folder(t), "steps")
	operation := c.start(t, one(object{
		"job_count": 1, "shell": true, "cpu_limit": 0.1, "memory_limit": "64MiB",
		"command": "while true; do echo $WEIR_JOB_ID >> " + steps + "; sleep 0.01; done",
	}))
	c.runs(t, operation, 1)
	attempts := func() (ids []string) {
		data, _ := os.ReadFile(steps)
		return slices.Compact(strings.Fields(string(data)))
	}
	until(t, "the first attempt works", func() string { return missing(len(attempts()) == 1) })

	node := processesWith(c.data("n1"))
	signal(t, node, syscall.SIGSTOP, func(string) bool { return true })
	c.startAgent("n2")
	until(t, "a second attempt works", func() string { return missing(len(attempts()) == 2) })
	// Weir's processes wake up before the job does.
	signal(t, node, syscall.SIGCONT, func(program string) bool { return strings.HasPrefix(program, "weir") })
	until(t, "the first attempt is gone", func() string {
		for _, pid := range node {
			if program := programOf(pid); program != "" && !strings.HasPrefix(program, "weir") {
				return pid + " is left: " + program
			}
		}
		return ""
	})
	c.nodeIs(t, "n1", "online")
	if ids := attempts(); len(ids) != 2 {
		t.Errorf("the attempts that worked, in turns: %v", ids)
	}
	c.abort(t, operation)
}

func missing(ok bool) string {
	if ok {
		return ""
	}
	return "not yet"
}

// signal sends a signal to those of the processes whose program is wanted.
func signal(t *testing.T, pids []string, s syscall.Signal, wanted func(program string) bool) {
	t.Helper()
	for _, pid := range pids {
		if program := programOf(pid); program == "" || !wanted(program) {
			continue
		}
		number, err := strconv.Atoi(pid)
		if err == nil {
			err = syscall.Kill(number, s)
		}
		// It may have ended meanwhile.
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(fmt.Errorf("%v to %s: %w", s, pid, err))
		}
	}
}

// programOf returns the name of the program that a process runs; "" if it has ended.
func programOf(pid string) string {
	said, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil || len(said) == 0 {
		return ""
	}
	name, _, _ := bytes.Cut(said, []byte{0})
	return filepath.Base(string(name))
}

package runner_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/actors/agent/runner"
)

// TestDiscovery has a job find its socket, wherever that is, also of its second agent.
func TestDiscovery(t *testing.T) {
	for name, folder := range map[string]string{"in its folder": "a", "by a short path": strings.Repeat("long", 30)} {
		t.Run(name, func(t *testing.T) {
			base, err := os.MkdirTemp("/tmp", "w")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(base) })
			f := newFixture(t, backends["as a process tree"], func(c *runner.Config) { c.Root = filepath.Join(base, folder) })
			job := f.start(t, runner.JobSpec{Shell: "echo $WEIR_DISCOVERY; sleep 1000"})
			path := f.awaitOutput(t, job, 1)[0]
			if inside := strings.HasPrefix(path, base); inside != (folder == "a") || len(path) > 107 {
				t.Errorf("socket at %s", path)
			}
			for range 2 {
				hello(t, job, path)
				if err := f.Leave(); err != nil {
					t.Fatal(err)
				}
				if conn, err := net.Dial("unix", path); err == nil {
					t.Error("the socket takes connections without an agent")
					_ = conn.Close()
				}
				job = f.reopen(t)
			}
			hello(t, job, path)
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("socket %v, %v, want it for its user only", info, err)
			}
			if err := job.Stop("enough", 0); err != nil {
				t.Fatal(err)
			}
			finished(t, job)
			if _, err := job.Discovery().Accept(); err == nil {
				t.Error("the socket takes connections after the job's end")
			}
			if err := job.Release(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("the socket is left")
			}
			if _, err := os.Stat(filepath.Dir(path)); err == nil {
				t.Error("the socket's folder is left")
			}
		})
	}
}

// TestSocketsOfFormerJobsAreRemoved once the state folder of their agent is gone.
func TestSocketsOfFormerJobsAreRemoved(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	f := newFixture(t, backends["as a process tree"], func(c *runner.Config) { c.Root = filepath.Join(base, strings.Repeat("long", 30)) })
	job := f.start(t, runner.JobSpec{Shell: "echo $WEIR_DISCOVERY; sleep 1000"})
	socket := f.awaitOutput(t, job, 1)[0]
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(socket)) })
	newFixture(t, backends["as a process tree"])
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("another agent has removed the socket of a job: %v", err)
	}
	if err := job.Stop("enough", 0); err != nil {
		t.Fatal(err)
	}
	finished(t, job)
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	newFixture(t, backends["as a process tree"])
	if _, err := os.Stat(filepath.Dir(socket)); err == nil {
		t.Error("the socket's folder is left")
	}
}

// hello has a line go through the socket.
func hello(t *testing.T, job *runner.Job, path string) {
	t.Helper()
	served := make(chan error, 1)
	go func() {
		conn, err := job.Discovery().Accept()
		if err == nil {
			_, err = io.WriteString(conn, "hello\n")
			_ = conn.Close()
		}
		served <- err
	}()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "hello\n" {
		t.Errorf("heard %q, %v", line, err)
	}
	if err := <-served; err != nil {
		t.Error(fmt.Errorf("serve: %w", err))
	}
}

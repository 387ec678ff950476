package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"weir/cmd/weir/internal/top/screentest"
)

// TestTop (W3) opens weir top on a terminal, goes to an operation, sees why it waits, reads what a job of
// another has written, aborts that one after it was asked, and quits.
func TestTop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	talks := c.start(t, one(object{"job_count": 1, "shell": true, "command": "echo hello from a job; sleep 600", "cpu_limit": 0.1, "memory_limit": "64MiB"}, object{"title": "talks"}))
	c.runs(t, talks, 1)
	c.start(t, one(object{"job_count": 1, "shell": true, "command": "true", "cpu_limit": 1000, "memory_limit": "64MiB"}, object{"title": "too large"}))

	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	cmd := exec.CommandContext(t.Context(), program("weir"), "top", "--write", "--interval", "1s")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "WEIR_ADDRESSES="+strings.Join(addresses, ","), "WEIR_CREDENTIALS="+c.certs("operator-admin"))
	s := screentest.Open(t, 120, 30)
	before := s.Modes(t)
	s.Start(t, cmd)

	s.Until(t, patience, "weir top", "POOL", "default")
	s.Type(t, "2")
	s.Until(t, patience, "▸ too large", "waits: no node", "talks")
	s.Type(t, "\r")
	s.Until(t, patience, "Waits: no node", "a job needs 1000")
	s.Type(t, "h")
	s.Until(t, patience, "▸ too large")
	s.Type(t, "\x1b[B")
	s.Until(t, patience, "▸ talks", "A abort")
	s.Type(t, "\r")
	s.Until(t, patience, "Jobs of operation “talks”", "EACH JOB", ", running on ")
	s.Type(t, "\r")
	s.Until(t, patience, "stdout of job 0 of task task", "hello from a job")
	s.Type(t, "hh")
	s.Until(t, patience, "▸ talks", "A abort")
	s.Type(t, "A")
	s.Until(t, patience, "Abort operation “talks”", "1 running job of admin", "that work is lost")
	if state := c.get(t, talks).GetState(); state != "running" {
		t.Errorf("before it is confirmed, the operation is %s", state)
	}
	s.Type(t, "y")
	until(t, "the operation is aborted", func() string { return missing(c.get(t, talks).GetState() == "aborted") })
	s.Until(t, patience, "Operations in progress · 1")
	s.Type(t, "q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("weir top ended with %v", err)
	}
	if after := s.Modes(t); after != before {
		t.Errorf("modes of the terminal: %+v, before %+v", after, before)
	}
}

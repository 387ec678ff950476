package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"weir/cmd/weir/internal/top/screentest"
)

// jobExec returns weir job exec as a user, with the input and output of the caller.
func (c *cluster) jobExec(t testing.TB, who string, arguments ...string) *exec.Cmd {
	t.Helper()
	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	cmd := exec.CommandContext(t.Context(), program("weir"), append([]string{"job", "exec"}, arguments...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "WEIR_ADDRESSES="+strings.Join(addresses, ","), "WEIR_CREDENTIALS="+c.certs(who))
	return cmd
}

// TestJobExec (W4) is at a terminal in a job while the leader is killed, passes input on and gets output, and
// ends as the command does; who may not run commands in a job does not, and who may no longer has none that runs.
func TestJobExec(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	const line = "echo up; sleep 600"
	operation := c.start(t, one(shell(1, line), object{"title": "shared"}))
	job := c.runs(t, operation, 1)[0].GetId()

	t.Run("at a terminal", func(t *testing.T) { c.sitsInJob(t, job) })
	for name, test := range map[string]struct {
		arguments      []string
		input          string
		code           int
		stdout, stderr string
	}{
		"input and output":             {[]string{"-i", job, "--", "tr", "a-z", "A-Z"}, "loud", 0, "LOUD", ""},
		"no input":                     {[]string{job, "cat"}, "unread", 0, "", ""},
		"both streams, and its code":   {[]string{job, "--", "sh", "-c", "echo out; echo err >&2; exit 77"}, "", 77, "out\n", "err\n"},
		"killed":                       {[]string{job, "--", "sh", "-c", "kill -9 $$"}, "", 128 + 9, "", ""},
		"no such program":              {[]string{job, "no-such-program"}, "", 1, "", `start "no-such-program": no such file`},
		"flags without --":             {[]string{job, "ls", "-l"}, "", 2, "", "write -- before a command that has flags"},
		"no command":                   {[]string{job}, "", 2, "", "COMMAND is missing"},
		"time is up":                   {[]string{"--timeout", "2s", "-i", job, "--", "sleep", "6789"}, "unread", 7, "", "not ended within --timeout"},
		"no terminal":                  {[]string{"-t", job, "sh"}, "", 2, "", "--terminal needs a terminal"},
		"an operation":                 {[]string{operation, "ls"}, "", 6, "", "is an operation"},
		"a large input and its answer": {[]string{"-i", job, "cat"}, strings.Repeat("0123456789", 200_000), 0, strings.Repeat("0123456789", 200_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := c.jobExec(t, "operator-admin", test.arguments...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(test.input), &stdout, &stderr
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != test.code || stdout.String() != test.stdout || !strings.Contains(stderr.String(), test.stderr) || test.stderr == "" && stderr.Len() > 0 {
				t.Errorf("%v: exit code %d, %.100q, %.300q", err, code, stdout.String(), stderr.String())
			}
		})
	}
	t.Run("nobody reads", func(t *testing.T) {
		cmd := c.jobExec(t, "operator-admin", job, "--", "sh", "-c", "yes nobody-reads")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1))
		}
		if err = errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code says how
		if code := cmd.ProcessState.ExitCode(); code != 128+13 {
			t.Errorf("exit code %d, want that of a broken pipe", code)
		}
		until(t, "the command is gone", func() string { return strings.Join(processesWith("nobody-reads"), " ") })
	})
	t.Run("the terminal is closed", func(t *testing.T) {
		cmd := c.jobExec(t, "operator-admin", job, "--", "sh", "-c", "exec env MARK=closed-terminal sleep 600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Both it and weir have the mark, which no port or folder has in its name.
		until(t, "the command runs", func() string { return missing(len(processesWith("closed-terminal")) > 1) })
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code says how
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit code %d, want that of an interruption", code)
		}
		until(t, "the command is gone", func() string { return strings.Join(processesWith("closed-terminal"), " ") })
	})
	t.Run("strangers", func(t *testing.T) { c.strangersInJobs(t) })
}

// sitsInJob is at a terminal in a job.
func (c *cluster) sitsInJob(t *testing.T, job string) {
	cmd := c.jobExec(t, "operator-admin", job)
	s := screentest.Open(t, 90, 20)
	before := s.Modes(t)
	s.Start(t, cmd)
	s.Until(t, patience, "$")
	s.Type(t, "echo size $(stty size) of $TERM\r")
	s.Until(t, patience, "size 20 90 of xterm-256color")
	c.process(c.leader(t)).kill()
	s.Type(t, "echo still $((40 + 2)) here\r")
	s.Until(t, patience, "still 42 here")
	s.Type(t, "sh -c 'echo be''gun; exec sleep 600'\r")
	s.Until(t, patience, "begun")
	s.Type(t, "\x03")
	s.Type(t, "echo stopped $?\r")
	s.Until(t, patience, "stopped 130")
	s.Type(t, "exit 9\r")
	_ = cmd.Wait() // the exit code says how
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
	if after := s.Modes(t); after != before {
		t.Errorf("the terminal is left as %v, was %v", after, before)
	}
}

// strangersInJobs has users without the right, or without all that it takes, try to run commands in jobs of ann; and
// takes the right from one whose command runs.
func (c *cluster) strangersInJobs(t *testing.T) {
	for _, name := range []string{"bob", "eve"} {
		if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "user", "--name", name); code != 0 {
			t.Fatal(printed)
		}
	}
	c.cli(t, "pool", "create", "shared-jobs")
	c.cli(t, "pool", "acl", "shared-jobs", "--allow", "user:ann=use", "--allow", "user:bob=manage", "--allow", "user:eve=read")
	started := func(more object) (job string) {
		spec := one(shell(1, "echo up; sleep 600"), object{"pool": "shared-jobs"})
		for name, value := range more {
			spec[name] = value
		}
		operation, refused := c.startAs(t, "user-ann", c.leader(t), spec)
		if refused != nil {
			t.Fatal(refused)
		}
		return c.runs(t, operation, 1)[0].GetId()
	}
	plain, secret := started(nil), started(object{"secure_vault": object{"TOKEN": "hunter2"}})
	for name, test := range map[string]struct{ who, job, want string }{
		"who may only read":       {"user-eve", plain, `this needs the right manage on pool "shared-jobs", held by user:bob`},
		"who may not see secrets": {"user-bob", secret, `which has secrets of user "ann"`},
		"who manages":             {"user-bob", plain, ""},
		"who has started it":      {"user-ann", secret, ""},
	} {
		printed, err := c.jobExec(t, test.who, test.job, "--", "sh", "-c", "echo in ${WEIR_SECURE_VAULT_TOKEN-blank}").CombinedOutput()
		if test.want == "" && (err != nil || string(printed) != "in blank\n") || !strings.Contains(string(printed), test.want) {
			t.Errorf("%s: %v, %s, want %q", name, err, printed, test.want)
		}
	}
	cmd := c.jobExec(t, "user-bob", plain, "--", "sh", "-c", "echo here; exec env MARK=bobs-command sleep 600")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Both it and weir have the mark.
	until(t, "bob's command runs", func() string { return missing(len(processesWith("bobs-command")) > 1) })
	c.cli(t, "pool", "acl", "shared-jobs", "--revoke", "user:bob=manage")
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "this needs the right manage") {
		t.Errorf("without the right bob's command ends with %v: %s", err, said.String())
	}
	until(t, "bob's command is gone", func() string { return strings.Join(processesWith("bobs-command"), " ") })
}

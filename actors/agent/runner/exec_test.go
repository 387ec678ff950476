package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// visitor is a person at a command beside a job's own.
type visitor struct {
	*runner.Runner
	key            runner.SessionKey
	typed, read    int64
	stdout, stderr bytes.Buffer
}

// visit starts a command in the fixture's job.
func (f *fixture) visit(t testing.TB, session string, c runner.Command) *visitor {
	t.Helper()
	c.SessionKey = runner.SessionKey{Job: "job", Session: session, User: "ann"}
	for end := time.Now().Add(patience); ; pause() {
		// The proxy may not have answered yet.
		err := f.Exec(c)
		if err == nil {
			break
		}
		if time.Now().After(end) || !strings.Contains(err.Error(), "try again") {
			t.Fatal(err)
		}
	}
	return &visitor{Runner: f.Runner, key: c.SessionKey}
}

// enters gives input, all of it.
func (v *visitor) enters(t testing.TB, text string, last bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; pause() {
		next, err := v.ExecInput(v.key, runner.SessionInput{Offset: v.typed, Data: []byte(text), End: last})
		if err != nil || time.Now().After(end) {
			t.Fatalf("input at %d: %v", next, err)
		}
		text = text[next-v.typed:]
		if v.typed = next; text == "" {
			return
		}
	}
}

// sees reads the output until it has a text.
func (v *visitor) sees(t testing.TB, text string) {
	t.Helper()
	for !strings.Contains(v.stdout.String(), text) {
		if end := v.looks(t); end != nil && !strings.Contains(v.stdout.String(), text) {
			t.Fatalf("ended with %+v, and has written %q, %q: want %q", end, v.stdout.String(), v.stderr.String(), text)
		}
	}
}

// ends reads the output to its end.
func (v *visitor) ends(t testing.TB) runner.SessionEnd {
	t.Helper()
	for {
		if end := v.looks(t); end != nil {
			return *end
		}
	}
}

// looks waits for output, or the end.
func (v *visitor) looks(t testing.TB) *runner.SessionEnd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	part, err := v.ExecOutput(ctx, v.key, v.read, 100_000)
	if err != nil || ctx.Err() != nil {
		t.Fatalf("output from %d: %v, %v; so far %q", v.read, err, ctx.Err(), v.stdout.String())
	}
	for _, piece := range part.Pieces {
		to := &v.stdout
		if piece.Stderr {
			to = &v.stderr
		}
		to.Write(piece.Data)
		v.read += int64(len(piece.Data))
	}
	if v.read != part.Next {
		t.Fatalf("%d bytes came, of %d", v.read, part.Next)
	}
	return part.End
}

// TestCommandIsOfTheJob (T2) has a command beside a job's own find out about itself what the job has found out: who
// it is, what it sees and what it may.
func TestCommandIsOfTheJob(t *testing.T) {
	needsRoot(t)
	const look = `for n in mnt pid ipc uts net user; do readlink /proc/self/ns/$n; done; grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status; cat /proc/self/cgroup; id -u; id -g; pwd; echo $GREETING; ls / /dev; cat secret; test -d /proc/$$ && echo known`
	for name, spec := range map[string]runner.JobSpec{
		"none":                    {Isolation: proxyproto.IsolationNone},
		"default":                 {Isolation: proxyproto.IsolationDefault},
		"another user":            {User: "65534", Group: "daemon"},
		"strict and another user": {Isolation: proxyproto.IsolationStrict, User: "4242"},
	} {
		t.Run(name, func(t *testing.T) {
			for backend, detect := range backends {
				t.Run(backend, func(t *testing.T) {
					f := newFixture(t, detect, everyWay(t))
					spec.Environment = map[string]string{"GREETING": "hello"}
					spec.Shell = `echo secret > secret; (` + look + `) > seen; echo ready; sleep 1000`
					job := f.start(t, spec)
					f.awaitOutput(t, job, 1)
					for _, terminal := range []bool{false, true} {
						v := f.visit(t, fmt.Sprint("terminal ", terminal), runner.Command{
							Argv: []string{"/bin/sh", "-c", `(` + look + `) > visited; diff seen visited`}, Terminal: terminal,
						})
						if end := v.ends(t); end != (runner.SessionEnd{}) || v.stdout.Len() > 0 {
							t.Errorf("ended with %+v: what it sees is not what its job sees: %s%s", end, v.stdout.String(), v.stderr.String())
						}
					}
				})
			}
		})
	}
}

// TestCommandsOfPeople runs commands beside a job, which goes on.
func TestCommandsOfPeople(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000", Secrets: map[string]string{"KEY": "hidden"}})
		f.awaitOutput(t, job, 1)
		for name, test := range map[string]struct {
			shell, input   string
			stdout, stderr string
			end            runner.SessionEnd
		}{
			"it writes to both":               {"echo out; echo err >&2; exit 7", "", "out\n", "err\n", runner.SessionEnd{ExitCode: 7}},
			"it reads all":                    {"sort", "b\na\n", "a\nb\n", "", runner.SessionEnd{}},
			"it reads nothing":                {"exit 1", strings.Repeat("x", 1<<20), "", "", runner.SessionEnd{ExitCode: 1}},
			"it is killed":                    {"kill -9 $$", "", "", "", runner.SessionEnd{ExitCode: -1, Signal: "SIGKILL"}},
			"it writes more than is kept":     {"head -c 1000000 /dev/zero | tr '\\0' x", "", strings.Repeat("x", 1_000_000), "", runner.SessionEnd{}},
			"it leaves somebody who writes":   {"(sleep 1000; echo late) & echo soon; exit 4", "", "soon\n", "", runner.SessionEnd{ExitCode: 4}},
			"it opens its output by name":     {"echo named > /dev/stdout", "", "named\n", "", runner.SessionEnd{}},
			"the secrets are for the job":     {"echo ${WEIR_SECURE_VAULT_KEY-none}", "", "none\n", "", runner.SessionEnd{}},
			"it returns what it has been fed": {"cat", strings.Repeat("line\n", 100_000), strings.Repeat("line\n", 100_000), "", runner.SessionEnd{}},
		} {
			t.Run(name, func(t *testing.T) {
				v := f.visit(t, name, runner.Command{Argv: []string{"/bin/sh", "-c", test.shell}})
				fed := make(chan struct{})
				go func() {
					defer close(fed)
					v.enters(t, test.input, true)
				}()
				end := v.ends(t)
				<-fed
				if end != test.end || v.stdout.String() != test.stdout || v.stderr.String() != test.stderr {
					t.Errorf("ended with %+v, %.100q, %.100q", end, v.stdout.String(), v.stderr.String())
				}
				v.leaves(t)
			})
		}
		v := f.visit(t, "missing", runner.Command{Argv: []string{"no-such-program"}})
		if end := v.ends(t); !strings.Contains(end.Error, `"no-such-program"`) {
			t.Errorf("a program that is not there ended with %+v", end)
		}
		// What it leaves behind writes without end.
		v = f.visit(t, "endless", runner.Command{Argv: []string{"/bin/sh", "-c", "(while :; do echo late; done) & sleep 0.1; exit 4"}})
		if end := v.ends(t); end != (runner.SessionEnd{ExitCode: 4}) {
			t.Errorf("ended with %+v", end)
		}
		if job.Result() != nil {
			t.Error("the job has ended with a command")
		}
	})
}

// TestCommandsWithoutRoom: a command for which its job has no room for processes says so, and writes nothing.
func TestCommandsWithoutRoom(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, backends["with cgroups"], everyWay(t))
	f.awaitOutput(t, f.start(t, runner.JobSpec{
		Isolation: proxyproto.IsolationDefault, PidsLimit: 4, Shell: "for i in 1 2 3 4 5 6; do sleep 1000 & done; echo ready; wait",
	}), 1)
	refused := 0
	for i := range 7 {
		v := f.visit(t, fmt.Sprint(i), runner.Command{Argv: []string{"/bin/sh", "-c", "echo in; exec sleep 1000"}})
		end := v.looks(t)
		if end == nil && v.stdout.String() == "in\n" {
			continue
		}
		if refused++; end == nil || !strings.Contains(end.Error, "pids_limit") || v.stdout.Len()+v.stderr.Len() > 0 {
			t.Errorf("command %d ended with %+v, and has written %q and %.1000q", i, end, v.stdout.String(), v.stderr.String())
		}
		v.leaves(t)
	}
	if refused == 0 {
		t.Error("every command had room")
	}
}

// leaves ends a session, of which nothing is known afterwards.
func (v *visitor) leaves(t testing.TB) {
	t.Helper()
	if _, err := v.ExecInput(v.key, runner.SessionInput{HangUp: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.ExecOutput(t.Context(), v.key, v.read, 1); !errors.Is(err, runner.ErrNoSession) {
		t.Errorf("a session that was left: %v", err)
	}
}

// TestTerminal has a person at a terminal beside a job: the shell knows its size and kind, and that it controls its
// jobs, Ctrl-C ends what runs in front, and Ctrl-D the shell.
func TestTerminal(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		f.awaitOutput(t, f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000"}), 1)
		v := f.visit(t, "one", runner.Command{Argv: []string{"/bin/sh"}, Terminal: true, Term: "vt100", Size: runner.TerminalSize{Columns: 80, Rows: 24}})
		v.enters(t, "stty -echo; echo size $(stty size) $TERM; test -t 0 && test -t 2 && echo a tty\n", false)
		v.sees(t, "size 24 80 vt100")
		v.sees(t, "a tty")
		if _, err := v.ExecInput(v.key, runner.SessionInput{Offset: v.typed, Size: runner.TerminalSize{Columns: 132, Rows: 50}}); err != nil {
			t.Fatal(err)
		}
		// What is in front says so itself: while the shell puts it there a Ctrl-C may reach the shell alone.
		v.enters(t, "echo now $(stty size); sh -c 'echo waiting > /dev/tty; exec sleep 1000'; echo went on\n", false)
		v.sees(t, "now 50 132")
		v.sees(t, "waiting")
		v.enters(t, "\x03", false)
		v.enters(t, "echo alive\n", false)
		v.sees(t, "alive")
		v.enters(t, "exit 5\n", true)
		if end := v.ends(t); end != (runner.SessionEnd{ExitCode: 5}) || strings.Contains(v.stdout.String(), "went on") {
			t.Errorf("ended with %+v, and has written %q", end, v.stdout.String())
		}
	})
}

// TestSessionsEnd ends commands of people in each way that there is besides their own end: nothing of them is left.
func TestSessionsEnd(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, f *fixture, job *runner.Job, v *visitor){
		"hung up": func(t *testing.T, _ *fixture, _ *runner.Job, v *visitor) { v.leaves(t) },
		"with the job": func(t *testing.T, _ *fixture, job *runner.Job, v *visitor) {
			if err := job.Stop("it is enough", 0); err != nil {
				t.Fatal(err)
			}
			if end := v.ends(t); end.Signal != "SIGKILL" && end.Error != "the job has ended" {
				t.Errorf("ended with %+v", end)
			}
		},
		"with the agent": func(t *testing.T, f *fixture, _ *runner.Job, _ *visitor) {
			if err := f.Leave(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, terminal := range []bool{false, true} {
				onEachBackend(t, func(t *testing.T, f *fixture) {
					job := f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000"})
					f.awaitOutput(t, job, 1)
					v := f.visit(t, "one", runner.Command{Argv: []string{"/bin/sh", "-c", "echo up; sleep 2345; true"}, Terminal: terminal})
					v.sees(t, "up")
					ends(t, f, job, v)
					for deadline := time.Now().Add(patience); runs(t, "sleep\x002345\x00"); pause() {
						if time.Now().After(deadline) {
							t.Fatal("a process of the command is left")
						}
					}
					if name == "with the agent" {
						f.open(t)
						if _, err := f.ExecOutput(t.Context(), v.key, 0, 1); !errors.Is(err, runner.ErrNoSession) {
							t.Errorf("after the agent was restarted: %v", err)
						}
					}
				})
			}
		})
	}
}

// runs reports whether a process with a command line exists.
func runs(t *testing.T, line string) bool {
	all, err := proctree.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		if is, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.Pid)); string(is) == line {
			return true
		}
	}
	return false
}

// TestSessionsAreOfTheirUser: nobody else reads, types or ends, and what is too much is refused.
func TestSessionsAreOfTheirUser(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	f.awaitOutput(t, f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000"}), 1)
	v := f.visit(t, "0", runner.Command{Argv: []string{"cat"}})
	other := v.key
	other.User = "bob"
	if _, err := f.ExecOutput(t.Context(), other, 0, 1); !errors.Is(err, runner.ErrNoSession) {
		t.Errorf("bob reads: %v", err)
	}
	if _, err := f.ExecInput(other, runner.SessionInput{HangUp: true}); !errors.Is(err, runner.ErrNoSession) {
		t.Errorf("bob hangs up: %v", err)
	}
	if err := f.Exec(runner.Command{SessionKey: v.key, Argv: []string{"no-such-program"}}); err != nil {
		t.Errorf("a start that is repeated: %v", err)
	}
	// Bob may choose the name of ann's.
	if err := f.Exec(runner.Command{SessionKey: other, Argv: []string{"echo", "bob's"}}); err != nil {
		t.Fatal(err)
	}
	bob := &visitor{Runner: f.Runner, key: other}
	if end := bob.ends(t); end != (runner.SessionEnd{}) || bob.stdout.String() != "bob's\n" {
		t.Errorf("bob's ended with %+v, and has written %q", end, bob.stdout.String())
	}
	bob.leaves(t)
	v.enters(t, "still here\n", false)
	v.sees(t, "still here")
	if _, err := f.ExecInput(v.key, runner.SessionInput{Offset: v.typed + 1}); err == nil {
		t.Error("input with a gap was taken")
	}
	if _, err := f.ExecOutput(t.Context(), v.key, v.read+1, 1); err == nil {
		t.Error("output was read that is not there")
	}
	if next, err := f.ExecInput(v.key, runner.SessionInput{Data: []byte("still here\n")}); err != nil || next != v.typed {
		t.Errorf("input that is repeated: %d, %v", next, err)
	}
	for i := range 7 {
		f.visit(t, fmt.Sprint(i+1), runner.Command{Argv: []string{"cat"}})
	}
	refused := map[string]runner.Command{
		"the ninth of a job":     {SessionKey: runner.SessionKey{Job: "job", Session: "8", User: "ann"}, Argv: []string{"cat"}},
		"of a job elsewhere":     {SessionKey: runner.SessionKey{Job: "other", Session: "8"}, Argv: []string{"cat"}},
		"without a command":      {SessionKey: runner.SessionKey{Job: "job", Session: "8"}},
		"a command that is long": {SessionKey: runner.SessionKey{Job: "job", Session: "8"}, Argv: []string{strings.Repeat("x", 20_000)}},
		"a command with a zero":  {SessionKey: runner.SessionKey{Job: "job", Session: "8"}, Argv: []string{"a\x00b"}},
	}
	for name, c := range refused {
		if err := f.Exec(c); err == nil {
			t.Errorf("%s: was started", name)
		} else if errors.Is(err, runner.ErrTooManySessions) != (name == "the ninth of a job") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if end := v.more(t); end != nil || strings.Count(v.stdout.String(), "still here") != 1 {
		t.Errorf("ended with %+v, has written %q", end, v.stdout.String())
	}
}

// more reads what is there, without waiting.
func (v *visitor) more(t testing.TB) *runner.SessionEnd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	part, err := v.ExecOutput(ctx, v.key, v.read, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range part.Pieces {
		v.stdout.Write(piece.Data)
	}
	return part.End
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the deadline of every run.
const patience = 10 * time.Minute

// programs is the folder of the built programs.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if testing.Short() {
		return m.Run(), nil
	}
	if programs, err = os.MkdirTemp("", "weir-clique-test-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(programs)
	// The cliques are jobs, which are other users.
	if err := os.Chmod(programs, 0o755); err != nil {
		return 0, err
	}
	for name, folder := range map[string]string{"weir": "weir/cmd/weir", "weir-jobproxy": "weir/cmd/weir-jobproxy", "clique": "weir/examples/clique"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", filepath.Join(programs, name), folder)
		if name == "weir-jobproxy" {
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if output, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", folder, err, output)
		}
	}
	return m.Run(), nil
}

// shown is a run of clique show, or of clique storm.
type shown struct {
	cmd *exec.Cmd
	// temp is where it may keep things, pictures where those are to be.
	temp, pictures string
	output         *transcript
}

// transcript is what a run prints, to its output and as errors, as it comes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String implements fmt.Stringer.
func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// begin starts clique with a verb, and returns its output.
func begin(ctx context.Context, t *testing.T, verb string, flags ...string) (*shown, io.Reader) {
	t.Helper()
	s := &shown{temp: t.TempDir(), pictures: filepath.Join(t.TempDir(), "pictures"), output: new(transcript)}
	s.cmd = exec.CommandContext(ctx, filepath.Join(programs, "clique"), append([]string{verb, "--pictures", s.pictures}, flags...)...)
	s.cmd.Env = append(os.Environ(), "TMPDIR="+s.temp)
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.Stderr = s.output
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s, io.TeeReader(out, s.output)
}

// leavesNothing waits until nothing of a run that has ended is left: a process that was
// killed, or has nothing more to do, is not gone at once, and what was killed itself cannot
// wait for its cluster.
func (s *shown) leavesNothing(t *testing.T) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for left := s.left(t); len(left) > 0; left = s.left(t) {
		select {
		case <-deadline:
			t.Fatalf("left behind: %q", left)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// left says what a run that has ended has left behind.
func (s *shown) left(t *testing.T) (left []string) {
	t.Helper()
	files, err := os.ReadDir(s.temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		left = append(left, file.Name())
	}
	// Control groups of its nodes, in either version.
	for _, hierarchy := range []string{"", "*/"} {
		groups, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/%sweir-clique-%d-*", hierarchy, s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, groups...)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		// Processes of others end meanwhile.
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(s.temp)) {
			left = append(left, file+": "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return left
}

// TestClique runs the example with shorter times: what it promises holds, and nothing
// but pictures is left.
func TestClique(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster, and two runs on it")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// From the signal until who sends requests has heard of it a busy machine may take as long
	// as another replica takes to lead, or a process stands still: no request may fail for that
	// in the graceful run. Usage has to be fair within the longest request.
	s, out := begin(ctx, t, "show", "--agents", "2", "--alone", "1s", "--together", "4s", "--after", "1s", "--requests", "1000",
		"--short", "6s", "--starvation", "500ms", "--notice", "5s", "--long-notice", "20s", "--long-from", "7500ms", "--long-mean", "300ms", "--longest", "1m", "--long", "3m")
	printed, err := io.ReadAll(out)
	if err := errors.Join(err, s.cmd.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, s.output)
	}
	t.Logf("%s", printed)
	lines := strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n")
	var a, b, c, d int
	last := lines[len(lines)-1]
	if _, err := fmt.Sscanf(last, "ordinary failed %d of %d requests; graceful failed %d of %d requests", &a, &b, &c, &d); err != nil {
		t.Fatalf("the last line is %q: %v", last, err)
	}
	if a == 0 || b < 1000 || c != 0 || d < 1000 {
		t.Errorf("not as promised: %s", last)
	}
	for _, name := range []string{"ordinary.svg", "ordinary.png", "graceful.svg", "graceful.png"} {
		if info, err := os.Stat(filepath.Join(s.pictures, name)); err != nil || info.Size() == 0 {
			t.Errorf("picture %s: %v", name, err)
		}
	}
	s.leavesNothing(t)
}

// TestStorm (I4, I7) runs a short storm with each kind of event: a service whose instances are
// handed over loses no request that was not on the node that died. Nothing but pictures is left.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster, and two runs on it")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The notice is long for the cause that TestClique has one.
	s, out := begin(ctx, t, "storm", "--duration", "10s", "--dead", "5s", "--requests", "1000", "--notice", "10s", "--timeout", "2m",
		"--workers", "8", "--rate", "20", "--long-from", "500ms", "--longest", "3s")
	printed, err := io.ReadAll(out)
	if err := errors.Join(err, s.cmd.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, s.output)
	}
	t.Logf("%s", printed)
	lines := strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n")
	var failed, sent, doomed int
	last := lines[len(lines)-1]
	if _, err := fmt.Sscanf(last, "handed over failed %d of %d requests, and %d on the dead node;", &failed, &sent, &doomed); err != nil {
		t.Fatalf("the last line is %q: %v", last, err)
	}
	if failed != 0 || sent < 1000 {
		t.Errorf("not as promised: %s", last)
	}
	for _, what := range []string{"is drained", "may have jobs again", "is upgraded", "a rival starts", "the rival is aborted", "dies", "starts again"} {
		if !strings.Contains(string(printed), what) {
			t.Errorf("nothing of what happened %q", what)
		}
	}
	for _, name := range []string{"storm-handed-over.svg", "storm-handed-over.png", "storm-plain.svg", "storm-plain.png"} {
		if info, err := os.Stat(filepath.Join(s.pictures, name)); err != nil || info.Size() == 0 {
			t.Errorf("picture %s: %v", name, err)
		}
	}
	s.leavesNothing(t)
}

// TestInterrupted ends the example while requests flow: its cluster goes with it.
func TestInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("clusters")
	}
	for name, tc := range map[string]struct {
		verb      string
		flags     []string
		signal    syscall.Signal
		wantCode  int
		wantPrint string
	}{
		"by Ctrl-C":             {"show", []string{"--agents", "1"}, syscall.SIGINT, 1, "clique: interrupted"},
		"by kill -9":            {"show", []string{"--agents", "1"}, syscall.SIGKILL, -1, ""},
		"in a storm, by Ctrl-C": {"storm", nil, syscall.SIGINT, 1, "clique: interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s, out := begin(ctx, t, tc.verb, tc.flags...)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if strings.Contains(lines.Text(), "instances are ready") {
					if err := s.cmd.Process.Signal(tc.signal); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := s.cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.wantCode || !strings.Contains(s.output.String(), tc.wantPrint) {
				t.Errorf("it ended with %v\n%s", err, s.output)
			}
			s.leavesNothing(t)
		})
	}
}

func TestFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"defaults":               {nil, ""},
		"what is no flag":        {[]string{"now"}, "clique show now: takes only flags"},
		"times that do not work": {[]string{"--long", "5s"}, "must be more than the notice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configure(tc.args)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"defaults":               {nil, ""},
		"what is no flag":        {[]string{"now"}, "clique storm now: takes only flags"},
		"times that do not work": {[]string{"--timeout", "5s"}, "half of the timeout 5s must be more than the notice"},
		"too few nodes":          {[]string{"--agents", "3"}, "must be at least 4"},
	} {
		t.Run("storm, "+name, func(t *testing.T) {
			c, err := configureStorm(append([]string{"--seed", "7"}, tc.args...))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || c.Load.Seed != 7 {
				t.Errorf("got %v with seed %d, want %q", err, c.Load.Seed, tc.want)
			}
		})
	}
	t.Setenv("WEIR_PORT_0", "")
	if err := serve(nil); err == nil || !strings.Contains(err.Error(), "WEIR_PORT_0 is not set") {
		t.Errorf("an instance without a port: %v", err)
	}
}

package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// patience is the deadline of every wait; nothing takes nearly as long.
const patience = 2 * time.Minute

// proxyPath is the weir-jobproxy that all tests use.
var proxyPath string

// TestMain builds the proxy, or is a job when a test has started it as one.
func TestMain(m *testing.M) {
	if act := os.Getenv("WEIR_TEST_ACT"); act != "" {
		os.Exit(play(act))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "weir-jobproxy-build")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	proxyPath = filepath.Join(folder, "weir-jobproxy")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", proxyPath, "weir/cmd/weir-jobproxy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build weir-jobproxy: %v\n%s", err, text)
		return 1
	}
	return m.Run()
}

// backends are the ways to hold a job together that this machine has.
var backends = map[string]func(t testing.TB, node string) runner.Cgroups{
	"with cgroups": func(t testing.TB, node string) runner.Cgroups {
		found := runner.DetectCgroups("/", node)
		if found.Node.None() {
			t.Skipf("this machine has no cgroups for the test: %s", found.Reason)
		}
		return found
	},
	"as a process tree": func(testing.TB, string) runner.Cgroups {
		return runner.Cgroups{Reason: "the test wants none"}
	},
}

// onEachBackend runs a test with each backend.
func onEachBackend(t *testing.T, test func(t *testing.T, f *fixture)) {
	onEachBackendWith(t, func(*runner.Config) {}, test)
}

// onEachBackendWith has a runner of another configuration.
func onEachBackendWith(t *testing.T, change func(*runner.Config), test func(t *testing.T, f *fixture)) {
	for name, detect := range backends {
		t.Run(name, func(t *testing.T) {
			test(t, newFixture(t, detect, change))
		})
	}
}

// fixture is a runner that leaves nothing behind, or the test fails.
type fixture struct {
	*runner.Runner
	config runner.Config
	ctx    context.Context
}

func newFixture(t testing.TB, detect func(testing.TB, string) runner.Cgroups, change ...func(*runner.Config)) *fixture {
	leaks := goleak.IgnoreCurrent()
	node := fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())
	config := runner.DefaultConfig()
	config.Root = filepath.Join(t.TempDir(), "agent")
	config.ProxyPath = proxyPath
	config.NodeName = node
	config.Cgroups = detect(t, node)
	// Most tests are about other things than as whom jobs run.
	config.Users, config.Claims = runner.Users{Root: true}, filepath.Join(t.TempDir(), "job-uids")
	config.SamplePeriod = 50 * time.Millisecond
	config.Logger = slog.New(slog.NewTextHandler(testLog{t}, nil))
	for _, c := range change {
		c(&config)
	}
	f := &fixture{config: config, ctx: t.Context()}
	t.Cleanup(func() {
		f.checkNothingLeft(t)
		if !t.Failed() {
			for end := time.Now().Add(patience); goleak.Find(leaks) != nil && time.Now().Before(end); pause() {
				continue
			}
			goleak.VerifyNone(t, leaks)
		}
	})
	f.open(t)
	return f
}

// open opens the runner, again after it was closed or abandoned.
func (f *fixture) open(t testing.TB) {
	t.Helper()
	opened, err := runner.Open(f.config)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	f.Runner = opened
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// checkNothingLeft looks for processes, groups and folders after Close.
func (f *fixture) checkNothingLeft(t testing.TB) {
	t.Helper()
	if groups, err := cgroup.Jobs(f.config.Cgroups.Node); err != nil || len(groups) > 0 {
		t.Errorf("groups left: %v, %v", groups, err)
	}
	if !f.config.Cgroups.Node.None() {
		for _, folder := range []string{f.config.Cgroups.Node.Unified, f.config.Cgroups.Node.Memory} {
			if _, err := os.Stat(folder); folder != "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("group of the node left: %s", folder)
			}
		}
	}
	if folders, err := filepath.Glob(filepath.Join(f.config.Root, "jobs", "*")); err != nil || len(folders) > 0 {
		t.Errorf("job folders left: %v, %v", folders, err)
	}
	all, err := proctree.All()
	if err != nil {
		t.Errorf("list processes: %v", err)
	}
	for _, process := range all {
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", process.Pid))
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.Pid))
		if strings.Contains(string(environment), proxyproto.TreeVariable+"="+f.config.Root) || strings.Contains(string(command), f.config.Root) {
			t.Errorf("process left: %d %s (%q)", process.Pid, process.Name, command)
		}
	}
}

// start starts a job with a lease that outlives the test.
func (f *fixture) start(t testing.TB, spec runner.JobSpec) *runner.Job {
	t.Helper()
	if spec.ID == "" {
		spec.ID = "job"
	}
	if spec.Lease == 0 {
		spec.Lease = 10 * patience
	}
	job, err := f.Start(f.ctx, spec)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return job
}

// finished waits for the end of a job.
func finished(t testing.TB, job *runner.Job) *runner.Result {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event, open := <-job.Events():
			if !open {
				t.Fatalf("job %s: events ended without Exited", job.ID())
			}
			if exited, is := event.(runner.Exited); is {
				return exited.Result
			}
		case <-deadline:
			t.Fatalf("job %s did not end within %v", job.ID(), patience)
		}
	}
}

// run runs a job to its end.
func (f *fixture) run(t testing.TB, spec runner.JobSpec) *runner.Result {
	t.Helper()
	return finished(t, f.start(t, spec))
}

// output reads all of a stream.
func (f *fixture) output(t testing.TB, job, stream string) string {
	t.Helper()
	var text strings.Builder
	for offset := int64(0); ; {
		part, err := f.ReadOutput(job, stream, offset, 1<<20)
		if err != nil {
			t.Fatalf("ReadOutput: %v", err)
		}
		text.Write(part.Data)
		if offset = part.Next; len(part.Data) == 0 {
			return text.String()
		}
	}
}

// awaitOutput waits until standard output holds so many lines, and returns them.
func (f *fixture) awaitOutput(t testing.TB, job *runner.Job, lines int) []string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		// Asked before its output is read, which is then all.
		result := job.Result()
		if text := f.output(t, job.ID(), "stdout"); strings.Count(text, "\n") >= lines {
			return strings.Split(strings.TrimSpace(text), "\n")
		}
		if result != nil {
			t.Fatalf("job ended before it printed %d lines: %+v", lines, result)
		}
		if time.Now().After(deadline) {
			t.Fatalf("job did not print %d lines within %v", lines, patience)
		}
		pause()
	}
}

// pause lets other processes go on while a condition is polled.
func pause() { <-time.After(5 * time.Millisecond) }

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); pause() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// testLog writes log lines to the test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

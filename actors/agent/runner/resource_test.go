package runner_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/output"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

func TestPrintsGigabytes(t *testing.T) {
	f := newFixture(t, backends["with cgroups"], func(c *runner.Config) {
		c.Output = runner.OutputLimits{Stdout: 1 << 20, Stderr: 1 << 10}
	})
	job := f.start(t, runner.JobSpec{Shell: "echo first; head -c 2G /dev/zero; echo last"})
	folder := filepath.Join(f.config.Root, "output", job.ID())
	var most int64
	eventually(t, "the job ends", func() bool {
		if size, err := output.Size(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		} else {
			most = max(most, size)
		}
		return job.Result() != nil
	})
	result := finished(t, job)
	if most > 1<<20 {
		t.Errorf("output took %d bytes of disk, want at most 1 MiB", most)
	}
	wantBytes := int64(2<<30 + len("first\nlast\n"))
	if result.Outcome != proxyproto.OutcomeExited || result.Statistics.StdoutBytes != wantBytes {
		t.Errorf("result %+v, want it exited after %d bytes", result, wantBytes)
	}
	text := f.output(t, job.ID(), "stdout")
	marker := fmt.Sprintf("[weir: %d bytes dropped here]", result.Statistics.StdoutDroppedBytes)
	if !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "last\n") || !strings.Contains(text, marker) {
		t.Errorf("stdout begins %q, ends %q, want first, last and %q between", text[:20], text[len(text)-20:], marker)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("WEIR_TEST_SECRET", "of the agent")
	f := newFixture(t, backends["as a process tree"])
	job := f.start(t, runner.JobSpec{Shell: "env | sort; echo; pwd", Environment: map[string]string{"COLOUR": "red", "HOME": "/nowhere"}})
	finished(t, job)
	workspace := filepath.Join(f.config.Root, "jobs", job.ID(), "work")
	text := f.output(t, job.ID(), "stdout")
	variables, folder, _ := strings.Cut(text, "\n\n")
	want := []string{
		"COLOUR=red", "HOME=/nowhere",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PWD=" + workspace, // the shell's own
		"TMPDIR=" + workspace,
		"WEIR_DISCOVERY=" + filepath.Join(filepath.Dir(workspace), "discovery.sock"),
		"WEIR_NOTICE=" + filepath.Join(workspace, ".weir", "notice.json"),
		"WEIR_PROCESS_TREE=" + filepath.Dir(workspace),
	}
	if variables != strings.Join(want, "\n") {
		t.Errorf("environment:\n%s\nwant:\n%s", variables, strings.Join(want, "\n"))
	}
	if strings.TrimSpace(folder) != workspace {
		t.Errorf("working directory %q, want the workspace %q", folder, workspace)
	}
}

func TestLimitsReachTheKernel(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	if !f.config.Cgroups.Node.Hybrid() {
		t.Skip("this machine's cgroups are v2; the fake tree tests them")
	}
	job := f.start(t, runner.JobSpec{Shell: "sleep 1000 & echo ready; wait", CPULimit: 0.5, CPUWeight: 50, MemoryLimit: 64 << 20, PidsLimit: 7})
	f.awaitOutput(t, job, 1)
	place := f.config.Cgroups.Node
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("read limit: %v", err)
		}
		return strings.TrimSpace(string(content))
	}
	// Who puts the job into its group is in it for a moment, and has a place of its own.
	eventually(t, "the job is alone in its group", func() bool {
		return read(filepath.Join(place.Pids, "job", "pids.max")) == "7" && read(filepath.Join(place.Pids, "job", "pids.current")) == "2"
	})
	for path, want := range map[string]string{
		filepath.Join(place.CPU, "job", "cpu.cfs_quota_us"):              "50000",
		filepath.Join(place.CPU, "job", "cpu.shares"):                    "512",
		filepath.Join(place.Memory, "job", "memory.limit_in_bytes"):      strconv.Itoa(64 << 20),
		filepath.Join(place.Pids, "job", "pids.current"):                 "2",
		filepath.Join(place.Memory, "job", "memory.kmem.limit_in_bytes"): "",
	} {
		if got := read(path); want != "" && got != want {
			t.Errorf("%s is %q, want %s", path, got, want)
		}
	}
}

// TestForkBombsLeaveRoom (T2) has a job that asks for more processes than the machine can have: it gets a quarter,
// and all jobs together get half, so that the agent, its other jobs and whoever else is there can start some.
func TestForkBombsLeaveRoom(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	most, err := cgroup.MostProcesses("/")
	if err != nil {
		t.Fatal(err)
	}
	folder := cmp.Or(f.config.Cgroups.Node.Pids, f.config.Cgroups.Node.Unified)
	limit := func(path string) int64 {
		text, err := os.ReadFile(filepath.Join(path, "pids.max"))
		number, parseErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || parseErr != nil {
			t.Fatalf("%s: %v, %v", path, err, parseErr)
		}
		return number
	}
	if got := limit(folder); got > most/2 {
		t.Errorf("all jobs may have %d processes, of %d of the machine", got, most)
	}
	for id, asked := range map[string]int{"many": 4194304, "any": 0} {
		job := f.start(t, runner.JobSpec{ID: id, Shell: "echo ready; sleep 1000", PidsLimit: asked})
		f.awaitOutput(t, job, 1)
		// Who puts the job into its group is in it for a moment, and has a place of its own.
		eventually(t, "the job has its limit", func() bool { return limit(filepath.Join(folder, id)) == most/4 })
	}
}

func TestPidsLimit(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	result := f.run(t, runner.JobSpec{Shell: "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait", PidsLimit: 4})
	if result.Outcome != proxyproto.OutcomeExited || result.ExitCode == 0 {
		t.Errorf("result %+v, want the shell to fail", result)
	}
	if text := f.output(t, "job", "stderr"); !strings.Contains(strings.ToLower(text), "fork") {
		t.Errorf("stderr %q, want the fork refused", text)
	}
}

func TestStatistics(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, acting("hog", "100"))
		var last runner.Sample
		started := false
		for last.Memory < 100<<20 {
			switch event := (<-job.Events()).(type) {
			case runner.Started:
				started = true
				if process, err := proctree.Read(event.Pid); err != nil || process.Gone {
					t.Errorf("Started with pid %d, which is not there: %v", event.Pid, err)
				}
			case runner.Sample:
				if last = event; !started {
					t.Error("Sample before Started")
				}
			default:
				t.Fatalf("event %+v before the hog was full", event)
			}
		}
		if err := job.Stop("full", 0); err != nil {
			t.Fatal(err)
		}
		statistics := finished(t, job).Statistics
		if statistics.MaxMemory < 100<<20 || statistics.MaxMemory > 400<<20 {
			t.Errorf("max memory %d, want about 100 MiB", statistics.MaxMemory)
		}
		if statistics.CumulativeMaxMemory < last.Statistics.CumulativeMaxMemory || statistics.CumulativeMaxMemory <= 0 {
			t.Errorf("cumulative max memory %g, after a sample with %g", statistics.CumulativeMaxMemory, last.Statistics.CumulativeMaxMemory)
		}
		if statistics.CPUUserMicros+statistics.CPUSystemMicros <= 0 {
			t.Errorf("cpu times are %d and %d", statistics.CPUUserMicros, statistics.CPUSystemMicros)
		}
	})
}

// TestTimersOfJobs are as punctual as those of other processes, if not those of the proxy.
func TestTimersOfJobs(t *testing.T) {
	needsRoot(t) // to see those of another process
	f := newFixture(t, backends["as a process tree"])
	job := f.start(t, runner.JobSpec{Shell: "cat /proc/self/timerslack_ns /proc/$PPID/timerslack_ns"})
	finished(t, job)
	want := fmt.Sprintf("%d\n%d\n", proxyproto.UsualTimerSlack.Nanoseconds(), proxyproto.TimerSlack.Nanoseconds())
	if text := f.output(t, job.ID(), "stdout"); text != want {
		t.Errorf("slack of the job and of its proxy %q, want %q", text, want)
	}
}

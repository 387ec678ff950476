package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
)

func TestRelease(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{Shell: "mkdir -p a/b; touch a/b/c; chmod 0 a/b a; echo kept"})
		finished(t, job)
		for range 2 {
			if err := job.Release(); err != nil {
				t.Fatalf("Release: %v", err)
			}
		}
		if _, err := os.Stat(filepath.Join(f.config.Root, "jobs", "job")); !os.IsNotExist(err) {
			t.Errorf("job's folder after Release: %v, want it gone", err)
		}
		part, err := f.ReadOutput("job", "stdout", 0, 100)
		if err != nil || string(part.Data) != "kept\n" || !part.End {
			t.Errorf("ReadOutput: %+v, %v, want all of it", part, err)
		}
		if f.Job("job") != nil {
			t.Error("Job: there is one after its release")
		}
		if _, err := f.Start(f.ctx, runner.JobSpec{ID: "job", Shell: "true", Lease: patience}); !errors.Is(err, runner.ErrJobExists) {
			t.Errorf("Start with a used id: %v, want ErrJobExists", err)
		}
	})
}

func TestRetention(t *testing.T) {
	tests := map[string]struct {
		retain   runner.Retain
		wantKept []string
	}{
		"by number of jobs": {retain: runner.Retain{Jobs: 2, Bytes: 1 << 20}, wantKept: []string{"job-3", "job-4"}},
		"by bytes":          {retain: runner.Retain{Jobs: 100, Bytes: 350}, wantKept: []string{"job-2", "job-3", "job-4"}},
		"nothing":           {retain: runner.Retain{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, backends["as a process tree"], func(c *runner.Config) { c.Retain = test.retain })
			for i := range 5 {
				job := f.start(t, runner.JobSpec{ID: "job-" + strconv.Itoa(i), Shell: "head -c 100 /dev/zero"})
				finished(t, job)
				if err := job.Release(); err != nil {
					t.Fatal(err)
				}
			}
			check := func() {
				t.Helper()
				var kept []string
				for i := range 5 {
					id := "job-" + strconv.Itoa(i)
					if _, err := f.ReadOutput(id, "stdout", 0, 10); err == nil {
						kept = append(kept, id)
					} else if !errors.Is(err, runner.ErrOutputGone) {
						t.Errorf("ReadOutput of %s: %v, want ErrOutputGone", id, err)
					}
				}
				if strings.Join(kept, " ") != strings.Join(test.wantKept, " ") {
					t.Errorf("kept %v, want %v", kept, test.wantKept)
				}
			}
			check()
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f.open(t)
			check()
		})
	}
}

func TestReadOutputRefuses(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	tests := map[string]struct {
		job, stream string
		limit       int64
		wantError   string
	}{
		"a job that never was":       {job: "nobody", stream: "stdout", limit: 1, wantError: "no longer kept"},
		"a stream that there is not": {job: "job", stream: "stdin", limit: 1, wantError: "want stdout or stderr"},
		"a path":                     {job: "../../etc", stream: "stdout", limit: 1, wantError: "bad name"},
		"no limit":                   {job: "job", stream: "stdout", wantError: "limit 0"},
	}
	f.run(t, runner.JobSpec{Shell: "true"})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := f.ReadOutput(test.job, test.stream, 0, test.limit); err == nil || !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("ReadOutput: %v, want an error with %q", err, test.wantError)
			}
		})
	}
}

func TestOpenRefusesASecondAgent(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		if _, err := runner.Open(f.config); !errors.Is(err, runner.ErrInUse) {
			t.Errorf("Open of the same root: %v, want ErrInUse", err)
		}
	})
}

func TestOpenRefusesBadConfig(t *testing.T) {
	tests := map[string]struct {
		change    func(*runner.Config)
		wantError string
	}{
		"no root":             {change: func(c *runner.Config) { c.Root = "" }, wantError: "Root"},
		"a missing proxy":     {change: func(c *runner.Config) { c.ProxyPath = "/no/proxy" }, wantError: "ProxyPath"},
		"a proxy that is not": {change: func(c *runner.Config) { c.ProxyPath = "/etc/passwd" }, wantError: "not an executable"},
		"a node with a slash": {change: func(c *runner.Config) { c.NodeName = "a/b" }, wantError: "NodeName"},
		"no sample period":    {change: func(c *runner.Config) { c.SamplePeriod = 0 }, wantError: "SamplePeriod"},
		"no time to end":      {change: func(c *runner.Config) { c.EndTimeout = 0 }, wantError: "EndTimeout"},
		"a negative limit":    {change: func(c *runner.Config) { c.Output.Stderr = -1 }, wantError: "Output"},
	}
	f := newFixture(t, backends["as a process tree"])
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := f.config
			test.change(&config)
			if _, err := runner.Open(config); err == nil || !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("Open: %v, want an error with %q", err, test.wantError)
			}
		})
	}
}

func TestCloseEndsAllJobs(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		var jobs []*runner.Job
		for i := range 5 {
			jobs = append(jobs, f.start(t, runner.JobSpec{ID: "job-" + strconv.Itoa(i), Shell: "trap '' TERM; sleep 1000"}))
		}
		if err := f.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		for _, job := range jobs {
			if result := finished(t, job); result.Reason != "the agent is closing" {
				t.Errorf("result %+v, want it stopped by the agent", result)
			}
		}
		if _, err := f.Start(f.ctx, runner.JobSpec{ID: "late", Shell: "true", Lease: patience}); !errors.Is(err, runner.ErrClosed) {
			t.Errorf("Start after Close: %v, want ErrClosed", err)
		}
	})
}

// TestPausedProxy stops a proxy for a while: nothing is lost.
func TestPausedProxy(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	job := f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000"})
	f.awaitOutput(t, job, 1)
	proxy := f.proxyOf(t, job)
	if err := proctree.Signal(proxy.Identity, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := job.Stop("told while paused", 0); err != nil {
		t.Fatal(err)
	}
	if err := proctree.Signal(proxy.Identity, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if result := finished(t, job); result.Reason != "told while paused" {
		t.Errorf("result %+v, want it stopped", result)
	}
}

func TestMachine(t *testing.T) {
	got, err := runner.Machine("/")
	if err != nil || got.CPU <= 0 || got.Memory < 1<<28 {
		t.Errorf("Machine: %+v, %v", got, err)
	}
}

func TestShortfall(t *testing.T) {
	none := runner.DetectCgroups(t.TempDir(), "node")
	if !none.Node.None() || !strings.Contains(none.Shortfall(), "no such file") || !strings.Contains(none.Shortfall(), "cpu and pids limits are not enforced") {
		t.Errorf("%+v, shortfall %q", none.Node, none.Shortfall())
	}
}

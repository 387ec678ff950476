package runner_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// pidsOf reads process ids printed by a job.
func pidsOf(t *testing.T, lines []string) []int {
	t.Helper()
	var pids []int
	for _, line := range lines {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("job printed %q, want a pid", line)
		}
		pids = append(pids, pid)
	}
	return pids
}

// checkGone waits until none of the processes lives: they leave their group a moment before.
func checkGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}

func TestStop(t *testing.T) {
	tests := map[string]struct {
		shell        string
		grace        time.Duration
		wantExitCode int
		wantSignal   string
	}{
		"a job that goes when asked":     {shell: `trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`, grace: 10 * patience, wantExitCode: 3},
		"a job that dies when asked":     {shell: `echo ready; exec sleep 1000`, grace: 10 * patience, wantExitCode: -1, wantSignal: "SIGTERM"},
		"a job that ignores the request": {shell: `trap '' TERM; echo ready; while :; do sleep 0.01; done`, grace: 50 * time.Millisecond, wantExitCode: -1, wantSignal: "SIGKILL"},
		"no grace":                       {shell: `trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`, wantExitCode: -1, wantSignal: "SIGKILL"},
	}
	onEachBackend(t, func(t *testing.T, f *fixture) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				job := f.start(t, runner.JobSpec{ID: strings.ReplaceAll(name, " ", "-"), Shell: test.shell})
				f.awaitOutput(t, job, 1)
				if err := job.Stop("because", test.grace); err != nil {
					t.Fatalf("Stop: %v", err)
				}
				if err := job.Stop("another reason", 10*patience); err != nil {
					t.Fatalf("second Stop: %v", err)
				}
				result := finished(t, job)
				if result.Outcome != proxyproto.OutcomeStopped || result.Reason != "because" {
					t.Errorf("result %+v, want it stopped, because", result)
				}
				if result.ExitCode != test.wantExitCode || result.Signal != test.wantSignal {
					t.Errorf("exit code %d, signal %q, want %d, %q", result.ExitCode, result.Signal, test.wantExitCode, test.wantSignal)
				}
			})
		}
	})
}

func TestEndsProcessesInOtherSessions(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		t.Run("when stopped", func(t *testing.T) {
			job := f.start(t, withID("stopped", acting("setsid", "stay")))
			pids := pidsOf(t, f.awaitOutput(t, job, 2))
			if err := job.Stop("enough", 0); err != nil {
				t.Fatal(err)
			}
			finished(t, job)
			checkGone(t, pids)
		})
		t.Run("when the root process has gone", func(t *testing.T) {
			// The orphan lives until the root ends, which waits to be told.
			job := f.start(t, withID("left", runner.JobSpec{
				Shell:       `trap 'exit 5' INT; ` + self() + ` leave; while :; do sleep 0.01; done`,
				Environment: map[string]string{"WEIR_TEST_ACT": "setsid"},
			}))
			pids := pidsOf(t, f.awaitOutput(t, job, 1))
			if err := job.Interrupt(runner.Interruption{Signal: "SIGINT", RootOnly: true, Grace: never}); err != nil {
				t.Fatal(err)
			}
			if result := finished(t, job); result.Outcome != proxyproto.OutcomeExited || result.ExitCode != 5 {
				t.Errorf("result %+v, want exit code 5", result)
			}
			checkGone(t, pids)
		})
	})
}

func withID(id string, spec runner.JobSpec) runner.JobSpec {
	spec.ID = id
	return spec
}

func TestTimeLimit(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		result := f.run(t, runner.JobSpec{Shell: "sleep 1000", TimeLimit: 100 * time.Millisecond})
		if result.Outcome != proxyproto.OutcomeTimeLimitExceeded || !strings.Contains(result.Error, "100ms") {
			t.Errorf("result %+v, want the time limit exceeded and named", result)
		}
		if result.Duration() < 100*time.Millisecond {
			t.Errorf("ended after %v, before its limit", result.Duration())
		}
	})
}

func TestLease(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, withID("renewed", runner.JobSpec{Shell: "echo ready; sleep 1000", Lease: 10 * patience}))
		f.awaitOutput(t, job, 1)
		// Who is paused for as long as the lease tells nothing, and tells it again.
		for begun := time.Now(); job.Result() == nil && time.Since(begun) < patience; <-time.After(500 * time.Millisecond) {
			f.RenewAll(clock.Boot() + 50*time.Millisecond)
		}
		result := finished(t, job)
		if result.Outcome != proxyproto.OutcomeLeaseExpired {
			t.Errorf("result %+v, want the lease expired", result)
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	tests := map[string]runner.JobSpec{
		"the root process":               acting("hog", "1000"),
		"a child of the root":            acting("hog-child", "1000"),
		"a child that pauses on its way": acting("hog-child", "1000", "70"),
	}
	onEachBackend(t, func(t *testing.T, f *fixture) {
		for name, spec := range tests {
			t.Run(name, func(t *testing.T) {
				spec.ID = strings.ReplaceAll(name, " ", "-")
				spec.MemoryLimit = 128 << 20
				result := f.run(t, spec)
				if result.Outcome != proxyproto.OutcomeMemoryLimitExceeded || result.Memory == nil {
					t.Fatalf("result %+v, want the memory limit exceeded", result)
				}
				if result.Memory.Limit != 128<<20 || result.Memory.Usage < 120<<20 {
					t.Errorf("memory %+v, want the limit of 128 MiB met", result.Memory)
				}
				// A child in a group may grow and be killed by the kernel between two samples.
				seen := f.config.Cgroups.Node.None() || name == "the root process"
				biggest := result.Memory.Biggest
				if seen && (len(biggest) == 0 || biggest[0].Bytes < 32<<20 || strings.HasPrefix(name, "a child") == (biggest[0].Pid == result.Pid)) {
					t.Errorf("biggest processes %+v, want the hog first", biggest)
				}
				if result.Statistics.MaxMemory < 120<<20 {
					t.Errorf("max memory %d, want about the limit", result.Statistics.MaxMemory)
				}
			})
		}
	})
}

func TestProxyKilled(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, acting("setsid", "stay"))
		pids := pidsOf(t, f.awaitOutput(t, job, 2))
		proxy, err := proctree.Read(pids[0])
		// The proxy is the ancestor whose parent is this process.
		for err == nil && proxy.Parent != os.Getpid() {
			proxy, err = proctree.Read(proxy.Parent)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := proctree.Signal(proxy.Identity, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		result := finished(t, job)
		if result.Outcome != proxyproto.OutcomeProxyFailed || !strings.Contains(result.Error, "killed") {
			t.Errorf("result %+v, want the proxy failed, killed", result)
		}
		checkGone(t, pids)
	})
}

func TestRefusedSpecs(t *testing.T) {
	tests := map[string]struct {
		spec      runner.JobSpec
		wantError string
	}{
		"no command":                {spec: runner.JobSpec{ID: "j", Lease: 1}, wantError: "argv"},
		"no id":                     {spec: runner.JobSpec{Shell: "true", Lease: 1}, wantError: "1 to 200 characters"},
		"an id that climbs":         {spec: runner.JobSpec{ID: "../up", Shell: "true", Lease: 1}, wantError: "dot"},
		"an id with a slash":        {spec: runner.JobSpec{ID: "a/b", Shell: "true", Lease: 1}, wantError: `'/'`},
		"no lease":                  {spec: runner.JobSpec{ID: "j", Shell: "true"}, wantError: "lease"},
		"a variable with =":         {spec: runner.JobSpec{ID: "j", Shell: "true", Lease: 1, Environment: map[string]string{"A=B": "c"}}, wantError: "environment"},
		"a negative memory limit":   {spec: runner.JobSpec{ID: "j", Shell: "true", Lease: 1, MemoryLimit: -1}, wantError: "memory_limit"},
		"a command of a megabyte":   {spec: runner.JobSpec{ID: "j", Shell: strings.Repeat("x", 2<<20), Lease: 1}, wantError: "at most 1048576"},
		"a time limit of an age":    {spec: runner.JobSpec{ID: "j", Shell: "true", Lease: 1, TimeLimit: 1<<63 - 1}, wantError: "time_limit"},
		"a negative number of pids": {spec: runner.JobSpec{ID: "j", Shell: "true", Lease: 1, PidsLimit: -1}, wantError: "pids_limit"},
	}
	f := newFixture(t, backends["as a process tree"])
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := f.Start(f.ctx, test.spec); err == nil || !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("Start: %v, want an error with %q", err, test.wantError)
			}
		})
	}
	job := f.start(t, runner.JobSpec{Shell: "sleep 1000"})
	if _, err := f.Start(f.ctx, runner.JobSpec{ID: job.ID(), Shell: "true", Lease: 1}); !errors.Is(err, runner.ErrJobExists) {
		t.Errorf("second Start: %v, want ErrJobExists", err)
	}
	if err := job.Release(); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("Release of a running job: %v, want an error", err)
	}
}

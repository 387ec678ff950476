package runner_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
	"weir/scheduling/statistics"
)

// separateJobs have users of their own, one after another.
var separateJobs = as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_099}})

// onEachBackendWithRoot runs a test of separate jobs with each backend.
func onEachBackendWithRoot(t *testing.T, test func(t *testing.T, f *fixture)) {
	needsRoot(t)
	onEachBackendWith(t, separateJobs, test)
}

// supervisor is the proxy of a job that has not been released.
func (f *fixture) supervisor(t testing.TB, id string) proxyproto.Identity {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(f.config.Root, "jobs", id, proxyproto.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	identity, rest, found := proxyproto.CutIdentity(log)
	if !found || len(rest) > 0 {
		t.Fatalf("the log of the proxy of %s: %q", id, log)
	}
	return identity
}

// serve runs a job to its end and releases it. It returns its proxy, its result and its output.
func (f *fixture) serve(t testing.TB, spec runner.JobSpec) (proxyproto.Identity, *runner.Result, string) {
	t.Helper()
	job := f.start(t, spec)
	result := finished(t, job)
	proxy := f.supervisor(t, job.ID())
	text := f.output(t, job.ID(), "stdout")
	if err := job.Release(); err != nil {
		t.Fatal(err)
	}
	return proxy, result, text
}

// letGo makes the file that a job waits for.
func (f *fixture) letGo(t testing.TB, id string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.config.Root, "jobs", id, proxyproto.WorkspaceFolder, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestProxyRunsJobsInTurn (T2): the proxy of a plain job runs the next ones too. Each is the only one in its
// namespaces, has a user and an environment of its own, and its results are its own. The proxy keeps nothing open.
func TestProxyRunsJobsInTurn(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		const see = `id -u; echo "$NAME"; ls -d /proc/[0-9]* | wc -l; ls /proc/self/fd | wc -l; pwd; ls -A | tr '\n' ' '; `
		var first proxyproto.Identity
		var open int
		for i := range 8 {
			id := fmt.Sprint("job-", i)
			isolation := []string{proxyproto.IsolationDefault, proxyproto.IsolationStrict}[i/2%2]
			proxy, result, text := f.serve(t, runner.JobSpec{
				ID: id, Isolation: isolation, Environment: map[string]string{"NAME": id}, PidsLimit: 50, MemoryLimit: 256 << 20,
				Shell: see + fmt.Sprintf("touch left; (sleep 1000 &); exit %d", i),
			})
			if result.Outcome != proxyproto.OutcomeExited || result.ExitCode != i || result.JobID != id {
				t.Errorf("%s: %+v", id, result)
			}
			lines := strings.Split(text, "\n")
			if want := []string{fmt.Sprint(200_000 + i), id}; lines[0] != want[0] || lines[1] != want[1] || !strings.HasSuffix(lines[4], id+"/work") || strings.Contains(lines[5], "left") {
				t.Errorf("%s sees %q, want %q", id, lines, want)
			}
			// The proxy, the shell, and one or two processes of the pipe.
			if lines[2] != "3" && lines[2] != "4" || lines[3] != "4" {
				t.Errorf("%s sees %s processes and has %s descriptors", id, lines[2], lines[3])
			}
			descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", proxy.Pid))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case i == 0:
				first = proxy
			case i == 1:
				open = len(descriptors)
			case len(descriptors) != open:
				t.Errorf("the proxy has %d open files after %s, and %d after the second job", len(descriptors), id, open)
			}
			if proxy != first {
				t.Errorf("%s has another proxy", id)
			}
		}
	})
}

// TestResultsAreOfOneJob: what an earlier job of the proxy has used is not in them.
func TestResultsAreOfOneJob(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		const much = 64 << 20
		first, big, _ := f.serve(t, runner.JobSpec{ID: "big", Shell: `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; head -c 64M /dev/zero | tail -c 64M | wc -c`})
		second, small, _ := f.serve(t, runner.JobSpec{ID: "small", Shell: "true"})
		if first != second {
			t.Error("they have two proxies: nothing is tested")
		}
		for name, least := range map[string]int64{statistics.UserCPUUser: 1, statistics.UserMaxMemory: much, statistics.UserContextSwitches: 1} {
			before, after := big.Statistics.Values[name], small.Statistics.Values[name]
			if before < least || after >= before {
				t.Errorf("%s: %d, then %d", name, before, after)
			}
		}
		if start := small.StartTime; start.Before(big.EndTime) || small.EndTime.Before(start) {
			t.Errorf("the second job ran from %v to %v, after %v", start, small.EndTime, big.EndTime)
		}
	})
}

// TestProxyThatKeepsSomethingExits (T3): what has had secrets, or may have something of its job left, runs no other job.
func TestProxyThatKeepsSomethingExits(t *testing.T) {
	needsRoot(t)
	tests := map[string]struct {
		spec runner.JobSpec
		act  func(t *testing.T, f *fixture, job *runner.Job)
	}{
		"secrets": {spec: runner.JobSpec{Secrets: map[string]string{"TOKEN": "hunter2"}, Shell: `test "$WEIR_SECURE_VAULT_TOKEN" = hunter2`}},
		"tmpfs":   {spec: runner.JobSpec{Tmpfs: []proxyproto.Tmpfs{{Path: "fast", Size: 1 << 20}}, Shell: "echo x > fast/file"}},
		"a probe": {
			spec: runner.JobSpec{Shell: "echo ready; while [ ! -e go ]; do sleep 0.01; done"},
			act: func(t *testing.T, f *fixture, job *runner.Job) {
				f.awaitOutput(t, job, 1)
				if err := job.Probe(t.Context(), []string{"true"}, patient); err != nil {
					t.Error(err)
				}
				f.letGo(t, "job")
			},
		},
		"no such program": {spec: runner.JobSpec{Argv: []string{"/no/such/program"}}},
		"another program": {
			spec: runner.JobSpec{Shell: "true"},
			act: func(t *testing.T, f *fixture, _ *runner.Job) {
				at := time.Unix(1_000_000_000, 0)
				if err := os.Chtimes(f.config.ProxyPath, at, at); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onEachBackendWith(t, ownProgram(t), func(t *testing.T, f *fixture) {
				// It comes to a proxy that waits, and leaves none.
				before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
				test.spec.ID, test.spec.Lease = "job", 10*patience
				job := f.start(t, test.spec)
				if test.act != nil {
					test.act(t, f, job)
				}
				finished(t, job)
				if name != "no such program" && f.supervisor(t, "job") != before {
					t.Error("it had another proxy than the one that waited")
				}
				if err := job.Release(); err != nil {
					t.Fatal(err)
				}
				// Not later: after a while it exits anyway.
				if after, result, _ := f.serve(t, runner.JobSpec{ID: "after", Shell: "true"}); after == before || result.Outcome != proxyproto.OutcomeExited {
					t.Errorf("then %+v", result)
				}
				awaitGone(t, before.Pid)
			})
		})
	}
}

// ownProgram lets jobs be separate, and a test change the program of their proxies.
func ownProgram(t *testing.T) func(*runner.Config) {
	return func(c *runner.Config) {
		separateJobs(c)
		content, err := os.ReadFile(c.ProxyPath)
		if err != nil {
			t.Fatal(err)
		}
		c.ProxyPath = filepath.Join(t.TempDir(), "weir-jobproxy")
		if err := os.WriteFile(c.ProxyPath, content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSecretsComeToAProxyThatWaits (T3): a job with secrets has them though its proxy has run another.
func TestSecretsComeToAProxyThatWaits(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		after, _, text := f.serve(t, runner.JobSpec{ID: "after", Secrets: map[string]string{"TOKEN": "hunter2"}, Shell: `echo "$WEIR_SECURE_VAULT_TOKEN"; ls /proc/self/fd | wc -l`})
		if before != after || text != "hunter2\n4\n" {
			t.Errorf("it printed %q", text)
		}
	})
}

// TestFilesAreKeptByANewProxy: one that has run other jobs would need more memory for that.
func TestFilesAreKeptByANewProxy(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		open, err := os.MkdirTemp(disktest.Reachable(t), "weir-kept")
		if err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(open) })
			err = os.Chmod(open, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
		kept := filepath.Join(open, "kept")
		after, result, _ := f.serve(t, runner.JobSpec{ID: "after", Shell: "echo x > result", Outputs: []proxyproto.KeptFile{{Path: "result", Destination: kept}}})
		if before == after || result.Outcome != proxyproto.OutcomeExited {
			t.Errorf("%+v", result)
		}
		if proctree.Alive(before) {
			t.Error("the proxy that waited is alive")
		}
	})
}

// TestProxyThatWaitsIsKilled: the next job has another.
func TestProxyThatWaitsIsKilled(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		if err := proctree.Signal(before, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, before.Pid)
		if after, result, _ := f.serve(t, runner.JobSpec{ID: "after", Shell: "true"}); after == before || result.Outcome != proxyproto.OutcomeExited {
			t.Errorf("%+v", result)
		}
	})
}

// TestProxyThatWaitedIsAdopted with its second job by an agent that starts anew, which keeps no proxy of another
// agent process. Those that wait exit with their agent.
func TestProxyThatWaitedIsAdopted(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		other := f.start(t, runner.JobSpec{ID: "other", Shell: "true"})
		before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		job := f.start(t, runner.JobSpec{ID: "job", Shell: "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 7"})
		f.awaitOutput(t, job, 1)
		finished(t, other)
		waiting := f.supervisor(t, "other")
		if err := other.Release(); err != nil {
			t.Fatal(err)
		}
		if err := f.Leave(); err != nil {
			t.Fatal(err)
		}
		if proctree.Alive(waiting) {
			t.Error("a proxy waits for an agent that has gone")
		}
		f.open(t)
		f.RenewAll(clock.Boot() + 10*patience)
		if job = f.Job("job"); job == nil || f.supervisor(t, "job") != before {
			t.Fatal("the job is not there")
		}
		f.letGo(t, "job")
		if result := finished(t, job); result.ExitCode != 7 {
			t.Errorf("%+v", result)
		}
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, before.Pid)
	})
}

// TestSecondJobLosesItsProxy: it alone is lost, with all of its processes, and the next has another proxy.
func TestSecondJobLosesItsProxy(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		job := f.start(t, runner.JobSpec{ID: "job", Shell: "setsid sleep 1000 & echo ready; sleep 1000"})
		f.awaitOutput(t, job, 1)
		if err := proctree.Signal(before, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if result := finished(t, job); result.Outcome != proxyproto.OutcomeProxyFailed {
			t.Errorf("%+v", result)
		}
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
		if _, result, _ := f.serve(t, runner.JobSpec{ID: "after", Shell: "true"}); result.Outcome != proxyproto.OutcomeExited {
			t.Errorf("%+v", result)
		}
	})
}

// TestSecondJobHasItsOwnLease: nobody renews it, and it ends.
func TestSecondJobHasItsOwnLease(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		_, result, _ := f.serve(t, runner.JobSpec{ID: "job", Shell: "sleep 1000", Lease: 100 * time.Millisecond})
		if result.Outcome != proxyproto.OutcomeLeaseExpired {
			t.Errorf("%+v", result)
		}
	})
}

// TestProxyWithoutItsSocketExits: its job's connection was lost, and with that the socket on which it could be reached again.
func TestProxyWithoutItsSocketExits(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{ID: "before", Shell: "echo ready; while [ ! -e go ]; do sleep 0.01; done"})
		f.awaitOutput(t, job, 1)
		folder, err := os.Open(filepath.Join(f.config.Root, "jobs", "before"))
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		// Another agent takes the proxy, until the first one takes it back.
		other, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), proxyproto.SocketFile))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := io.Copy(io.Discard, other); err != nil {
			t.Fatal(err)
		}
		f.letGo(t, "before")
		finished(t, job)
		before := f.supervisor(t, "before")
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
		job = f.start(t, runner.JobSpec{ID: "job", Shell: "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 7"})
		f.awaitOutput(t, job, 1)
		if after := f.supervisor(t, "job"); after == before {
			t.Error("the next job has a proxy that nobody can reach")
		}
		if err := f.Leave(); err != nil {
			t.Fatal(err)
		}
		f.open(t)
		f.RenewAll(clock.Boot() + 10*patience)
		f.letGo(t, "job")
		job = f.Job("job")
		if result := finished(t, job); result.ExitCode != 7 {
			t.Errorf("%+v", result)
		}
		if err := job.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReleaseIsTriedAgain after its last step has failed: what came before is not done twice.
func TestReleaseIsTriedAgain(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{ID: "before", Shell: "true"})
		finished(t, job)
		before := f.supervisor(t, "before")
		output := filepath.Join(f.config.Root, "output", "before")
		if err := errors.Join(os.Rename(output, output+".kept"), os.WriteFile(output, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := job.Release(); err == nil {
			t.Error("released, although its output cannot be measured")
		}
		if err := errors.Join(os.Remove(output), os.Rename(output+".kept", output)); err != nil {
			t.Fatal(err)
		}
		next := f.start(t, runner.JobSpec{ID: "next", Shell: "echo ready; while [ ! -e go ]; do sleep 0.01; done"})
		f.awaitOutput(t, next, 1)
		if f.supervisor(t, "next") != before {
			t.Error("the next job has another proxy: nothing is tested")
		}
		if err := job.Release(); err != nil || f.Job("before") != nil {
			t.Errorf("released again: %v", err)
		}
		f.letGo(t, "next")
		finished(t, next)
		if err := next.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestProxyThatHangsWhileItWaits is killed, and no other job is lost with it.
func TestProxyThatHangsWhileItWaits(t *testing.T) {
	onEachBackendWithRoot(t, func(t *testing.T, f *fixture) {
		before, _, _ := f.serve(t, runner.JobSpec{ID: "before", Shell: "true"})
		if err := proctree.Signal(before, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		open, err := os.MkdirTemp(disktest.Reachable(t), "weir-kept")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(open) })
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		after, result, _ := f.serve(t, runner.JobSpec{ID: "after", Shell: "echo x > result", Outputs: []proxyproto.KeptFile{{Path: "result", Destination: filepath.Join(open, "kept")}}})
		if before == after || result.Outcome != proxyproto.OutcomeExited {
			t.Errorf("%+v", result)
		}
		if proctree.Alive(before) {
			t.Error("the proxy that hung is alive")
		}
	})
}

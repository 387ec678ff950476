package runner_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// killedAgent runs an agent in another process, which starts a job and is killed.
// It returns the pid of the job.
func (f *fixture) killedAgent(t *testing.T, shell string) int {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	mode := "groups"
	if f.config.Cgroups.Node.None() {
		mode = "none"
	}
	agent := exec.Command(self(), f.config.Root, f.config.ProxyPath, f.config.NodeName, mode, "1h", shell)
	agent.Env = append(os.Environ(), "WEIR_TEST_ACT=agent")
	agent.Stderr = os.Stderr
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	return pidsOf(t, []string{strings.TrimSpace(line)})[0]
}

// reopen opens the runner of the agent's next life, which has one job.
func (f *fixture) reopen(t *testing.T) *runner.Job {
	t.Helper()
	if !f.config.Cgroups.Node.None() {
		f.config.Cgroups = runner.DetectCgroups("/", f.config.NodeName)
	}
	f.open(t)
	jobs := f.Jobs()
	if len(jobs) != 1 || jobs[0].ID() != "job" {
		t.Fatalf("jobs after Open: %d, want the one of the earlier life", len(jobs))
	}
	return jobs[0]
}

// events takes all events of a job to its end.
func events(t *testing.T, job *runner.Job) (started []runner.Started, result *runner.Result) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event, open := <-job.Events():
			if !open {
				return started, result
			}
			switch e := event.(type) {
			case runner.Started:
				started = append(started, e)
			case runner.Exited:
				if result != nil {
					t.Error("the end is told twice")
				}
				result = e.Result
			}
		case <-deadline:
			t.Fatalf("job %s did not end within %v", job.ID(), patience)
		}
	}
}

// awaitGone waits until there is no process with that pid.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the end of a process", func() bool {
		process, err := proctree.Read(pid)
		return err != nil || process.Gone
	})
}

// TestJobsAreAdopted kills an agent. Its job goes on, and its next life gets the
// true end of it, whenever that comes.
func TestJobsAreAdopted(t *testing.T) {
	waiting := "while [ ! -e go ]; do sleep 0.01; done; "
	tests := map[string]struct {
		shell       string
		before      func(t *testing.T, f *fixture, pid int)
		wantOutcome proxyproto.Outcome
		wantCode    int
		wantSignal  string
	}{
		"exit 0":                               {shell: waiting + "exit 0", wantOutcome: proxyproto.OutcomeExited},
		"exit 7":                               {shell: waiting + "exit 7", wantOutcome: proxyproto.OutcomeExited, wantCode: 7},
		"a signal":                             {shell: waiting + "kill -SEGV $$", wantOutcome: proxyproto.OutcomeSignaled, wantCode: -1, wantSignal: "SIGSEGV"},
		"an end while there is no agent":       {shell: "sleep 0.1; exit 3", before: gone, wantOutcome: proxyproto.OutcomeExited, wantCode: 3},
		"an end whose proxy has gone too":      {shell: "exit 4", before: resultThenProxyGone, wantOutcome: proxyproto.OutcomeExited, wantCode: 4},
		"a lease that ran out":                 {shell: "sleep 1000", before: proxyGone, wantOutcome: proxyproto.OutcomeLeaseExpired, wantCode: -1, wantSignal: "SIGKILL"},
		"a proxy that was killed meanwhile":    {shell: "sleep 1000", before: killProxy, wantOutcome: proxyproto.OutcomeProxyFailed, wantCode: -1},
		"a proxy that is killed once adopted":  {shell: "touch ready; sleep 1000", wantOutcome: proxyproto.OutcomeProxyFailed, wantCode: -1},
		"a proxy that was stopped for a while": {shell: waiting + "exit 5", before: pauseProxy, wantOutcome: proxyproto.OutcomeExited, wantCode: 5},
	}
	for backend, detect := range backends {
		for name, test := range tests {
			t.Run(backend+"/"+name, func(t *testing.T) {
				f := newFixture(t, detect)
				pid := f.killedAgent(t, test.shell)
				if test.before != nil {
					test.before(t, f, pid)
				}
				job := f.reopen(t)
				if test.before == nil {
					if process, err := proctree.Read(pid); err != nil || process.Gone {
						t.Errorf("process %d of the job: %v, want it to go on", pid, err)
					}
				}
				f.RenewAll(clock.Boot() + time.Hour)
				if test.wantOutcome == proxyproto.OutcomeProxyFailed && test.before == nil {
					killProxy(t, f, pid)
				}
				// Those that wait, wait no longer.
				_ = os.WriteFile(filepath.Join(f.config.Root, "jobs", "job", proxyproto.WorkspaceFolder, "go"), nil, 0o600)
				started, result := events(t, job)
				if result == nil || result.Outcome != test.wantOutcome || result.ExitCode != test.wantCode || result.Signal != test.wantSignal {
					t.Fatalf("result %+v, want %s, exit code %d, signal %q", result, test.wantOutcome, test.wantCode, test.wantSignal)
				}
				// A proxy that is gone tells of no start.
				if len(started) > 1 || len(started) == 0 && test.wantOutcome != proxyproto.OutcomeProxyFailed && test.before == nil {
					t.Errorf("told of %d starts, want 1", len(started))
				}
				if len(started) == 1 && started[0].Pid != pid {
					t.Errorf("told of process %d, want %d", started[0].Pid, pid)
				}
				checkGone(t, []int{pid})
				if text := f.output(t, "job", "stdout"); !strings.HasPrefix(text, itoa(pid)) {
					t.Errorf("output %q, want the job's pid", text)
				}
				if err := job.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			})
		}
	}
}

func gone(t *testing.T, _ *fixture, pid int) { awaitGone(t, pid) }

// proxyGone has the lease of the job run out, and then that of its result.
func proxyGone(t *testing.T, f *fixture, _ int) {
	proxy := f.proxyIdentity(t)
	eventually(t, "the end of the proxy", func() bool {
		f.shortenLease(t)
		return !proctree.Alive(proxy)
	})
}

func resultThenProxyGone(t *testing.T, f *fixture, pid int) {
	eventually(t, "the job's result", func() bool {
		_, err := os.Stat(filepath.Join(f.config.Root, "jobs", "job", proxyproto.ResultFile))
		return err == nil
	})
	proxyGone(t, f, pid)
}

// shortenLease tells the proxy of the job that there is no agent soon, if it is there still
// and listens.
func (f *fixture) shortenLease(t *testing.T) {
	t.Helper()
	// The whole path is too long for a socket.
	folder, err := os.Open(filepath.Join(f.config.Root, "jobs", "job"))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), proxyproto.SocketFile))
	if err != nil {
		return
	}
	defer conn.Close()
	message := proxyproto.Message{Renew: &proxyproto.Renew{LeaseMillis: 1}}
	line, err := message.Line()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write(line)
}

func killProxy(t *testing.T, f *fixture, _ int) {
	proxy := f.proxyIdentity(t)
	if err := proctree.Signal(proxy, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, proxy.Pid)
}

// pauseProxy stops the proxy; it goes on after the next life has begun.
func pauseProxy(t *testing.T, f *fixture, _ int) {
	proxy := f.proxyIdentity(t)
	if err := proctree.Signal(proxy, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { _ = proctree.Signal(proxy, unix.SIGCONT) })
}

// proxyIdentity reads who the proxy of the job said that it is.
func (f *fixture) proxyIdentity(t *testing.T) (id proxyproto.Identity) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(f.config.Root, "jobs", "job", proxyproto.LogFile))
	id, _, found := proxyproto.CutIdentity(log)
	if err != nil || !found {
		t.Fatalf("proxy's log: %q, %v", log, err)
	}
	return id
}

func itoa(n int) string { return string(mustJSON(n)) }

func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// TestLeave leaves a job twice, and ends it in the third life.
func TestLeave(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{Shell: "echo $$; sleep 1000"})
		pid := pidsOf(t, f.awaitOutput(t, job, 1))[0]
		for range 2 {
			if err := f.Leave(); err != nil {
				t.Fatal(err)
			}
			if _, result := events(t, job); result != nil {
				t.Fatalf("result %+v of a job that goes on", result)
			}
			if process, err := proctree.Read(pid); err != nil || process.Gone {
				t.Fatalf("process %d: %v, want it to go on", pid, err)
			}
			if _, err := f.Start(f.ctx, runner.JobSpec{ID: "late", Shell: "true", Lease: patience}); !errors.Is(err, runner.ErrClosed) {
				t.Errorf("Start after Leave: %v, want ErrClosed", err)
			}
			job = f.reopen(t)
		}
		if err := job.Stop("enough", 0); err != nil {
			t.Fatal(err)
		}
		if _, result := events(t, job); result == nil || result.Reason != "enough" {
			t.Errorf("result %+v, want it stopped", result)
		}
		checkGone(t, []int{pid})
	})
}

func TestDiscard(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, acting("setsid", "stay"))
		pids := pidsOf(t, f.awaitOutput(t, job, 2))
		if err := f.Leave(); err != nil {
			t.Fatal(err)
		}
		f.reopen(t)
		for range 2 {
			if err := f.Discard("job"); err != nil {
				t.Fatalf("Discard: %v", err)
			}
		}
		checkGone(t, pids)
		if len(f.Jobs()) != 0 {
			t.Error("a job that was discarded is there")
		}
	})
}

// TestLeaveRemovesEmptyGroups of a node, but no other agent's, and none with jobs.
func TestLeaveRemovesEmptyGroups(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	there := func() bool {
		_, err := os.Stat(f.config.Cgroups.Node.Unified)
		return err == nil
	}
	if _, err := runner.Open(f.config); !errors.Is(err, runner.ErrInUse) || !there() {
		t.Fatalf("a second agent: %v, and the groups of the first are there: %t", err, there())
	}
	job := f.start(t, acting("setsid", "stay"))
	f.awaitOutput(t, job, 2)
	if err := f.Leave(); err != nil || !there() {
		t.Fatalf("left with a job: %v, and its groups are there: %t", err, there())
	}
	f.reopen(t)
	if err := f.Discard("job"); err != nil {
		t.Fatal(err)
	}
	if err := f.Leave(); err != nil || there() {
		t.Errorf("left without jobs: %v, and groups are there: %t", err, there())
	}
	f.open(t)
}

// TestWhatNeverStartedIsRemoved leaves what an agent leaves that is killed before
// the job's proxy has done anything.
func TestWhatNeverStartedIsRemoved(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"jobs/half/work", "output/half", "jobs/.odd"} {
		if err := os.MkdirAll(filepath.Join(f.config.Root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.config.Root, "jobs", "half", proxyproto.SpecFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	if len(f.Jobs()) != 0 {
		t.Errorf("jobs %v, want none", f.Jobs())
	}
	if result := f.run(t, runner.JobSpec{ID: "half", Shell: "true"}); result.Outcome != proxyproto.OutcomeExited {
		t.Errorf("result %+v, want the job to start as if it had not been tried", result)
	}
}

// TestDamagedIdentity has the disk of a machine that lost its power.
func TestDamagedIdentity(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(f.config.Root, "jobs", "job")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{proxyproto.IdentityFile, proxyproto.ResultFile} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, result := events(t, f.reopen(t)); result == nil || result.Outcome != proxyproto.OutcomeProxyFailed {
		t.Errorf("result %+v, want the proxy failed", result)
	}
}

// TestProxiesOfOtherBuilds replays what a proxy of an earlier build says, which is
// recorded in testdata, and what one of another version of the protocol does.
func TestProxiesOfOtherBuilds(t *testing.T) {
	tests := map[string]struct {
		recording   string
		wantOutcome proxyproto.Outcome
		wantCode    int
		wantStarted int
		wantError   string
	}{
		"the first build":          {recording: "v1.txt", wantOutcome: proxyproto.OutcomeExited, wantCode: 7, wantStarted: 1},
		"one that has more to say": {recording: "v1-later.txt", wantOutcome: proxyproto.OutcomeExited, wantCode: 7, wantStarted: 1},
		"another version":          {recording: "v9.txt", wantOutcome: proxyproto.OutcomeProxyFailed, wantCode: -1, wantError: "speaks protocol version 9"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, backends["as a process tree"])
			if err := f.Leave(); err != nil {
				t.Fatal(err)
			}
			playback(t, filepath.Join(f.config.Root, "jobs", "job"), filepath.Join("testdata", test.recording), nil)
			job := f.reopen(t)
			started, result := events(t, job)
			if result == nil || result.Outcome != test.wantOutcome || result.ExitCode != test.wantCode || !strings.Contains(result.Error, test.wantError) {
				t.Errorf("result %+v, want %s, exit code %d, error %q", result, test.wantOutcome, test.wantCode, test.wantError)
			}
			if len(started) != test.wantStarted {
				t.Errorf("told of %d starts, want %d", len(started), test.wantStarted)
			}
			if err := job.Release(); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
}

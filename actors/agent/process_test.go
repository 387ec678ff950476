package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/scheduling/resource"
)

// patience is the deadline of every wait for real processes.
const patience = 30 * time.Second

// TestMain is an agent, or a job, when a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_AGENT") != "" {
		playAgent()
		return
	}
	if os.Getenv("WEIR_TEST_JOB") != "" {
		playJob()
		return
	}
	os.Exit(m.Run())
}

// play is what an agent process of the tests is told.
type play struct {
	StateDir, Proxy string
	Lease           time.Duration
	// Grant are jobs to start, and what they do. Know are all jobs.
	Grant []string
	Know  map[string]string
	// Silent are jobs that have no signal by which they could be asked to leave, RootOnly
	// those whose signal is for their first process. What Silent jobs are that Know does
	// not have, no controller tells.
	Silent, RootOnly []string
}

// playAgent runs a real agent with real jobs, under a control plane inside it that
// grants jobs and prints what it hears, until it is killed or its input ends.
func playAgent() {
	var p play
	if err := json.Unmarshal([]byte(os.Getenv("WEIR_TEST_AGENT")), &p); err != nil {
		panic(err)
	}
	cfg := testConfig(p.StateDir, slog.NewTextHandler(os.Stderr, nil))
	cfg.Resources = resource.Amounts{UserSlots: 10, CPU: 1000, Memory: 1 << 30}
	r, _, err := OpenRunner(cfg, p.Proxy)
	if err != nil {
		panic(err)
	}
	life := make(chan uint64, 1)
	heard := map[string]int64{}
	cp := &plane{term: 3, phases: map[string][]string{}}
	hear := func(jobs []*actorpb.HeldJob) {
		for _, job := range jobs {
			if job.GetPid() != 0 && heard[job.GetJobId()] == 0 {
				fmt.Println("pid", job.GetJobId(), job.GetPid())
			}
			heard[job.GetJobId()] = job.GetPid()
		}
	}
	cp.answer = func(_ string, msg proto.Message) (proto.Message, error) {
		switch m := msg.(type) {
		case *actorpb.RegisterAgent:
			hear(m.GetJobs())
			return &actorpb.AgentRegistered{Term: 3, Leader: "r1", LeaseMillis: p.Lease.Milliseconds(), HeartbeatMillis: 100}, nil
		case *actorpb.Heartbeat:
			hear(m.GetJobs())
			select {
			case life <- m.GetIncarnation():
			default:
			}
		case *actorpb.JobSpecRequest:
			return p.spec(m.GetJobId()), nil
		case *actorpb.InstancesRequest:
			return &actorpb.Instances{OperationId: m.GetOperationId(), Version: "1", Over: true, Instances: []*actorpb.Instance{{JobId: "acknowledges", State: "live"}}}, nil
		case *actorpb.JobEnded:
			e := m.GetJob()
			fmt.Println("ended", e.GetJobId(), e.GetState(), e.GetExitCode(), e.GetAbortReason(), e.GetError().GetMessage())
			if e.GetStop() != nil {
				fmt.Println("order", e.GetJobId(), e.GetStop().GetInterruption(), e.GetRerun(), e.GetAcknowledged())
			}
		}
		return nil, nil
	}
	system := quietSystem()
	agent, err := Start(system, cfg, FromRunner(r), cp)
	if err != nil {
		panic(err)
	}
	of := <-life // An agent that sends heartbeats has its lease, and takes jobs.
	order := plan(3, 7)
	for _, job := range p.Grant {
		granted(job, of)(order)
	}
	leader := identity.Identity{Role: identity.Replica, Name: "r1"}
	system.Root.Send(agent.PID(), &remote.Inbound{From: leader, Message: order})
	// Each line of input is a further order; its end is that of the agent.
	for lines, index := bufio.NewScanner(os.Stdin), uint64(8); lines.Scan(); index++ {
		order := plan(3, index, func(p *actorpb.NodePlan) { p.Abort = append(p.Abort, &actorpb.AbortJob{}) })
		if err := json.Unmarshal(lines.Bytes(), order.Abort[0]); err != nil {
			panic(err)
		}
		system.Root.Send(agent.PID(), &remote.Inbound{From: leader, Message: order})
	}
	if err := agent.Close(context.Background()); err != nil {
		panic(err)
	}
	if err := r.Close(); err != nil {
		panic(err)
	}
}

// spec is what a job runs; nil: nobody knows.
func (p *play) spec(job string) proto.Message {
	spec := &actorpb.JobSpec{JobId: job, Shell: p.Know[job], InterruptionSignal: "SIGUSR1", RestartExitCode: proto.Int32(75)}
	spec.SignalRootProcessOnly = slices.Contains(p.RootOnly, job)
	if slices.Contains(p.Silent, job) {
		spec.InterruptionSignal = ""
		if spec.Shell == "" {
			return &actorpb.Refused{Code: actorpb.CodeUnavailable}
		}
	}
	return spec
}

// agentProcess is an agent in a process of its own.
type agentProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	stop  func() error
	lines chan string
	seen  []string
}

func startAgent(t *testing.T, p play) *agentProcess {
	t.Helper()
	what, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &agentProcess{t: t, cmd: exec.Command(self), lines: make(chan string, 100)}
	a.cmd.Env = append(os.Environ(), "WEIR_TEST_AGENT="+string(what))
	log := &strings.Builder{}
	a.cmd.Stderr = log
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.in, a.stop = in, in.Close
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			a.lines <- scanner.Text()
		}
		close(a.lines)
	}()
	t.Cleanup(func() {
		a.kill()
		if t.Failed() {
			t.Logf("agent %d said:\n%s", a.cmd.Process.Pid, log)
		}
	})
	return a
}

// await waits for a line that begins so, and returns the rest of it.
func (a *agentProcess) await(prefix string) string {
	a.t.Helper()
	deadline := time.After(patience)
	for {
		for i, line := range a.seen {
			if rest, found := strings.CutPrefix(line, prefix+" "); found {
				a.seen = slices.Delete(a.seen, i, i+1)
				return strings.TrimSpace(rest)
			}
		}
		select {
		case line, open := <-a.lines:
			if !open {
				a.t.Fatalf("the agent ended before it said %q", prefix)
			}
			a.seen = append(a.seen, line)
		case <-deadline:
			a.t.Fatalf("no %q within %v, but %q", prefix, patience, a.seen)
		}
	}
}

func (a *agentProcess) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// close ends the agent and its jobs, and returns what it still said.
func (a *agentProcess) close() []string {
	a.t.Helper()
	if err := a.stop(); err != nil {
		a.t.Fatal(err)
	}
	for line := range a.lines {
		a.seen = append(a.seen, line)
	}
	if err := a.cmd.Wait(); err != nil {
		a.t.Errorf("the agent ended with %v", err)
	}
	return a.seen
}

func (a *agentProcess) process(job string) proctree.Process {
	a.t.Helper()
	pid, err := strconv.Atoi(a.await("pid " + job))
	if err != nil {
		a.t.Fatal(err)
	}
	process, err := proctree.Read(pid)
	if err != nil {
		a.t.Fatal(err)
	}
	return process
}

// buildProxy builds weir-jobproxy, and ends what a failed test leaves of its jobs.
func buildProxy(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir-jobproxy")
	build := exec.Command("go", "build", "-o", path, "weir/cmd/weir-jobproxy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build weir-jobproxy: %v\n%s", err, text)
	}
	t.Cleanup(func() {
		r, _, err := OpenRunner(testConfig(dir, slog.DiscardHandler), path)
		if err != nil {
			t.Errorf("clean up: %v", err)
			return
		}
		if left := r.Jobs(); len(left) > 0 && !t.Failed() {
			t.Errorf("%d jobs are left", len(left))
		}
		if err := r.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return path
}

// letGo ends the wait of a job.
func letGo(t *testing.T, dir, job string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "jobs", "jobs", job, proxyproto.WorkspaceFolder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitResult waits until a job's proxy has put its result on disk.
func awaitResult(t *testing.T, dir, job string) {
	t.Helper()
	path := filepath.Join(dir, "jobs", "jobs", job, proxyproto.ResultFile)
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v", path, patience)
		}
	}
}

const waitToGo = "while [ ! -e go ]; do sleep 0.01; done; "

// TestKilledAgentKeepsItsJobs kills a real agent with -9, twice, and starts it again.
// The second time it dies while it writes its journal.
func TestKilledAgentKeepsItsJobs(t *testing.T) {
	dir := t.TempDir()
	jobs := map[string]string{
		"zero":      waitToGo + "exit 0",
		"seven":     waitToGo + "echo so long >&2; exit 7",
		"signal":    waitToGo + "kill -USR1 $$",
		"meanwhile": waitToGo + "exit 3",
		"proxyless": "sleep 1000",
	}
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: 20 * time.Second, Know: jobs,
		Grant: []string{"zero", "seven", "signal", "meanwhile", "proxyless"}}
	agent := startAgent(t, p)
	before := map[string]proctree.Process{}
	for job := range jobs {
		before[job] = agent.process(job)
	}
	agent.kill()

	letGo(t, dir, "meanwhile")
	awaitResult(t, dir, "meanwhile")
	var proxy proxyproto.Identity
	identityFile, err := os.ReadFile(filepath.Join(dir, "jobs", "jobs", "proxyless", proxyproto.IdentityFile))
	if err == nil {
		err = json.Unmarshal(identityFile, &proxy)
	}
	if err == nil {
		err = proctree.Signal(proxy, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}

	// The grants are sent again, as a leader does that has not heard of the jobs.
	agent = startAgent(t, p)
	for _, job := range []string{"zero", "seven", "signal"} {
		if now := agent.process(job); now.Identity != before[job].Identity {
			t.Errorf("job %s: process %+v, want %+v to go on", job, now.Identity, before[job].Identity)
		}
	}
	if got := agent.await("ended meanwhile"); got != "failed 3  exited with code 3" {
		t.Errorf("the job that ended meanwhile: %q", got)
	}
	if got := agent.await("ended proxyless"); !strings.HasPrefix(got, "aborted -1 job_proxy_failed weir-jobproxy ended") {
		t.Errorf("the job whose proxy was killed: %q", got)
	}
	if proctree.Alive(before["proxyless"].Identity) {
		t.Error("a job lives on without its proxy")
	}
	agent.kill()

	journal, err := os.OpenFile(folder{dir}.journalFile(), os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = journal.Write([]byte("\x00WJ\xff\x40\x00\x00\x00half a rec"))
	}
	if err == nil {
		err = journal.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Grant = nil
	agent = startAgent(t, p)
	wants := map[string]string{"zero": "completed 0", "seven": "failed 7  exited with code 7", "signal": "failed -1  killed by signal 10 (SIGUSR1)"}
	for job, want := range wants {
		agent.process(job)
		letGo(t, dir, job)
		if got := agent.await("ended " + job); got != want {
			t.Errorf("job %s: %q, want %q", job, got, want)
		}
	}
	for _, line := range agent.close() {
		if fields := strings.Fields(line); fields[0] == "ended" && wants[fields[1]] != "" {
			t.Errorf("told once more: %q", line)
		}
	}
}

// TestAgentThatIsAwayForLongerThanItsLease finds that its jobs have been ended, by
// their proxies, when the lease was over.
func TestAgentThatIsAwayForLongerThanItsLease(t *testing.T) {
	dir := t.TempDir()
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: time.Second, Know: map[string]string{"j": "sleep 1000"}, Grant: []string{"j"}}
	agent := startAgent(t, p)
	process := agent.process("j")
	agent.kill()
	killed := time.Now()
	awaitResult(t, dir, "j")
	if took := time.Since(killed); took > p.Lease+5*time.Second {
		t.Errorf("the job went on for %v without an agent, its lease was %v", took, p.Lease)
	}
	if proctree.Alive(process.Identity) {
		t.Error("the job lives after its lease")
	}
	p.Grant = nil
	agent = startAgent(t, p)
	if got := agent.await("ended j"); !strings.HasPrefix(got, "aborted -1 node_offline") {
		t.Errorf("told %q, want it aborted, node_offline", got)
	}
	agent.close()
}

// TestJobsWithoutAJournalAreEnded removes the journal: the node's life is another,
// and nobody can be told of the jobs.
func TestJobsWithoutAJournalAreEnded(t *testing.T) {
	dir := t.TempDir()
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: 20 * time.Second, Know: map[string]string{"j": "sleep 1000"}, Grant: []string{"j"}}
	agent := startAgent(t, p)
	process := agent.process("j")
	agent.kill()
	if err := os.Remove(folder{dir}.journalFile()); err != nil {
		t.Fatal(err)
	}
	p.Grant, p.Know = []string{"k"}, map[string]string{"k": "echo hello"}
	agent = startAgent(t, p)
	if got := agent.await("ended k"); got != "completed 0" {
		t.Errorf("a job of the new life: %q", got)
	}
	if proctree.Alive(process.Identity) {
		t.Error("a job of the old life goes on")
	}
	agent.close()
}

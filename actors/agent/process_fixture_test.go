package agent

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

const (
	// patience is the deadline of every wait for real processes.
	patience = 2 * time.Minute
	// longLease outlasts whatever keeps an agent, or a test, from going on.
	longLease = 10 * time.Minute
)

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
	if size := os.Getenv("WEIR_TEST_HOG"); size != "" {
		playHog(size)
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
	// Reserves are what is reserved for jobs, and Memory what the node has, in mebibytes.
	Reserves map[string]int64
	Memory   int64
	// Files are what each job finds in its workspace.
	Files []*actorpb.JobFile
	// Deaf are jobs of whose ends this process of the agent does not hear, however long it
	// takes to kill it.
	Deaf []string
	// LastLease, if not 0, is what job proxies are given with the first line of input, and the
	// last that the process does.
	LastLease time.Duration
	// JobEndTimeout is that of jobs, and of a process of the agent that is to start none: what
	// a slow machine takes to start them is no hang; 0: the default.
	JobEndTimeout time.Duration
}

// playAgent runs a real agent with real jobs, under a control plane inside it that
// grants jobs and prints what it hears, until it is killed or its input ends.
func playAgent() {
	var p play
	if err := json.Unmarshal([]byte(os.Getenv("WEIR_TEST_AGENT")), &p); err != nil {
		panic(err)
	}
	cfg := testConfig(p.StateDir, slog.NewTextHandler(os.Stderr, nil))
	cfg.Resources = resource.Amounts{UserSlots: 10, CPU: 1000, Memory: cmp.Or(p.Memory, 1<<10) << 20, GPU: 2}
	// What a slow machine takes is nobody's failure, and whose memory is short is for the test.
	cfg.Timing.AskTimeout, cfg.Timing.SpecPatience, cfg.Timing.CloseTimeout = patience, time.Hour, patience
	cfg.machine = func() (Machine, error) { return Machine{Total: 10 << 30, Available: 8 << 30}, nil }
	usual := cfg.JobEndTimeout
	cfg.JobEndTimeout = cmp.Or(p.JobEndTimeout, usual)
	r, _, err := OpenRunner(cfg, p.Proxy)
	if len(p.Grant) > 0 {
		cfg.JobEndTimeout = usual
	}
	if err != nil {
		panic(err)
	}
	heard := &listener{play: &p, life: make(chan uint64, 1), heard: map[string]int64{}, used: map[string]int64{}}
	cp := &plane{term: 3, phases: map[string][]string{}, answer: heard.answer}
	system := quietSystem()
	processes := &playProcesses{Processes: FromRunner(r), deaf: p.Deaf}
	agent, err := Start(system, cfg, processes, cp)
	if err != nil {
		panic(err)
	}
	of := <-heard.life // An agent that sends heartbeats has its lease, and takes jobs.
	order := plan(3, 7)
	for _, job := range p.Grant {
		granted(job, of)(order)
		order.Start[len(order.Start)-1].Resources = &statepb.Resources{Memory: p.Reserves[job] << 20}
	}
	leader := identity.Identity{Role: identity.Replica, Name: "r1"}
	system.Root.Send(agent.PID(), &remote.Inbound{From: leader, Message: order})
	// Each line of input is a further order; its end is that of the agent.
	for lines, index := bufio.NewScanner(os.Stdin), uint64(8); lines.Scan(); index++ {
		if p.LastLease > 0 {
			processes.renewAndDie(p.LastLease)
		}
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

// listener is the control plane inside an agent process: it prints what it hears.
type listener struct {
	play *play
	// life is the incarnation of the agent, with its first heartbeat.
	life chan uint64
	// heard are the process ids of jobs, and used is in hundreds of mebibytes.
	heard, used map[string]int64
}

// hear prints what is new of jobs.
func (l *listener) hear(jobs []*actorpb.HeldJob) {
	for _, job := range jobs {
		if job.GetPid() != 0 && l.heard[job.GetJobId()] == 0 {
			fmt.Println("pid", job.GetJobId(), job.GetPid())
		}
		l.heard[job.GetJobId()] = job.GetPid()
		if hundreds := job.GetMemory() / (100 << 20); hundreds != l.used[job.GetJobId()] {
			fmt.Println("memory", job.GetJobId(), hundreds)
			l.used[job.GetJobId()] = hundreds
		}
	}
}

// answer is what an agent is answered.
func (l *listener) answer(_ string, msg proto.Message) (proto.Message, error) {
	switch m := msg.(type) {
	case *actorpb.RegisterAgent:
		l.hear(m.GetJobs())
		return &actorpb.AgentRegistered{Term: 3, Leader: "r1", LeaseMillis: l.play.Lease.Milliseconds(), HeartbeatMillis: 100}, nil
	case *actorpb.Heartbeat:
		l.hear(m.GetJobs())
		select {
		case l.life <- m.GetIncarnation():
		default:
		}
	case *actorpb.JobSpecRequest:
		return l.play.spec(m.GetJobId()), nil
	case *actorpb.InstancesRequest:
		return &actorpb.Instances{OperationId: m.GetOperationId(), Version: "1", Over: true, Instances: []*actorpb.Instance{{JobId: "acknowledges", State: "live"}}}, nil
	case *actorpb.JobEnded:
		e := m.GetJob()
		fmt.Println("ended", e.GetJobId(), e.GetState(), e.GetExitCode(), e.GetAbortReason(), e.GetError().GetMessage())
		fmt.Println("measured", e.GetJobId(), e.GetStatistics().GetValues()["user_job/max_memory"], e.GetStatistics().GetValues()["job_proxy/max_memory"])
		if e.GetStop() != nil {
			fmt.Println("order", e.GetJobId(), e.GetStop().GetInterruption(), e.GetRerun(), e.GetAcknowledged())
		}
	}
	return nil, nil
}

// spec is what a job runs; nil: nobody knows.
func (p *play) spec(job string) proto.Message {
	spec := &actorpb.JobSpec{JobId: job, Files: p.Files, MemoryReserve: p.Reserves[job] << 20, Shell: p.Know[job], InterruptionSignal: "SIGUSR1", RestartExitCode: proto.Int32(75)}
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
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "weir/cmd/weir-jobproxy")
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
	awaitPath(t, filepath.Join(dir, "jobs", "jobs", job, proxyproto.ResultFile), true)
}

// awaitRelease waits until nothing of a job is left.
func awaitRelease(t *testing.T, dir, job string) {
	t.Helper()
	awaitPath(t, filepath.Join(dir, "jobs", "jobs", job), false)
}

// awaitPath waits until a file is there, or is not there any more.
func awaitPath(t *testing.T, path string, there bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		_, err := os.Stat(path)
		if there && err == nil || !there && errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s after %v: %v, want it there: %v", path, patience, err, there)
		}
	}
}

const waitToGo = "while [ ! -e go ]; do sleep 0.01; done; "

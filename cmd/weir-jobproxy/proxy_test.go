package main

import (
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

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// patience is the deadline of every wait.
const patience = 2 * time.Minute

// programVariable names another program than that of the tests that is to be the proxy.
const programVariable = "WEIR_TEST_PROXY_PROGRAM"

// TestMain is the proxy itself when a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_PROXY") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// proxy is a running weir-jobproxy and an agent's view of it.
type proxy struct {
	*exec.Cmd
	folder string
	ended  chan struct{}
}

// startProxy starts a proxy for a job that runs a shell command. change, where it is
// given, may change the spec.
func startProxy(t testing.TB, shell string, lease time.Duration, change ...func(*proxyproto.Spec)) *proxy {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir-proxy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	spec := proxyproto.Spec{Version: proxyproto.Version, JobID: "job", Shell: shell, Workspace: folder, OutputFolder: folder,
		Environment: []string{"PATH=" + os.Getenv("PATH")}, LeaseMillis: lease.Milliseconds(), SamplePeriodMillis: 1000, StdoutLimit: 1000, StderrLimit: 1000}
	for _, change := range change {
		change(&spec)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, proxyproto.SpecFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, proxyproto.SocketFile), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	socket, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if program := os.Getenv(programVariable); program != "" {
		executable = program
	}
	p := &proxy{Cmd: exec.Command(executable, folder), folder: folder, ended: make(chan struct{})}
	p.Env = []string{"WEIR_TEST_PROXY=1"}
	p.Stderr = os.Stderr
	p.ExtraFiles = []*os.File{socket}
	err = p.Start()
	if err := errors.Join(err, socket.Close(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		// SIGTERM ends the job; the proxy, which nobody releases, is killed.
		_ = p.Process.Signal(unix.SIGTERM)
		_, _ = p.awaitResult()
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

// awaitResult waits until the result is on disk, or the proxy has gone.
func (p *proxy) awaitResult() (content []byte, err error) {
	for deadline := time.Now().Add(patience); ; {
		content, err = os.ReadFile(filepath.Join(p.folder, proxyproto.ResultFile))
		if err == nil || time.Now().After(deadline) {
			return content, err
		}
		select {
		case <-p.ended:
			return os.ReadFile(filepath.Join(p.folder, proxyproto.ResultFile))
		case <-time.After(time.Millisecond):
		}
	}
}

// agent is a connection to a proxy.
type agent struct {
	net.Conn
	*proxyproto.Reader
}

func (p *proxy) connect(t testing.TB) agent {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(p.folder, proxyproto.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return agent{Conn: conn, Reader: proxyproto.NewReader(conn)}
}

func (a agent) say(t testing.TB, line string) {
	t.Helper()
	if _, err := a.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

// hear waits for a message of that name, skipping samples and others.
func (a agent) hear(t testing.TB, name string) proxyproto.Message {
	t.Helper()
	for {
		message, err := a.Reader.Read()
		if err != nil {
			t.Fatalf("waiting for %s: %v", name, err)
		}
		if message.Name() == name {
			return message
		}
	}
}

func TestBadMessagesAreAnswered(t *testing.T) {
	tests := map[string]struct {
		line      string
		wantName  string
		wantError string
	}{
		"no JSON":                   {line: "hello?", wantError: `"hello?"`},
		"a message nobody knows":    {line: `{"dance":{}}`, wantError: `"dance"`},
		"a message of the proxy":    {line: `{"sample":{}}`, wantName: "sample", wantError: "agents do not"},
		"a lease of nothing":        {line: `{"renew":{"lease_millis":0}}`, wantName: "renew", wantError: "lease_millis: 0"},
		"a lease beyond time":       {line: `{"renew":{"lease_millis":9223372036854775807}}`, wantName: "renew", wantError: "between 1 and"},
		"an end beyond time":        {line: `{"renew":{"lease_millis":1000,"end_millis":9223372036854775807}}`, wantName: "renew", wantError: "end_millis: 9223372036854775807"},
		"an interrupt by no signal": {line: `{"interrupt":{"signal":"SIGDANCE","reason":"x","grace_millis":1}}`, wantName: "interrupt", wantError: "signal: unknown signal"},
		"an interrupt in the past":  {line: `{"interrupt":{"signal":"SIGINT","reason":"x","grace_millis":-1}}`, wantName: "interrupt", wantError: "grace_millis: -1"},
		"a negative grace":          {line: `{"stop":{"reason":"x","grace_millis":-1}}`, wantName: "stop", wantError: "grace_millis: -1"},
		"release before the end":    {line: `{"release":{}}`, wantName: "release", wantError: "stop it first"},
		"a line without an end":     {line: strings.Repeat("x", 2*proxyproto.MaxLine), wantError: "longer than"},
	}
	a := startProxy(t, "sleep 1000", time.Hour).connect(t)
	hello := a.hear(t, "hello").Hello
	if hello.Version != proxyproto.Version || hello.JobID != "job" || hello.Pid == 0 || hello.StartTicks == 0 {
		t.Errorf("hello %+v", hello)
	}
	for name, test := range tests {
		a.say(t, test.line)
		got := a.hear(t, "error").Error
		if got.Message != test.wantName || !strings.Contains(got.Error, test.wantError) {
			t.Errorf("%s: answered %+v, want %q with %q", name, got, test.wantName, test.wantError)
		}
	}
	// After all of that it still obeys.
	a.say(t, `{"stop":{"reason":"enough","grace_millis":0}}`)
	if result := a.hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeStopped || result.Reason != "enough" {
		t.Errorf("result %+v, want it stopped", result)
	}
}

// TestResultIsToldAgain to each agent that connects, until one releases the job. When no agent is
// connected, the result is on disk.
func TestResultIsToldAgain(t *testing.T) {
	p := startProxy(t, "exit 7", time.Hour)
	first := p.connect(t)
	if told := first.hear(t, "exited").Exited; told.ExitCode != 7 {
		t.Errorf("told %+v, want exit code 7", told)
	}
	newest := p.connect(t)
	newest.hear(t, "hello")
	if again := newest.hear(t, "exited").Exited; again.ExitCode != 7 {
		t.Errorf("told again %+v, want exit code 7", again)
	}
	if _, err := first.Reader.Read(); err == nil {
		t.Error("the first connection is still served")
	}
	if _, err := os.Stat(filepath.Join(p.folder, proxyproto.ResultFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the result is on disk while an agent has it: %v", err)
	}
	must(t, newest.Close())
	var onDisk proxyproto.Result
	data, err := p.awaitResult()
	if err == nil {
		err = json.Unmarshal(data, &onDisk)
	}
	if err != nil || onDisk.ExitCode != 7 {
		t.Errorf("on disk %+v, %v, want exit code 7", onDisk, err)
	}
	second := p.connect(t)
	if again := second.hear(t, "exited").Exited; again.ExitCode != 7 {
		t.Errorf("told again %+v, want exit code 7", again)
	}
	second.say(t, `{"release":{}}`)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the proxy did not go when released")
	}
	if _, err := os.Stat(filepath.Join(p.folder, proxyproto.SocketFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket after release: %v, want it gone", err)
	}
}

// TestJobsGetNoDescriptorsOfTheAgent that whoever started the agent has left open.
func TestJobsGetNoDescriptorsOfTheAgent(t *testing.T) {
	const left = 211
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Dup2(int(null.Fd()), left), null.Close()); err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, fmt.Sprintf("test ! -e /proc/$$/fd/%d", left), time.Hour)
	if err := unix.Close(left); err != nil {
		t.Fatal(err)
	}
	if told := p.connect(t).hear(t, "exited").Exited; told.ExitCode != 0 {
		t.Errorf("%+v: the job has descriptor %d", told, left)
	}
}

func TestGoesByItselfWhenNobodyComes(t *testing.T) {
	p := startProxy(t, "sleep 1000", 100*time.Millisecond)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("the proxy lives on without an agent")
	}
	data, err := os.ReadFile(filepath.Join(p.folder, proxyproto.ResultFile))
	if err != nil || !strings.Contains(string(data), string(proxyproto.OutcomeLeaseExpired)) {
		t.Errorf("result %s, %v, want the lease expired", data, err)
	}
}

func TestSchedule(t *testing.T) {
	s := newSchedule(&proxyproto.Spec{SamplePeriodMillis: 100, Cgroups: proxyproto.Placement{Unified: "/u"}})
	now := time.Unix(1000, 0)
	var waits []time.Duration
	told := 0
	for range 10 {
		wait := s.next()
		waits = append(waits, wait)
		now = now.Add(wait)
		if s.due(now) {
			told++
		}
	}
	if waits[0] != firstSample || waits[1] != 2*firstSample || waits[9] != 100*time.Millisecond {
		t.Errorf("waits %v, want them to grow to the period", waits)
	}
	if told < 7 || told > 9 {
		t.Errorf("told %d of 10 samples over %v, want one each 100ms", told, now.Sub(time.Unix(1000, 0)))
	}
	tree := newSchedule(&proxyproto.Spec{SamplePeriodMillis: 60000, MemoryLimit: 1})
	if tree.measure != treePeriod {
		t.Errorf("measures each %v where only that enforces a memory limit, want %v", tree.measure, treePeriod)
	}
}

func TestVerdict(t *testing.T) {
	killed, exited := unix.WaitStatus(unix.SIGKILL), unix.WaitStatus(3<<8)
	tests := map[string]struct {
		causes      []verdict
		status      unix.WaitStatus
		wantOutcome proxyproto.Outcome
		wantCode    int
		wantSignal  string
	}{
		"exit code 3": {causes: []verdict{causeOfExit(exited, cgroup.MemoryEvents{}, 0, 0)}, status: exited, wantOutcome: proxyproto.OutcomeExited, wantCode: 3},
		"stopped, then exit code 3": {
			causes: []verdict{{outcome: proxyproto.OutcomeStopped}, causeOfExit(exited, cgroup.MemoryEvents{}, 0, 0)},
			status: exited, wantOutcome: proxyproto.OutcomeStopped, wantCode: 3,
		},
		"the time limit, then the lease": {
			causes: []verdict{{outcome: proxyproto.OutcomeTimeLimitExceeded}, {outcome: proxyproto.OutcomeLeaseExpired}},
			status: killed, wantOutcome: proxyproto.OutcomeTimeLimitExceeded, wantCode: -1, wantSignal: "SIGKILL",
		},
		"killed as the machine is out of memory": {
			causes: []verdict{causeOfExit(killed, cgroup.MemoryEvents{Killed: true}, 0, 0)},
			status: killed, wantOutcome: proxyproto.OutcomeSignaled, wantCode: -1, wantSignal: "SIGKILL",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var v verdict
			for _, cause := range test.causes {
				v.decide(cause)
			}
			var result proxyproto.Result
			v.apply(&result, test.status)
			if result.Outcome != test.wantOutcome || result.ExitCode != test.wantCode || result.Signal != test.wantSignal {
				t.Errorf("result %+v, want %s, %d, %q", result, test.wantOutcome, test.wantCode, test.wantSignal)
			}
		})
	}
	if cause := causeOfExit(killed, cgroup.MemoryEvents{Killed: true}, 0, 0); !strings.Contains(cause.err, "machine") {
		t.Errorf("cause %+v, want it to name the machine", cause)
	}
}

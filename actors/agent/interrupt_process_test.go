package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/api/discovery"
	"weir/messages/actorpb"
)

// abort has the leader end a job. One that the agent does not know to run yet is not
// asked: the test has to hear of its process before.
func (a *agentProcess) abort(job, reason, interruption string, grace time.Duration) {
	a.t.Helper()
	order, err := json.Marshal(&actorpb.AbortJob{JobId: job, Reason: reason, Interruption: interruption, GraceMillis: grace.Milliseconds(), Message: "others wait"})
	if err == nil {
		_, err = a.in.Write(append(order, '\n'))
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// awaitFile waits for a file in a job's workspace, and returns what is in it.
func awaitFile(t *testing.T, dir, job, name string) []byte {
	t.Helper()
	path := filepath.Join(dir, "jobs", "jobs", job, proxyproto.WorkspaceFolder, name)
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil {
			return data
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v", path, patience)
		}
	}
}

// playJob is a job that ignores its signal, waits for its notice, finds itself among its
// peers, and says that it may be ended.
func playJob() {
	signal.Ignore(unix.SIGUSR1)
	ctx := context.Background()
	client, err := discovery.Open()
	if err != nil {
		panic(err)
	}
	if err := client.Acknowledge(ctx); err == nil {
		panic("nobody has asked yet")
	}
	if err := os.WriteFile("ready", nil, 0o600); err != nil {
		panic(err)
	}
	var notice discovery.Notice
	for !notice.Leaving {
		if notice, err = client.Notice(ctx); err != nil {
			panic(err)
		}
	}
	peers, err := client.Peers(ctx)
	for errors.Is(err, discovery.ErrRefused) {
		// Its agent gives up a replica that is slow to answer.
		peers, err = client.Peers(ctx)
	}
	if err != nil || len(peers.Instances) != 1 || !peers.Instances[0].Self {
		panic(fmt.Sprint(peers, err))
	}
	if notice.Interruption != "preemption" || notice.Message != "others wait" || time.Until(*notice.Deadline) < time.Minute {
		panic(fmt.Sprint(notice))
	}
	if err := client.Acknowledge(ctx); err != nil {
		panic(err)
	}
	select {}
}

const idle = "touch ready; while :; do sleep 0.01; done"

// TestInterruptedProcesses (X7, I3) is the table of J.3 with real processes, notices and
// acknowledgements among them.
func TestInterruptedProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const long = time.Hour
	tests := map[string]struct {
		shell        string
		interruption string
		reason       string
		grace        time.Duration
		wantEnd      string
		wantOrder    string
	}{
		"zero":    {shell: "trap 'exit 0' USR1; " + idle, grace: long, wantEnd: "completed 0", wantOrder: "preemption false false"},
		"seven":   {shell: "trap 'exit 7' USR1; " + idle, grace: long, wantEnd: "failed 7  exited with code 7", wantOrder: "preemption false false"},
		"restart": {shell: "trap 'exit 75' USR1; " + idle, grace: long, wantEnd: "completed 75", wantOrder: "preemption true false"},
		"ignores": {shell: "trap '' USR1; " + idle, grace: 200 * time.Millisecond,
			wantEnd: "aborted -1 preemption still running 200ms after SIGUSR1: others wait", wantOrder: "preemption false false"},
		"ignores-user": {shell: "trap '' USR1; " + idle, interruption: "user_request", reason: "interruption_timeout", grace: 200 * time.Millisecond,
			wantEnd: "aborted -1 interruption_timeout still running 200ms after SIGUSR1: others wait", wantOrder: "user_request false false"},
		"children": {shell: "trap 'exit 0' USR1; sh -c 'trap \"\" USR1; while :; do sleep 0.01; done' & " + idle, grace: long, wantEnd: "completed 0", wantOrder: "preemption false false"},
		"root-only": {shell: "trap 'test -e heard && exit 1; exit 0' USR1; sh -c 'trap \"touch heard\" USR1; touch child; while :; do sleep 0.01; done' & " +
			"while [ ! -e child ]; do sleep 0.01; done; " + idle, grace: long, wantEnd: "completed 0", wantOrder: "preemption false false"},
		"has-notice":   {shell: `trap 'grep -q others.wait $WEIR_NOTICE; exit $?' USR1; ` + idle, grace: long, wantEnd: "completed 0", wantOrder: "preemption false false"},
		"no-signal":    {shell: idle, grace: long, wantEnd: "aborted -1 preemption others wait", wantOrder: "preemption false false"},
		"not-started":  {grace: long, wantEnd: "aborted 0 preemption others wait", wantOrder: "preemption false false"},
		"acknowledges": {shell: "WEIR_TEST_JOB=1 exec " + self, grace: long, wantEnd: "aborted -1 preemption others wait", wantOrder: "preemption false true"},
	}
	dir := t.TempDir()
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Know: map[string]string{}, RootOnly: []string{"root-only"}, Silent: []string{"no-signal", "not-started"}}
	for job, test := range tests {
		p.Grant = append(p.Grant, job)
		if test.shell != "" {
			p.Know[job] = test.shell
		}
	}
	agent := startAgent(t, p)
	for job, test := range tests {
		if test.shell != "" {
			awaitFile(t, dir, job, "ready")
			agent.process(job)
		}
		if test.interruption == "" {
			test.interruption, test.reason = "preemption", "preemption"
		}
		agent.abort(job, test.reason, test.interruption, test.grace)
	}
	for job, test := range tests {
		if got := agent.await("ended " + job); got != test.wantEnd {
			t.Errorf("%s ended %q, want %q", job, got, test.wantEnd)
		}
		if got := agent.await("order " + job); got != test.wantOrder {
			t.Errorf("%s had the order %q, want %q", job, got, test.wantOrder)
		}
	}
	agent.close()
}

// TestAgentKilledInTheMiddleOfInterruptions (X7) leaves two jobs that have been asked to
// leave: for one the deadline comes while there is no agent, the other goes once there is
// one again.
func TestAgentKilledInTheMiddleOfInterruptions(t *testing.T) {
	// So much may pass between the order and the signal.
	const grace = 10 * time.Second
	dir := t.TempDir()
	p := play{StateDir: dir, Proxy: buildProxy(t, dir), Lease: longLease, Grant: []string{"stays", "goes"}, Deaf: []string{"stays"}, Know: map[string]string{
		"stays": "trap 'touch told' USR1; " + idle,
		"goes":  "trap 'touch told' USR1; touch ready; " + waitToGo + "exit 75",
	}}
	agent := startAgent(t, p)
	for _, job := range p.Grant {
		awaitFile(t, dir, job, "ready")
		agent.process(job)
	}
	agent.abort("stays", "preemption", "preemption", grace)
	agent.abort("goes", "user_request", "user_request", time.Hour)
	var notice discovery.Notice
	if err := json.Unmarshal(awaitFile(t, dir, "stays", ".weir/notice.json"), &notice); err != nil {
		t.Fatal(err)
	}
	for _, job := range p.Grant {
		awaitFile(t, dir, job, "told")
	}
	agent.kill()

	awaitResult(t, dir, "stays")
	var result proxyproto.Result
	data, err := os.ReadFile(filepath.Join(dir, "jobs", "jobs", "stays", proxyproto.ResultFile))
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	if late := result.EndTime.Sub(*notice.Deadline); late < -100*time.Millisecond || late > patience {
		t.Errorf("ended %v after its deadline", late)
	}
	p.Grant, p.Deaf = nil, nil
	agent = startAgent(t, p)
	if got := agent.await("ended stays"); got != "aborted -1 preemption still running 10s after SIGUSR1: others wait" {
		t.Errorf("told %q of the job that stayed", got)
	}
	agent.process("goes")
	letGo(t, dir, "goes")
	if got := agent.await("ended goes"); got != "completed 75" {
		t.Errorf("told %q of the job that went", got)
	}
	for job, want := range map[string]string{"stays": "preemption false false", "goes": "user_request true false"} {
		if got := agent.await("order " + job); got != want {
			t.Errorf("%s had the order %q, want %q", job, got, want)
		}
	}
	for _, line := range agent.close() {
		if strings.HasPrefix(line, "ended") {
			t.Errorf("told once more: %q", line)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
)

// devPatience bounds what takes seconds on a machine that is busy.
const devPatience = 2 * time.Minute

// TestDev runs real clusters with the real programs.
func TestDev(t *testing.T) {
	programs := t.TempDir()
	for _, name := range []string{"weir", "weir-jobproxy"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(programs, name), "../"+name)
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, output)
		}
	}
	weir := filepath.Join(programs, "weir")
	t.Run("detached", func(t *testing.T) { testDetached(t, weir) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, weir) })
	t.Run("wordcount", func(t *testing.T) { testWordcount(t, weir) })
	t.Run("fleet", func(t *testing.T) { testFleet(t, weir) })
	t.Run("estimates", func(t *testing.T) { testEstimates(t, weir) })
}

// devRun is weir with arguments, in a folder.
func devRun(t *testing.T, weir, folder string, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), devPatience)
	defer cancel()
	cmd := devCommand(ctx, weir, folder, arguments...)
	output, err := cmd.CombinedOutput()
	t.Logf("weir %s: %v\n%s", strings.Join(arguments, " "), err, output)
	return string(output), err
}

// devCommand is asked to stop, not killed, when ctx is done, so that it cleans up.
func devCommand(ctx context.Context, weir, folder string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, weir, arguments...)
	cmd.Dir = folder
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = devPatience
	// It must not outlive a test that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

// wantNothing fails the test if a folder holds something or a process lives.
func wantNothing(t *testing.T, folder string, members []devcluster.Member) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for _, m := range members {
		if m.Process.Alive() {
			t.Errorf("%s lives (pid %d)", m.Name, m.Process.Pid)
		}
	}
}

func testDetached(t *testing.T, weir string) {
	folder := t.TempDir()
	dir := filepath.Join(folder, ".weir")
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err == nil {
			_, _ = devcluster.Down(context.Background(), dir, devcluster.Ending{StopTimeout: 5 * time.Second, Sweep: sweepAgent})
		}
	})
	must := func(arguments ...string) string {
		t.Helper()
		output, err := devRun(t, weir, folder, arguments...)
		if err != nil {
			t.Fatalf("weir %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
		return output
	}
	if output := must("dev", "up", "--agents", "2", "--detach"); !strings.Contains(output, "running detached: weir dev down stops it") {
		t.Errorf("what stops it is not said:\n%s", output)
	}
	record, err := devcluster.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if output, err := devRun(t, weir, folder, "dev", "up"); err == nil || !strings.Contains(output, "runs here already") {
		t.Errorf("a second up: %v\n%s", err, output)
	}
	runOperation(t, folder)
	killed := strings.TrimSpace(strings.TrimPrefix(must("dev", "kill", "leader"), "killed "))
	must("dev", "kill", "n2")
	if output := must("dev", "status"); strings.Count(output, " down ") != 2 {
		t.Errorf("status after two kills:\n%s", output)
	}
	if output, err := devRun(t, weir, folder, "dev", "kill", "n2"); err == nil || !strings.Contains(output, "not running") {
		t.Errorf("kill of a dead one: %v\n%s", err, output)
	}
	must("dev", "start", killed)
	must("dev", "start", "n2")
	if output := must("dev", "status"); strings.Contains(output, " down ") {
		t.Errorf("status after both came back:\n%s", output)
	}
	runOperation(t, folder)
	must("dev", "down")
	wantNothing(t, folder, record.Members)
	if output, err := devRun(t, weir, folder, "dev", "down"); err != nil || !strings.Contains(output, "no cluster runs here") {
		t.Errorf("down of nothing: %v\n%s", err, output)
	}
}

// runOperation runs an operation of three jobs, with the settings that were found in
// the folder.
func runOperation(t *testing.T, folder string) { runJobs(t, folder, 3, func() {}) }

// runJobs runs an operation of so many jobs, and does something once it has begun.
func runJobs(t *testing.T, folder string, jobs int, meanwhile func()) {
	t.Helper()
	settings, err := client.Sources{Dir: folder, Getenv: func(string) string { return "" }}.Load()
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.Deadline = devPatience
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), devPatience)
	defer cancel()
	spec, err := structpb.NewStruct(map[string]any{"type": "vanilla", "tasks": map[string]any{
		"hello": map[string]any{"job_count": jobs, "command": []any{"echo", "hello"}, "memory_limit": "64MiB"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	started, err := c.StartOperation(ctx, &apipb.StartRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	meanwhile()
	ended, err := c.WaitOperation(ctx, started.GetOperationId())
	if p := ended.GetProgress(); err != nil || ended.GetState() != "completed" || p.GetCompleted() != int64(jobs) || p.GetAborted()+p.GetFailed() != 0 {
		t.Errorf("operation: %v, %v", ended, err)
	}
}

// devStart starts weir with arguments in a folder, and waits until it says something. Call `interrupt` to end it.
func devStart(t *testing.T, weir, folder, says string, arguments ...string) (output *lockedBuffer, interrupt func()) {
	t.Helper()
	cmd := devCommand(t.Context(), weir, folder, arguments...)
	output = &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(devPatience)
	for !strings.Contains(output.String(), says) {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, output.String())
		case <-late:
			t.Fatalf("it does not say %q:\n%s", says, output.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return output, func() {
		t.Helper()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v\n%s", err, output.String())
		}
	}
}

// testFleet has simulated nodes run jobs while the leader, which is also a controller, dies: all complete, none twice.
func testFleet(t *testing.T, weir string) {
	folder := t.TempDir()
	_, down := devStart(t, weir, folder, "ready until", "dev", "up", "--agents", "0", "--lease", "30s")
	_, end := devStart(t, weir, folder, "40 simulated nodes run", "dev", "fleet", "40", "--job-time", "1s", "--user-slots", "4", "--memory", "4GiB")
	runJobs(t, folder, 500, func() {
		if output, err := devRun(t, weir, folder, "dev", "kill", "leader"); err != nil {
			t.Errorf("kill the leader: %v\n%s", err, output)
		}
	})
	end()
	down()
	for _, wrong := range [][]string{{"0", "NODES"}, {"many", "NODES"}, {"5", "--cpu: must be more than 0", "--cpu", "0"}, {"5", "--memory", "--memory", "5 sheep"}, {"5", "no cluster"}} {
		if output, err := devRun(t, weir, folder, append([]string{"dev", "fleet", wrong[0]}, wrong[2:]...)...); err == nil || !strings.Contains(output, wrong[1]) {
			t.Errorf("%v: %v\n%s", wrong, err, output)
		}
	}
	wantNothing(t, folder, nil)
}

func testInterrupted(t *testing.T, weir string) {
	folder := t.TempDir()
	output, interrupt := devStart(t, weir, folder, "ready until", "dev", "up", "--replicas", "1", "--agents", "1", "--insecure-plaintext")
	record, err := devcluster.Load(filepath.Join(folder, ".weir"))
	if err != nil {
		t.Fatal(err)
	}
	runOperation(t, folder)
	interrupt()
	wantNothing(t, folder, record.Members)
	if !strings.Contains(output.String(), "INSECURE") {
		t.Errorf("it does not warn of plaintext:\n%s", output.String())
	}
}

func testWordcount(t *testing.T, weir string) {
	temporary := openFolder(t)
	t.Setenv("TMPDIR", temporary)
	source, err := goSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	output, err := devRun(t, weir, openFolder(t), "dev", "wordcount", "--source", filepath.Join(source, "net"), "--jobs", "96", "--agents", "2")
	if err != nil || !strings.Contains(output, "jobs lost: 0") || !strings.Contains(output, "time without a leader") {
		t.Errorf("wordcount: %v\n%s", err, output)
	}
	wantNothing(t, temporary, nil)
}

func testEstimates(t *testing.T, weir string) {
	temporary := openFolder(t)
	t.Setenv("TMPDIR", temporary)
	folder := openFolder(t)
	output, err := devRun(t, weir, folder, "dev", "estimates", "--for", "10s")
	rows := regexp.MustCompile(`(?m)^(first|next) job +([1-9]\d*) +([1-9]\d*) `).FindAllString(output, -1)
	if err != nil || len(rows) == 0 {
		t.Errorf("estimates: %v, %q\n%s", err, rows, output)
	}
	wantNothing(t, temporary, nil)
	if output, err := devRun(t, weir, folder, "dev", "estimates", "--for", "10ms"); err == nil || !strings.Contains(output, "--for 10ms: must be at least 1s") {
		t.Errorf("for no time: %v\n%s", err, output)
	}
}

// lockedBuffer may be read while it is written to.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestRemovedMemberIsNotToBeStartedOnly: it would end again.
func TestRemovedMemberIsNotToBeStartedOnly(t *testing.T) {
	m := devcluster.Member{Name: "r2", Address: "127.0.0.1:7702", Data: "/data/r2"}
	if got, want := finally(m, exitRemoved), "rm -r /data/r2 && weir cluster add r2 --address 127.0.0.1:7702 && weir dev start r2"; !strings.HasSuffix(got, want) {
		t.Errorf("removed: %q, want it to end with %q", got, want)
	}
	if got, want := finally(m, exitDiverged), "mv /data/r2/raft /data/r2/raft.aside-1 && weir dev start r2"; !strings.HasSuffix(got, want) {
		t.Errorf("diverged: %q, want it to end with %q", got, want)
	}
	if got := finally(m, exitFailure); got != "" {
		t.Errorf("failed: %q, want nothing", got)
	}
}

// makeProxy has a job proxy be there for clusters that are not started.
func makeProxy(t *testing.T) {
	t.Helper()
	proxy := filepath.Join(filepath.Dir(os.Args[0]), "weir-jobproxy")
	if err := os.WriteFile(proxy, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(proxy) })
}

func TestDevReplicasHaveTheLeaseThatTheyAreGiven(t *testing.T) {
	makeProxy(t)
	for lease, test := range map[time.Duration]struct{ want, wantError string }{
		0:                {},
		time.Minute:      {want: "--lease 1m0s"},
		2 * time.Second:  {want: "--lease 2s"},
		time.Second:      {wantError: "--lease: lease 1s: must be at least twice the heartbeat period of 1s"},
		-5 * time.Second: {wantError: "--lease: lease -5s: must be at least twice"},
	} {
		f := devFlags{cluster: smallCluster(t), lease: lease}
		c, err := f.config()
		if (err == nil) != (test.wantError == "") || err != nil && !strings.Contains(err.Error(), test.wantError) || strings.Join(c.ReplicaArguments, " ") != test.want {
			t.Errorf("%v: arguments of replicas %q, %v, want %q, %q", lease, c.ReplicaArguments, err, test.want, test.wantError)
		}
	}
}

func TestDevAgentsStopAsTheyAreTold(t *testing.T) {
	makeProxy(t)
	for value, test := range map[string]struct{ want, wantError string }{
		"":      {},
		"keep":  {want: "--on-stop keep"},
		"end":   {want: "--on-stop end"},
		"leave": {wantError: `--on-stop "leave": must be keep or end`},
	} {
		f := devFlags{cluster: smallCluster(t), onStop: value}
		c, err := f.config()
		if (err == nil) != (test.wantError == "") || err != nil && !strings.Contains(err.Error(), test.wantError) || strings.Join(c.AgentArguments, " ") != test.want {
			t.Errorf("%q: arguments of agents %q, %v, want %q, %q", value, c.AgentArguments, err, test.want, test.wantError)
		}
	}
}

func TestDevNodesHaveTheMemoryThatTheyAreGiven(t *testing.T) {
	makeProxy(t)
	for text, test := range map[string]struct {
		want      int64
		wantError string
	}{
		"":       {},
		"700MiB": {want: 700 << 20},
		"much":   {wantError: `--node-memory "much"`},
		"1000":   {wantError: `--node-memory "1000" is too little: the minimum is 1MiB`},
	} {
		f := devFlags{cluster: smallCluster(t), nodeMemory: text}
		c, err := f.config()
		switch {
		case test.wantError != "":
			if err == nil || !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("%q: got %v, want %q", text, err, test.wantError)
			}
		case err != nil || c.Share.Memory <= 0 || test.want != 0 && c.Share.Memory != test.want:
			t.Errorf("%q: memory of a node %d, %v", text, c.Share.Memory, err)
		}
	}
}

// smallCluster has what each cluster needs.
func smallCluster(t *testing.T) devcluster.Config {
	t.Helper()
	config := devcluster.Default()
	config.Dir, config.Replicas, config.Agents = t.TempDir(), 1, 2
	return config
}

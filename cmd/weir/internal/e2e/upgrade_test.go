package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/messages/apipb"
)

// nextVersion is what the build that replaces the present one calls itself.
const nextVersion = "next-build"

// newerBuild builds the programs of a node anew, such that they differ from those that
// the tests run otherwise.
func newerBuild(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, build := range []*exec.Cmd{
		exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-X main.version="+nextVersion, "-o", filepath.Join(folder, "weir"), "weir/cmd/weir"),
		exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(folder, "weir-jobproxy"), "weir/cmd/weir-jobproxy"),
	} {
		if filepath.Base(build.Args[len(build.Args)-1]) == "weir-jobproxy" {
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, output)
		}
	}
	return folder
}

// install puts the programs of a node from one folder into another, in the place of those
// that are there and may run.
func install(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"weir", "weir-jobproxy"} {
		if err := replaceFile(filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func replaceFile(path, by string) error {
	// Or a child that another test starts has the file open until its own program runs,
	// and it cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	source, err := os.Open(by)
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, source); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// pids are the processes of running jobs, by job.
func pids(jobs []*apipb.Job) map[string]int64 {
	found := map[string]int64{}
	for _, job := range jobs {
		found[job.GetId()] = job.GetPid()
	}
	return found
}

// TestNodeUpgrade replaces the programs of a node while 50 jobs run there: they go on, as
// the processes that they are, and each is counted once, also those that end while there
// is no agent.
func TestNodeUpgrade(t *testing.T) {
	t.Parallel()
	const half = 25
	node := newLauncher()
	// After the agent that it started.
	t.Cleanup(node.close)
	c := prepareCluster(t, here, "n1")
	c.more = []string{"--lease", "1m"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	newer, installed := newerBuild(t), t.TempDir()
	install(t, programs, installed)
	node.program = filepath.Join(installed, "weir")
	start := func() *process {
		return c.launch("n1", node, c.agentFlags("n1", "--cpu", "64", "--user-slots", "64", "--on-stop", "keep")...)
	}
	start()
	c.ready(t, 1)
	before := c.nodeRecord(t, "n1").GetVersion()

	// The one half ends while the agent is away, the other later.
	away, later := c.folder(t), c.folder(t)
	operations := map[string]string{}
	for _, dir := range []string{away, later} {
		operations[dir] = c.start(t, one(small(half, "run", dir, filepath.Join(dir, "release"))))
	}
	had := map[string]map[string]int64{}
	for dir, operation := range operations {
		had[dir] = pids(c.runs(t, operation, half))
	}
	if err := c.process("n1").stop(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	install(t, newer, installed)
	release := func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, "release"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release(away)
	start().says(t, "msg=registered")
	t.Logf("the node had no agent for %v", time.Since(stopped).Round(time.Millisecond))
	if after := c.nodeRecord(t, "n1").GetVersion(); after != nextVersion || before == nextVersion {
		t.Errorf("the node was of version %q and is of version %q, want %q", before, after, nextVersion)
	}
	for job, pid := range pids(c.runs(t, operations[later], half)) {
		if had[later][job] != pid {
			t.Errorf("job %s is process %d, and was %d", job, pid, had[later][job])
		}
	}
	c.counted(t, operations[away], away, half)
	// What is started now has the newer proxy.
	fresh := c.folder(t)
	c.counted(t, c.start(t, one(small(2, "run", fresh, "10ms"))), fresh, 2)
	release(later)
	c.counted(t, operations[later], later, half)
}

// counted waits for the end of an operation, each of whose jobs ran once.
func (c *cluster) counted(t *testing.T, operation, dir string, jobs int64) {
	t.Helper()
	p := c.ends(t, operation, "completed").GetProgress()
	if p.GetCompleted() != jobs || p.GetAborted() != 0 || p.GetFailed() != 0 {
		t.Errorf("progress %v, want %d completed and none aborted", p, jobs)
	}
	for cookie, lines := range witnessed(t, dir) {
		if len(lines) != 2 || lines[1].what != "end" {
			t.Errorf("%s: %v, want one attempt that ended", cookie, lines)
		}
	}
}

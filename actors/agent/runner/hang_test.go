package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// untilStuck has a shell wait until touch, which it has started last, waits for the disk, and
// not for a moment alone, as for its own program.
const untilStuck = "n=0; while [ $n -lt 20 ]; do grep -q '(touch) D ' /proc/$!/stat && n=$((n+1)) || n=0; sleep 0.01; done"

// TestHungEndIsReported has a disk hang on which a job keeps a file. The job ends, what is
// left of it is named each time that it is to be released, and nothing is left when the disk
// answers again.
func TestHungEndIsReported(t *testing.T) {
	tests := map[string]struct {
		shell    string
		outputs  bool
		users    runner.Users
		wantName string
	}{
		"the proxy":                      {shell: "echo mine > result", outputs: true, users: asRoot, wantName: "weir-jobproxy"},
		"a process of the job":           {shell: "touch $DISK/file & " + untilStuck, users: asRoot, wantName: "touch"},
		"a process of one that is apart": {shell: "touch $DISK/file & " + untilStuck, users: apart, wantName: "touch"},
	}
	for backend, detect := range backends {
		for name, test := range tests {
			t.Run(backend+", "+name, func(t *testing.T) {
				disk := hangingDisk(t)
				f := newFixture(t, detect, as(test.users), func(c *runner.Config) { c.EndTimeout = 1500 * time.Millisecond })
				spec := runner.JobSpec{Shell: "echo begun; while [ ! -e go ]; do sleep 0.01; done; " + test.shell, Environment: map[string]string{"DISK": disk}}
				if test.outputs {
					spec.Outputs = []proxyproto.KeptFile{{Path: "result", Destination: filepath.Join(disk, "kept")}}
				}
				job := f.start(t, spec)
				f.awaitOutput(t, job, 1)
				thaw := disktest.Freeze(t, disk)
				if err := os.Mkdir(filepath.Join(f.config.Root, "jobs", "job", proxyproto.WorkspaceFolder, "go"), 0o700); err != nil {
					t.Fatal(err)
				}
				result := finished(t, job)
				if result.Outcome != proxyproto.OutcomeEndHung || result.Hang == nil || !strings.Contains(result.Error, test.wantName) {
					t.Errorf("result %+v, want its end to hang, and %s named", result, test.wantName)
				}
				if err := job.Release(); !errors.Is(err, runner.ErrHung) || !strings.Contains(err.Error(), test.wantName+" (pid ") {
					t.Errorf("Release: %v, want %s named", err, test.wantName)
				}
				if f.Job("job") != job {
					t.Error("the job is forgotten")
				}
				thaw()
				eventually(t, "the job is released", func() bool { return job.Release() == nil })
			})
		}
	}
}

// asRoot are jobs that are root. apart are jobs with process ids of their own: what ends their proxy
// waits for them.
var asRoot, apart = runner.Users{Root: true}, runner.Users{Own: runner.DefaultUIDs}

// hangingDisk is a disk which the users of jobs reach.
func hangingDisk(t *testing.T) string {
	t.Helper()
	t.Setenv("TMPDIR", disktest.Reachable(t))
	disk := disktest.Hanging(t, 8)
	for folder := filepath.Dir(disk); len(folder) > len(os.TempDir()); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

// TestProxyKilledWhileAProcessHangs: the job ends though nobody can end its process.
func TestProxyKilledWhileAProcessHangs(t *testing.T) {
	for _, users := range []runner.Users{asRoot, apart} {
		onEachBackendWith(t, func(c *runner.Config) { c.EndTimeout, c.Users = time.Second, users }, killProxyOfAHungProcess)
	}
}

func killProxyOfAHungProcess(t *testing.T, f *fixture) {
	disk := hangingDisk(t)
	thaw := disktest.Freeze(t, disk)
	job := f.start(t, runner.JobSpec{Shell: "echo begun; exec touch $DISK/file", Environment: map[string]string{"DISK": disk}})
	f.awaitOutput(t, job, 1)
	pid, err := strconv.Atoi(proxiesOf(t, filepath.Join(f.config.Root, "jobs", "job"))[0])
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := proctree.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a process that hangs", func() bool {
		inside, err := proctree.Tree(proxy.Pid, "")
		return err == nil && slices.ContainsFunc(inside, func(p proctree.Process) bool { return p.Stuck })
	})
	if err := proctree.Signal(proxy.Identity, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	result := finished(t, job)
	if result.Outcome != proxyproto.OutcomeProxyFailed || result.Hang == nil || !strings.Contains(result.Error, "still running") {
		t.Errorf("result %+v, want the proxy failed, and processes left", result)
	}
	thaw()
	eventually(t, "the job is released", func() bool { return job.Release() == nil })
}

// TestLeasesGoOnWhileOutputIsDropped: the disk hangs on which output is that is not kept any
// more, and nobody waits for it but who releases the job.
func TestLeasesGoOnWhileOutputIsDropped(t *testing.T) {
	disk := disktest.Hanging(t, 8)
	f := newFixture(t, backends["as a process tree"], func(c *runner.Config) {
		c.Retain.Jobs = 0
		if err := errors.Join(os.Mkdir(c.Root, 0o700), os.Symlink(disk, filepath.Join(c.Root, "output"))); err != nil {
			t.Fatal(err)
		}
	})
	job := f.start(t, runner.JobSpec{Shell: "true"})
	finished(t, job)
	thaw := disktest.Freeze(t, disk)
	released, went := make(chan error, 1), make(chan struct{})
	go func() { released <- job.Release() }()
	go func() {
		defer close(went)
		for f.Job("job") != nil {
			pause()
		}
		f.RenewAll(clock.Boot() + time.Minute)
	}()
	select {
	case <-went:
	case <-time.After(patience):
		t.Error("leases are not renewed")
	}
	select {
	case err := <-released:
		t.Fatalf("Release: %v while the disk hangs: nothing is tested", err)
	default:
	}
	thaw()
	if err := <-released; err != nil {
		t.Errorf("Release: %v", err)
	}
}

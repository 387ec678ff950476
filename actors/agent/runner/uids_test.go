package runner_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// TestAdoptedUsers (T2): a job keeps its user when another agent takes it over, and no other job gets
// that user before the job is released.
func TestAdoptedUsers(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, backends["as a process tree"], as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_001}}))
	const say = `id -u; test -S "$WEIR_DISCOVERY" && echo found; trap 'id -u; exit 0' TERM; echo ready; while :; do sleep 0.01; done`
	uid := func(job *runner.Job) string { return f.awaitOutput(t, job, 3)[0] }
	first := f.start(t, runner.JobSpec{ID: "first", Shell: say})
	if got := uid(first); got != "200000" {
		t.Errorf("the first job is %s", got)
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	if got := uid(f.start(t, runner.JobSpec{ID: "second", Shell: say})); got != "200001" {
		t.Errorf("the second job is %s", got)
	}
	if _, err := f.Start(f.ctx, runner.JobSpec{ID: "third", Shell: say, Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job: %v", err)
	}
	first = f.Job("first")
	if err := first.Stop("x", patience); err != nil {
		t.Fatal(err)
	}
	finished(t, first)
	if lines := f.awaitOutput(t, first, 4); lines[3] != "200000" {
		t.Errorf("the first job says %v", lines)
	}
	if _, err := f.Start(f.ctx, runner.JobSpec{ID: "third", Shell: say, Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job, before the first is released: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if got := uid(f.start(t, runner.JobSpec{ID: "third", Shell: say})); got != "200000" {
		t.Errorf("the third job is %s", got)
	}
}

// TestUserOfADeadProxy (T2): the proxy of an adopted job is killed, and with it the claim that it held. No
// job of another agent of the machine gets the user before the job is released.
func TestUserOfADeadProxy(t *testing.T) {
	needsRoot(t)
	users := as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_001}})
	f := newFixture(t, backends["as a process tree"], users)
	const say = `id -u; echo ready; while :; do sleep 0.01; done`
	uid := func(f *fixture, job *runner.Job) string { return f.awaitOutput(t, job, 2)[0] }
	if got := uid(f, f.start(t, runner.JobSpec{ID: "job", Shell: say})); got != "200000" {
		t.Errorf("the first job is %s", got)
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	first := f.Job("job")
	killProxy(t, f, 0)
	if result := finished(t, first); result.Outcome != proxyproto.OutcomeProxyFailed {
		t.Errorf("the first job ended with %+v", result)
	}
	other := newFixture(t, backends["as a process tree"], users, func(c *runner.Config) { c.Claims = f.config.Claims })
	if got := uid(other, other.start(t, runner.JobSpec{ID: "second", Shell: say})); got != "200001" {
		t.Errorf("the second job is %s", got)
	}
	if _, err := other.Start(other.ctx, runner.JobSpec{ID: "third", Shell: say, Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job, before the first is released: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if got := uid(other, other.start(t, runner.JobSpec{ID: "third", Shell: say})); got != "200000" {
		t.Errorf("the third job is %s", got)
	}
}

// TestUserOfADyingProxy: the proxy of an adopted job is killed, but cannot end while a process of the job hangs. It has let
// go of its claim by then, and no job of another agent of the machine gets the user.
func TestUserOfADyingProxy(t *testing.T) {
	needsRoot(t)
	disk := hangingDisk(t)
	thaw := disktest.Freeze(t, disk)
	users := as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_001}})
	f := newFixture(t, backends["as a process tree"], users, func(c *runner.Config) { c.EndTimeout = time.Second })
	f.awaitOutput(t, f.start(t, runner.JobSpec{Shell: "echo begun; exec touch $DISK/file", Environment: map[string]string{"DISK": disk}}), 1)
	proxy := f.proxyIdentity(t)
	eventually(t, "a process that hangs", func() bool {
		inside, err := proctree.Tree(proxy.Pid, "")
		return err == nil && slices.ContainsFunc(inside, func(p proctree.Process) bool { return p.Stuck })
	})
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	if err := proctree.Signal(proxy, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent has the claim", func() bool {
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/fd/*", proxy.Pid))
		return err == nil && len(open) == 0 && claimed(t, f.config.Claims, 200_000)
	})
	if !proctree.Alive(proxy) {
		t.Fatal("the proxy is gone: nothing is tested")
	}
	other := newFixture(t, backends["as a process tree"], users, func(c *runner.Config) { c.Claims = f.config.Claims })
	if uid := other.awaitOutput(t, other.start(t, runner.JobSpec{ID: "second", Shell: "id -u; sleep 1000"}), 1)[0]; uid != "200001" {
		t.Errorf("the second job is %s", uid)
	}
	if _, err := other.Start(other.ctx, runner.JobSpec{ID: "third", Shell: "true", Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job, while a process of the first hangs: %v", err)
	}
	first := f.Job("job")
	finished(t, first)
	thaw()
	eventually(t, "the job is released", func() bool { return first.Release() == nil })
}

// claimed reports whether somebody claims a user.
func claimed(t *testing.T, claims string, uid int64) bool {
	t.Helper()
	file, err := os.OpenFile(claims, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: uid, Len: 1}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return lock.Type != unix.F_UNLCK
}

package proctree

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// headlessVariable has the test binary be a process whose first thread ends.
const headlessVariable = "WEIR_TEST_HEADLESS"

func init() {
	if os.Getenv(headlessVariable) == "" {
		return
	}
	// Functions of this name run in the first thread.
	runtime.LockOSThread()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// TestNoRoomForALook is no sign of an end.
func TestNoRoomForALook(t *testing.T) {
	self, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	alive, signalled := Alive(self.Identity), Signal(self.Identity, 0)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !alive || !errors.Is(signalled, unix.EMFILE) {
		t.Errorf("alive: %t, Signal: %v", alive, signalled)
	}
}

// TestKillWithoutAFirstThread: a process lives as long as any of its threads.
func TestKillWithoutAFirstThread(t *testing.T) {
	command := exec.Command("/proc/self/exe")
	command.Env = []string{headlessVariable + "=1"}
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(command.Process.Pid, unix.SIGKILL)
		_ = command.Wait()
		_ = input.Close()
	})
	process, err := Read(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); Arguments(process) != nil; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its first thread does not end")
		}
	}
	if !Alive(process.Identity) {
		t.Error("it is taken to have gone")
	}
	living := func() ([]Process, error) {
		return slices.DeleteFunc([]Process{process}, func(p Process) bool { return !Alive(p.Identity) }), nil
	}
	if err := Kill(living, time.Minute); err != nil {
		t.Fatal(err)
	}
	if Alive(process.Identity) {
		t.Error("it lives after Kill")
	}
}

// TestKillOfOneThatWasOverlooked: what forked while processes were listed, and ended then,
// is in no list, and neither is its child.
func TestKillOfOneThatWasOverlooked(t *testing.T) {
	overlooked := begin(t, nil, "/bin/sleep", "1000")
	looks := 0
	err := Kill(func() ([]Process, error) {
		if looks++; looks == 1 || !Alive(overlooked.Identity) {
			return nil, nil
		}
		return []Process{overlooked}, nil
	}, time.Minute)
	if err != nil || Alive(overlooked.Identity) {
		t.Errorf("%v after %d looks, alive %t, want it killed", err, looks, Alive(overlooked.Identity))
	}
}

// TestKillWaitsForWhoLosesItsMark: a process that ends shows nothing of what it was before it
// is gone.
func TestKillWaitsForWhoLosesItsMark(t *testing.T) {
	process := begin(t, nil, "/bin/sleep", "1000")
	looks := 0
	err := Kill(func() ([]Process, error) {
		if looks++; looks == 1 {
			return []Process{process}, nil
		}
		return nil, nil
	}, time.Minute)
	if err != nil || Alive(process.Identity) {
		t.Errorf("%v after %d looks, alive %t, want it gone", err, looks, Alive(process.Identity))
	}
}

// TestSignalToAThreadsNumber: the pid of a process that has gone may be that of a thread.
func TestSignalToAThreadsNumber(t *testing.T) {
	thread, end := make(chan int), make(chan struct{})
	defer close(end)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		<-end
	}()
	if err := Signal(proxyproto.Identity{Pid: <-thread, StartTicks: 1}, unix.SIGKILL); err != nil {
		t.Errorf("Signal: %v, want nobody to be meant", err)
	}
}

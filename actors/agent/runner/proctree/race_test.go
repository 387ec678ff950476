package proctree

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
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

// TestKillWithoutAFirstThread: a process lives as long as any of its threads, and shows the
// mark.
func TestKillWithoutAFirstThread(t *testing.T) {
	mark := ownMark("headless")
	command := exec.Command("/proc/self/exe")
	command.Env = []string{headlessVariable + "=1", proxyproto.TreeVariable + "=" + mark}
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
	var process Process
	for deadline := time.Now().Add(time.Minute); !process.Headless; <-time.After(time.Millisecond) {
		if process, err = Read(command.Process.Pid); err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v, want its first thread to end", process, err)
		}
	}
	if !Alive(process.Identity) || !marked(process, mark, soon()) || !slices.Equal(Arguments(process), command.Args) {
		t.Errorf("%+v: alive %t, marked %t, arguments %q", process, Alive(process.Identity), marked(process, mark, soon()), Arguments(process))
	}
	if err := Kill(func() ([]Process, error) { return Tree(-1, mark) }, time.Minute); err != nil {
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

// TestLostParents: who lost its parent while others were read belongs to who has it then.
func TestLostParents(t *testing.T) {
	parent := exec.Command("/bin/sh", "-c", "sleep 1000 >/dev/null & echo $!; read line")
	input, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	child, err := Read(pid)
	if err != nil || child.Parent != parent.Process.Pid {
		t.Fatalf("%+v, %v, want the child of %d", child, err, parent.Process.Pid)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	all := []Process{child}
	if readParents(all); all[0].Parent == child.Parent || all[0].Identity != child.Identity || all[0].Gone {
		t.Errorf("%+v, want another parent than %d", all[0], child.Parent)
	}
	if err := Signal(child.Identity, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); Alive(child.Identity); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not gone")
		}
	}
	all = []Process{child}
	if readParents(all); !all[0].Gone {
		t.Errorf("%+v, want it gone", all[0])
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

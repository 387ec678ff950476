package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// TestThreadMovesItself into the groups of version 1: a thread that is moved by its number
// waits for every processor of the machine.
func TestThreadMovesItself(t *testing.T) {
	// The first thread of a process goes back to the group above.
	root := fakeTree(t, map[string]string{"tasks": "", "n/m/tasks": "", "n/c/tasks": "", "n/p/tasks": ""})
	started := false
	err := Open(hybridPlace(filepath.Join(root, "n"))).startInside(func() error {
		for _, name := range []string{"n/m/tasks", "n/c/tasks", "n/p/tasks"} {
			if got := read(t, root, name); got != "0" {
				t.Errorf("%s is %q as the process is started, want the thread itself, 0", name, got)
			}
		}
		started = true
		return nil
	})
	if err != nil || !started {
		t.Errorf("startInside: %v, started: %t", err, started)
	}
}

// TestThreadThatCannotMoveGoesBack out of the groups that it has joined, and starts nothing.
func TestThreadThatCannotMoveGoesBack(t *testing.T) {
	root := fakeTree(t, map[string]string{"tasks": "", "n/m/tasks": "", "n/p/tasks": ""})
	place := hybridPlace(filepath.Join(root, "n"))
	if err := os.Mkdir(place.CPU, 0o700); err != nil {
		t.Fatal(err)
	}
	err := Open(place).startInside(func() error {
		t.Error("a process was started")
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("startInside: %v, want that a group has no tasks", err)
	}
	if got := read(t, root, "tasks"); got != "0" {
		t.Errorf("the group above has %q, want the thread itself, 0", got)
	}
	if got := read(t, root, "n/p/tasks"); got != "" {
		t.Errorf("a group after the one that failed has %q", got)
	}
}

// TestThreadTakesNoPlaceOfTheJob: a job may have as many processes as its limit says from the
// moment at which that is set, though the thread that has started it is there still.
func TestThreadTakesNoPlaceOfTheJob(t *testing.T) {
	node, err := Detect("/", fmt.Sprint("test-", os.Getpid()))
	if err != nil {
		t.Skip(err)
	}
	group := Open(Job(node, "job"))
	t.Cleanup(func() {
		if err := errors.Join(group.Kill(time.Minute), group.Remove(time.Minute), RemoveNode(node)); err != nil {
			t.Error(err)
		}
	})
	if err := group.Create(Limits{Pids: 1}); err != nil {
		t.Fatal(err)
	}
	onLaterThread(func() {
		attributes := &syscall.SysProcAttr{}
		pid := 0
		err := group.Start(attributes, func() (err error) {
			pid, _, err = syscall.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{Sys: attributes})
			return err
		})
		if err != nil {
			t.Error(err)
			return
		}
		limit, limitErr := readInt(group.pidsFolder(), "pids.max")
		current, currentErr := readInt(group.pidsFolder(), "pids.current")
		if limit != 1 || current != 1 {
			t.Errorf("%d are in the group of one process, the limit is %d: %v", current, limit, errors.Join(limitErr, currentErr))
		}
		if err := group.Kill(time.Minute); err != nil {
			t.Error(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
	})
}

// onLaterThread does work on a thread that is not the first of the process, and ends it.
func onLaterThread(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			work()
			return
		}
		onLaterThread(work)
		runtime.UnlockOSThread()
	}()
	<-done
}

// TestTooManyWatches is no reason not to start a job.
func TestTooManyWatches(t *testing.T) {
	group := Open(proxyproto.Placement{Unified: fakeTree(t, jobV2()) + "/u"})
	// The kernel says the same of too many watches of a user.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	stop, err := group.WatchMemory(func() { t.Error("it is told of something") })
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stop()
}

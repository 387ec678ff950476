package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
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

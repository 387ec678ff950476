package filecache

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestProgramsCanBeRunAtOnce, though other programs are started all the time: each of them
// has for a moment what the cache has open.
func TestProgramsCanBeRunAtOnce(t *testing.T) {
	c, from := opened(t, t.TempDir(), 1<<20), filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(from, []byte("#!/bin/true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := exec.Command("/bin/true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer others.Wait()
	defer close(over)
	dir := t.TempDir()
	for i := range 100 {
		name := strconv.Itoa(i)
		if err := c.Place(t.Context(), dir, nil, []File{{Source: from, Path: name, Executable: true}}); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(filepath.Join(dir, name)).Run(); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
	}
}

func TestWritersAreAwaited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tool")
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := awaitWriters(t.Context(), path, 10*time.Millisecond); err != nil {
		t.Errorf("who has waited for long enough: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := awaitWriters(over, path, patience); !errors.Is(err, context.Canceled) {
		t.Errorf("who is called off: %v", err)
	}
	var closing atomic.Bool
	time.AfterFunc(10*time.Millisecond, func() {
		closing.Store(true)
		_ = writer.Close()
	})
	if err := awaitWriters(t.Context(), path, patience); err != nil || !closing.Load() {
		t.Errorf("waited until it is closed: %t, %v", closing.Load(), err)
	}
}

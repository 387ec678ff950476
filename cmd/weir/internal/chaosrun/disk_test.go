package chaosrun

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// TestHungDisk holds a program that writes all the time, and lets it go on.
func TestHungDisk(t *testing.T) {
	if err := canHangDisks(); err != nil {
		t.Skip("disks do not hang here:", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `while dd if=/dev/zero of=file bs=1 count=1 conv=fsync 2>/dev/null; do echo on disk; done`)
	cmd.Dir = t.TempDir()
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{}, 1)
	go func() {
		defer close(written)
		for lines := bufio.NewScanner(printed); lines.Scan(); {
			select {
			case written <- struct{}{}:
			default:
			}
		}
	}()
	writes := func(within time.Duration) bool {
		select {
		case _, goesOn := <-written:
			return goesOn
		case <-time.After(within):
			return false
		}
	}
	var disks hungDisks
	for range 2 {
		if !writes(patience) {
			t.Fatal("it does not write")
		}
		if err := disks.hang(t.Context(), "r1", cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		// A disk that is slow is quiet as well.
		if tracer := disks.tracers["r1"].Process.Pid; !tracedBy(cmd.Process.Pid, tracer) {
			t.Fatalf("process %d is not traced by %d", cmd.Process.Pid, tracer)
		}
		// What was under way is done, and one more may wait in the channel.
		for left := 5; writes(time.Second / 2); left-- {
			if left == 0 {
				t.Fatal("it writes although its disk hangs")
			}
		}
		if err := disks.mend("r1"); err != nil {
			t.Fatal(err)
		}
		if !tracedBy(cmd.Process.Pid, 0) {
			t.Fatal("it is traced although its disk is well again")
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := disks.hang(stopped, "r1", cmd.Process.Pid); !errors.Is(err, context.Canceled) {
		t.Errorf("hang a disk when the run is to end: %v", err)
	}
	if !writes(patience) {
		t.Error("it does not write although its disk is well again")
	}
	if err := disks.mend("r1"); err != nil {
		t.Errorf("mend a disk that does not hang: %v", err)
	}
	if err := disks.hang(t.Context(), "r1", cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The dd that it waited for goes on, and its reader to its end.
	if err := disks.mend("r1"); err != nil {
		t.Errorf("mend the disk of a process that is gone: %v", err)
	}
	if err := disks.hang(t.Context(), "r1", 1<<22+1); err == nil {
		t.Error("the disk of a process that is not there hangs")
	}
	for range written {
		continue
	}
	_ = cmd.Wait()
}

// patience bounds what takes a moment on a machine that is not busy.
const patience = 6 * time.Minute

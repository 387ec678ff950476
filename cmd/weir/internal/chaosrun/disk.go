package chaosrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/cmd/poll"
	"weir/cmd/weir/internal/devcluster"
)

// hungDisks makes disks hang: a tracer for each process delays its sync calls at entry.
// When the tracer ends, however it ends, the calls proceed.
type hungDisks struct {
	mu      sync.Mutex
	tracers map[string]*devcluster.Child
}

// tracing is the program that traces.
const tracing = "strace"

// canHangDisks returns an error if this process cannot trace others here.
func canHangDisks() error {
	if os.Geteuid() != 0 {
		return errors.New("tracing other processes needs root")
	}
	_, err := exec.LookPath(tracing)
	return err
}

const (
	// hangs is the delay of a call, longer than any fault.
	hangs = time.Hour
	// tracerPatience bounds how long a tracer may take to attach, or to end, on a busy
	// machine.
	tracerPatience = 30 * time.Second
)

// hang makes the disk of a member hang; pid is its process.
func (d *hungDisks) hang(ctx context.Context, member string, pid int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	calls := "fsync,fdatasync"
	cmd := exec.Command(tracing, "--follow-forks", "--quiet=all", "--output=/dev/null", "--trace="+calls,
		fmt.Sprintf("--inject=%s:delay_enter=%d", calls, hangs.Microseconds()), "--attach="+strconv.Itoa(pid))
	t, err := devcluster.StartChild(cmd, true, nil)
	if err != nil {
		return fmt.Errorf("hang the disk of %s: %w", member, err)
	}
	if err := holds(ctx, t, pid); err != nil {
		return errors.Join(fmt.Errorf("hang the disk of %s: %w", member, err), endTracer(t))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracers == nil {
		d.tracers = make(map[string]*devcluster.Child)
	}
	d.tracers[member] = t
	return nil
}

// holds waits until a tracer has attached to a process.
func holds(ctx context.Context, t *devcluster.Child, pid int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, tracerPatience, fmt.Errorf("process %d cannot be traced within %v", pid, tracerPatience))
	defer cancel()
	return poll.Every(ctx, 5*time.Millisecond, func() (bool, error) {
		traced := tracedBy(pid, t.Process.Pid)
		if !traced && t.Over() {
			return true, fmt.Errorf("process %d cannot be traced: the tracer has ended", pid)
		}
		return traced, nil
	})
}

// mend ends the hang of a member's disk.
func (d *hungDisks) mend(member string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tracers[member]
	delete(d.tracers, member)
	if t == nil {
		return nil
	}
	return endTracer(t)
}

// endTracer stops a tracer, which may have ended already, and waits for its end. How it ends does
// not matter.
func endTracer(t *devcluster.Child) error {
	if err := t.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("end tracer: %w", err)
	}
	kill := time.AfterFunc(tracerPatience, func() { _ = t.Process.Signal(unix.SIGKILL) })
	defer kill.Stop()
	<-t.Ended
	return nil
}

// tracedBy reports whether tracer traces every thread of a process.
func tracedBy(pid, tracer int) bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "status"))
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err == nil && !bytes.Contains(status, fmt.Appendf(nil, "TracerPid:\t%d\n", tracer)) {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

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

	"weir/cmd/weir/internal/devcluster"
)

// hungDisks are the processes whose disks hang: a tracer of each holds every call that
// waits for the disk at its door. A tracer that ends lets them pass, however it ends.
type hungDisks struct {
	mu      sync.Mutex
	tracers map[string]*devcluster.Child
}

// tracing is the program that traces.
const tracing = "strace"

// canHangDisks says whether this process may do it here.
func canHangDisks() error {
	if os.Geteuid() != 0 {
		return errors.New("tracing other processes needs root")
	}
	_, err := exec.LookPath(tracing)
	return err
}

const (
	// hangs is longer than any fault.
	hangs = time.Hour
	// tracerPatience bounds the wait for a tracer to begin, or to end: it waits for a
	// processor as all others do.
	tracerPatience = 30 * time.Second
)

// hang has the disk of a member hang, whose process is pid.
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

// holds returns when a tracer has got hold of a process.
func holds(ctx context.Context, t *devcluster.Child, pid int) error {
	patience := time.NewTimer(tracerPatience)
	defer patience.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !tracedBy(pid, t.Process.Pid) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.Ended:
			return fmt.Errorf("process %d cannot be traced: the tracer has ended", pid)
		case <-patience.C:
			return fmt.Errorf("process %d cannot be traced within %v", pid, tracerPatience)
		}
	}
	return nil
}

// mend lets the calls of a member pass.
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

// endTracer ends a tracer, which has ended already when its process has. How it ends is how its
// process did, or by the signal.
func endTracer(t *devcluster.Child) error {
	if err := t.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("end tracer: %w", err)
	}
	kill := time.AfterFunc(tracerPatience, func() { _ = t.Process.Signal(unix.SIGKILL) })
	defer kill.Stop()
	<-t.Ended
	return nil
}

// tracedBy says whether every thread of a process is traced by another process.
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

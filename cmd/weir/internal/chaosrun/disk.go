package chaosrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hungDisks are the processes whose disks hang: a tracer of each holds every call that
// waits for the disk at its door. A tracer that ends lets them pass, however it ends.
type hungDisks struct {
	mu      sync.Mutex
	tracers map[string]*tracer
}

// tracer is a program that traces.
type tracer struct {
	process *os.Process
	// ended is closed when it has, with err.
	ended chan struct{}
	err   error
}

// startTracer starts a program that ends with this process at the latest. The kernel
// goes by the thread that started it, so one thread does nothing else until it ends.
func startTracer(cmd *exec.Cmd) (*tracer, error) {
	// Out of the terminal's reach.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	t := &tracer{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		t.process = cmd.Process
		started <- err
		if err == nil {
			t.err = cmd.Wait()
			close(t.ended)
		}
	}()
	return t, <-started
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
	t, err := startTracer(cmd)
	if err != nil {
		return fmt.Errorf("hang the disk of %s: %w", member, err)
	}
	if err := t.holds(ctx, pid); err != nil {
		return errors.Join(fmt.Errorf("hang the disk of %s: %w", member, err), t.end())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracers == nil {
		d.tracers = make(map[string]*tracer)
	}
	d.tracers[member] = t
	return nil
}

// holds returns when a tracer has got hold of a process.
func (t *tracer) holds(ctx context.Context, pid int) error {
	patience := time.NewTimer(tracerPatience)
	defer patience.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !tracedBy(pid, t.process.Pid) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ended:
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
	return t.end()
}

// end ends a tracer, which has ended already when its process has.
func (t *tracer) end() error {
	if err := t.process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end tracer: %w", err)
	}
	kill := time.AfterFunc(tracerPatience, func() { _ = t.process.Kill() })
	defer kill.Stop()
	// How it ends is how its process did, or by the signal.
	<-t.ended
	if exit := new(exec.ExitError); t.err != nil && !errors.As(t.err, &exit) {
		return fmt.Errorf("end tracer: %w", t.err)
	}
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

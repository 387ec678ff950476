package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	tracers map[string]*exec.Cmd
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
	// tracerPatience bounds the wait for a tracer to begin, or to end.
	tracerPatience = 5 * time.Second
)

// hang has the disk of a member hang, whose process is pid.
func (d *hungDisks) hang(member string, pid int) error {
	calls := "fsync,fdatasync"
	cmd := exec.Command(tracing, "--follow-forks", "--quiet=all", "--output=/dev/null", "--trace="+calls,
		fmt.Sprintf("--inject=%s:delay_enter=%d", calls, hangs.Microseconds()), "--attach="+strconv.Itoa(pid))
	// Out of the terminal's reach, and never longer than this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("hang the disk of %s: %w", member, err)
	}
	for end := time.Now().Add(tracerPatience); !tracedBy(pid, cmd.Process.Pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) || !aliveChild(cmd) {
			return errors.Join(fmt.Errorf("hang the disk of %s: process %d cannot be traced", member, pid), endTracer(cmd))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracers == nil {
		d.tracers = make(map[string]*exec.Cmd)
	}
	d.tracers[member] = cmd
	return nil
}

// mend lets the calls of a member pass.
func (d *hungDisks) mend(member string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	cmd := d.tracers[member]
	delete(d.tracers, member)
	if cmd == nil {
		return nil
	}
	return endTracer(cmd)
}

// endTracer ends a tracer, which has ended already when its process has.
func endTracer(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end tracer: %w", err)
	}
	kill := time.AfterFunc(tracerPatience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	// How it ends is how its process did, or by the signal.
	if err, exit := cmd.Wait(), new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("end tracer: %w", err)
	}
	return nil
}

// aliveChild says whether a child that has not been waited for runs.
func aliveChild(cmd *exec.Cmd) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
	return err == nil && !bytes.Contains(status, []byte("State:\tZ"))
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

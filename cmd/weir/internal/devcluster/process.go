package devcluster

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a process that this one started.
type Child struct {
	Process Process
	// Ended is closed when the process has ended. From then on, `end` says how the process
	// ended, and `code` is its exit code.
	Ended chan struct{}
	end   string
	code  int
}

// Over says whether the child has ended.
func (c *Child) Over() bool {
	select {
	case <-c.Ended:
		return true
	default:
		return false
	}
}

// StartChild starts a program in its own session: Ctrl-C reaches only the owner, which
// stops its children in order. With `attach`, the child is killed when this process ends,
// however it ends. `enter`, if not nil, runs first on the thread that starts the child, to
// change its namespace.
func StartChild(cmd *exec.Cmd, attach bool, enter func() error) (*Child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if attach {
		cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	}
	c := &Child{Ended: make(chan struct{}), end: "exit status 0"}
	begun := make(chan error)
	go func() {
		// Linux kills an attached child when the thread that started it ends, so that
		// thread does nothing else. It is never unlocked: it ends with the goroutine.
		runtime.LockOSThread()
		err := c.begin(cmd, enter)
		begun <- err
		if err != nil {
			return
		}
		if err := cmd.Wait(); err != nil {
			c.end, c.code = err.Error(), cmd.ProcessState.ExitCode()
		}
		close(c.Ended)
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	return c, nil
}

// begin is the part of StartChild that runs on the child's thread.
func (c *Child) begin(cmd *exec.Cmd, enter func() error) error {
	if enter != nil {
		if err := enter(); err != nil {
			return err
		}
	}
	err := cmd.Start()
	if err != nil {
		return err
	}
	// Until Wait the pid is not reused, even if the child has ended.
	if c.Process, err = identify(cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return nil
}

// launch starts the member's program, or `program` if it has none of its own, attached or not, in its
// network namespace if network is not nil.
func launch(program string, m *Member, attach bool, network *Network) (*Child, error) {
	if err := os.MkdirAll(filepath.Dir(m.Log), passable); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(m.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// The child has its own descriptor.
	defer log.Close()
	if m.LogStart, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	cmd := exec.Command(cmp.Or(m.Program, program), m.Arguments...)
	cmd.Dir = filepath.Dir(m.Log)
	cmd.Stdout, cmd.Stderr = log, log
	var enter func() error
	if network != nil {
		enter = func() error { return network.enter(m.Name) }
	}
	return StartChild(cmd, attach, enter)
}

// readyPrefix is the prefix of the one line that a process prints when it is up.
const readyPrefix = "ready"

// Ready reports whether the member's latest process has printed that it is up.
func (m *Member) Ready() bool {
	ready := false
	_ = m.lines(func(line string) { ready = ready || strings.HasPrefix(line, readyPrefix) })
	return ready
}

// tailLines is how many log lines are shown to explain why a process ended.
const tailLines = 12

// Tail returns the last lines that the member's latest process printed.
func (m *Member) Tail() string {
	var last []string
	err := m.lines(func(line string) {
		if last = append(last, line); len(last) > tailLines {
			last = last[1:]
		}
	})
	switch {
	case err != nil:
		return fmt.Sprintf("  (its log cannot be read: %v)", err)
	case len(last) == 0:
		return "  (it printed nothing)"
	}
	return "  " + strings.Join(last, "\n  ")
}

// lines calls visit for each line of the latest process.
func (m *Member) lines(visit func(string)) error { return EachLine(m.Log, m.LogStart, visit) }

// EachLine calls visit for each line of a log, beginning at the offset `from`.
func EachLine(log string, from int64, visit func(string)) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return err
	}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		visit(scanner.Text())
	}
	return scanner.Err()
}

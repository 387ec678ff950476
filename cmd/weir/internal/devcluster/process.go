package devcluster

import (
	"bufio"
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

// child is a process that this one started.
type child struct {
	process Process
	// ended is closed when it has; end says how, and code is its exit code.
	ended chan struct{}
	end   string
	code  int
}

// over says whether the child has ended.
func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// launch starts the member's program. With attach, the child dies with the thread
// that called launch.
func launch(program string, m *Member, attach bool) (*child, error) {
	if err := os.MkdirAll(filepath.Dir(m.Log), passable); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(m.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// The child has its own.
	defer log.Close()
	if m.LogStart, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, m.Arguments...)
	cmd.Dir = filepath.Dir(m.Log)
	cmd.Stdout, cmd.Stderr = log, log
	// Out of the terminal's reach: Ctrl-C is for the owner, which stops its children
	// in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if attach {
		cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	started := &child{ended: make(chan struct{})}
	// It is not waited for yet, so the pid is its own even if it has ended.
	started.process, err = identify(cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		err := cmd.Wait()
		started.end = "exit status 0"
		if err != nil {
			started.end, started.code = err.Error(), cmd.ProcessState.ExitCode()
		}
		close(started.ended)
	}()
	return started, nil
}

// launcher starts children that die with this process, however it ends. Linux ends
// them when the thread that started them ends, so that thread does nothing else.
type launcher struct {
	network *Network
	work    chan func()
}

// newLauncher returns one that starts each member at its place of the network, if
// there is one.
func newLauncher(network *Network) *launcher {
	l := &launcher{network: network, work: make(chan func())}
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		for work := range l.work {
			work()
		}
	}()
	return l
}

func (l *launcher) launch(program string, m *Member) (started *child, err error) {
	done := make(chan struct{})
	l.work <- func() {
		defer close(done)
		started, err = l.launchHere(program, m)
	}
	<-done
	return started, err
}

// launchHere is launch on the launcher's thread.
func (l *launcher) launchHere(program string, m *Member) (*child, error) {
	if l.network == nil {
		return launch(program, m, true)
	}
	back, err := l.network.enter(m.Name)
	if err != nil {
		return nil, err
	}
	started, err := launch(program, m, true)
	return started, errors.Join(err, back())
}

// close ends the thread, and with it all children that live.
func (l *launcher) close() { close(l.work) }

// readyPrefix begins the one line that a process prints when it is up.
const readyPrefix = "ready"

// Ready says whether the member's latest process has said that it is up.
func (m *Member) Ready() bool {
	ready := false
	_ = m.lines(func(line string) { ready = ready || strings.HasPrefix(line, readyPrefix) })
	return ready
}

// tailLines is how much of a log explains why a process ended.
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

// EachLine calls visit for each line of a log from an offset on.
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

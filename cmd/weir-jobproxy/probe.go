package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// probeTail is how much of a probe's output goes into its error, in bytes.
	probeTail = 200
	// probeReapTime is how long a killed probe may take to disappear.
	probeReapTime = time.Second
)

// prober runs one command at a time beside the job's own command.
type prober struct {
	inside enclosure
	spec   *proxyproto.Spec

	// mu is held while a probe starts, so that its end is not handled before its pid is known.
	mu     sync.Mutex
	closed bool
	// pid is the pid of the probe; 0 if none runs. ended receives its end.
	pid   int
	ended chan ending
}

// errProbing is the error of a probe while another one is running.
var errProbing = errors.New("a probe of the job is already running")

// errNoJob is the error of a probe of a job that has ended, or has not begun.
var errNoJob = errors.New("the job is not running")

// run runs a command within the job, whose root process is `root`. It returns nil if it exits with
// 0 in time.
func (p *prober) run(root child, argv []string, timeout time.Duration) error {
	said, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	tail := make(chan string, 1)
	ended, handle, err := p.start(root, argv, writer)
	_ = writer.Close() // nothing was written through it
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(handle) }() // it was only needed to kill the probe
	go func() { tail <- readTail(said) }()
	select {
	case e := <-ended:
		// Processes that the probe left behind may hold the pipe open.
		_ = said.SetReadDeadline(time.Now().Add(probeReapTime / 10))
		return outcome(e.status, <-tail)
	case <-time.After(timeout):
	}
	err = fmt.Errorf("takes longer than %v", timeout)
	// The command dies with the probe.
	if failed := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); failed != nil && !errors.Is(failed, unix.ESRCH) {
		return errors.Join(err, failed)
	}
	select {
	case <-ended:
	case <-time.After(probeReapTime):
	}
	return err
}

// outcome returns the error that the end of a probe means; nil for success.
func outcome(status unix.WaitStatus, said string) error {
	cause := fmt.Sprintf("exits with %d", status.ExitStatus())
	switch {
	case status.Exited() && status.ExitStatus() == 0:
		return nil
	case status.Signaled():
		cause = "is killed by " + unix.SignalName(status.Signal())
	}
	if said != "" {
		cause += ": " + said
	}
	return errors.New(cause)
}

// start starts a probe.
func (p *prober) start(root child, argv []string, output *os.File) (ended chan ending, handle int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, -1, errNoJob
	case p.pid != 0:
		return nil, -1, errProbing
	}
	var started child
	// The thread joins groups and namespaces, so it must end afterwards.
	onOwnThread(func() { started, err = p.fork(root, argv, output) })
	if err != nil {
		return nil, -1, fmt.Errorf("start probe: %w", err)
	}
	p.pid = started.pid
	p.ended = make(chan ending, 1)
	return p.ended, started.handle, nil
}

// fork starts the command of a probe.
func (p *prober) fork(root child, argv []string, output *os.File) (child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return child{}, err
	}
	defer null.Close()
	return startInside(p.inside.Join, func(attributes *syscall.SysProcAttr) (int, error) {
		if p.spec.Separated() {
			if err := join(p.spec, root.handle); err != nil {
				return 0, err
			}
		}
		// It says on its standard error why it cannot become the command.
		return become(p.spec, argv, []uintptr{null.Fd(), output.Fd(), output.Fd()}, output, attributes)
	})
}

// heard handles the end of a process other than the root process.
func (p *prober) heard(pid int, e ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pid == p.pid && p.pid != 0 {
		p.pid = 0
		p.ended <- e
	}
}

// close rejects all further probes. A running one ends with the job.
func (p *prober) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// readTail reads to the end, and returns the last bytes on one line.
func readTail(from io.Reader) string {
	var tail []byte
	buffer := make([]byte, probeTail)
	for {
		n, err := from.Read(buffer)
		tail = append(tail, buffer[:n]...)
		tail = tail[max(0, len(tail)-probeTail):]
		if err != nil {
			return strings.Join(strings.Fields(strings.ToValidUTF8(string(tail), "?")), " ")
		}
	}
}

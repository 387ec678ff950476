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
	beside *beside

	mu sync.Mutex
	// pid is the pid of the last probe.
	pid int
}

// errProbing is the error of a probe while another one is running.
var errProbing = errors.New("a probe of the job is already running")

// errNoJob is the error of a probe of a job, or of a person's command in it, that has ended, or has not begun.
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
	started, ended, err := p.start(root, argv, writer)
	_ = writer.Close() // nothing was written through it
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(started.handle) }() // it was only needed to kill the probe
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
	if failed := unix.PidfdSendSignal(started.handle, unix.SIGKILL, nil, 0); failed != nil && !errors.Is(failed, unix.ESRCH) {
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

// start starts a probe unless one is running.
func (p *prober) start(root child, argv []string, output *os.File) (started child, ended chan ending, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	busy := false
	p.beside.whileRunning(p.pid, func() { busy = true })
	if busy {
		return child{}, nil, errProbing
	}
	started, ended, err = p.beside.start(func() (child, error) { return p.fork(root, argv, output) })
	p.pid = started.pid
	return started, ended, err
}

// fork starts the command of a probe.
func (p *prober) fork(root child, argv []string, output *os.File) (child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return child{}, fmt.Errorf("start probe: %w", err)
	}
	defer null.Close()
	started, err := startInside(p.inside.Join, func(attributes *syscall.SysProcAttr) (int, error) {
		if p.spec.Separated() {
			if err := join(p.spec, root.handle); err != nil {
				return 0, err
			}
		}
		// It says on its standard error why it cannot become the command.
		return become(p.spec, argv, []uintptr{null.Fd(), output.Fd(), output.Fd()}, output, attributes)
	})
	if err != nil {
		return child{}, fmt.Errorf("start probe: %w", err)
	}
	return started, nil
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

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// probeArgument, given in place of a job's folder, makes weir-jobproxy run a command within the
	// job, beside the job's own command: see runProbe. The job's confinement and the command
	// follow.
	probeArgument = "--probe"
	// probeProgramDescriptor is the descriptor of the program file with which the probe is
	// started: within the job its path may not be visible.
	probeProgramDescriptor = 3
	// probeVariable stands before each variable of the job's environment in the environment of this
	// program: its loader and its runtime must not heed what is meant for the probe's command.
	probeVariable = "WEIR_PROBE_"
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
	// The thread joins groups and namespaces, so it must end afterwards.
	onOwnThread(func() { p.pid, handle, err = p.fork(root, argv, output) })
	if err != nil {
		p.pid = 0
		return nil, -1, fmt.Errorf("start probe: %w", err)
	}
	p.ended = make(chan ending, 1)
	return p.ended, handle, nil
}

// fork starts this program again, within the job.
func (p *prober) fork(root child, argv []string, output *os.File) (pid, handle int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, -1, err
	}
	defer null.Close()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return 0, -1, err
	}
	defer program.Close()
	confinement, err := json.Marshal(&proxyproto.Spec{Workspace: p.spec.Workspace, Isolation: p.spec.Isolation, Separate: p.spec.Separate, User: p.spec.User})
	if err != nil {
		return 0, -1, err
	}
	handle = -1
	attributes := &syscall.SysProcAttr{Setsid: true, PidFD: &handle}
	err = p.inside.Join(attributes, func() error {
		if p.spec.HasInit() {
			if err := joinNamespaces(root.handle, namespaces(p.spec)); err != nil {
				return err
			}
		}
		var err error
		pid, _, err = syscall.StartProcess(fmt.Sprintf("/proc/self/fd/%d", probeProgramDescriptor), append([]string{"weir-jobproxy", probeArgument, string(confinement)}, argv...), &syscall.ProcAttr{
			Dir: "/", Env: covered(p.spec.Environment), Files: []uintptr{null.Fd(), output.Fd(), output.Fd(), program.Fd()}, Sys: attributes,
		})
		return err
	})
	return pid, handle, err
}

// covered returns an environment that means nothing to this program, and holds another for uncovered.
// What marks processes of the job stays.
func covered(environment []string) (all []string) {
	for _, variable := range environment {
		if strings.HasPrefix(variable, proxyproto.TreeVariable+"=") {
			all = append(all, variable)
		}
		all = append(all, probeVariable+variable)
	}
	return all
}

// uncovered returns the environment that covered was given.
func uncovered(environment []string) (all []string) {
	for _, variable := range environment {
		if own, is := strings.CutPrefix(variable, probeVariable); is {
			all = append(all, own)
		}
	}
	return all
}

// joinNamespaces moves this thread, and the processes that it starts, to the namespaces of a
// process.
func joinNamespaces(handle, flags int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the working directory (CLONE_FS): %w", err)
	}
	if err := unix.Setns(handle, flags); err != nil {
		return fmt.Errorf("join the job's namespaces: %w", err)
	}
	return nil
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

// runProbe runs a command as one of a job's processes, with no more rights than those processes,
// and returns the command's exit code. This process is already within the job's groups and
// namespaces.
func runProbe(confinement string, argv []string) (code int, err error) {
	runtime.LockOSThread()
	unix.CloseOnExec(probeProgramDescriptor)
	spec := &proxyproto.Spec{Argv: argv}
	if err := json.Unmarshal([]byte(confinement), spec); err != nil {
		return 0, err
	}
	spec.Environment = uncovered(os.Environ())
	switch {
	case spec.HasInit():
		err = dropRights(spec)
	case spec.Isolation == proxyproto.IsolationDefault:
		err = refuseMoreRights()
	}
	if err != nil {
		return 0, err
	}
	started, err := startCommand(spec, func(attributes *syscall.SysProcAttr, start func() error) error {
		attributes.Pdeathsig = syscall.SIGKILL
		return start()
	}, []uintptr{0, 1, 2})
	if err != nil {
		return 0, err
	}
	var status unix.WaitStatus
	if _, err := again(func() (int, error) { return unix.Wait4(started.pid, &status, 0, nil) }); err != nil {
		return 0, err
	}
	if status.Signaled() {
		return 0, fmt.Errorf("killed by %s", unix.SignalName(status.Signal()))
	}
	return status.ExitStatus(), nil
}

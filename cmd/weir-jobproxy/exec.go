package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// mostSessions is how many commands of people run at once; an agent allows fewer.
const mostSessions = 32

// visits runs commands of people beside the job's own command.
type visits struct {
	inside enclosure
	spec   *proxyproto.Spec
	beside *beside

	mu sync.Mutex
	// hangUps end the commands, by session.
	hangUps map[string]context.CancelFunc
}

// executed is the end of the command of a session, and the connection that asked for it.
type executed struct {
	proxyproto.Executed
	asked *connection
}

// exec runs a command beside the job's own. The files are closed once it has them, or will not have them.
func (s *supervisor) exec(m proxyproto.Exec, files []*os.File) {
	asked, root := s.agent, s.child
	outcome := executed{proxyproto.Executed{Session: m.Session}, asked}
	if s.started == nil || s.over() {
		asked.refuse(m, files, errNoJob)
		return
	}
	open, hangUp, err := s.visits.enter(asked.open, m.Session)
	if err != nil {
		asked.refuse(m, files, err)
		return
	}
	go func() {
		defer hangUp()
		status, err := s.visits.run(open, root, m, files)
		switch {
		case err != nil:
			outcome.Error = clip(err.Error(), mostText)
		case status.Signaled():
			outcome.Signal = unix.SignalName(status.Signal())
			fallthrough
		default:
			outcome.ExitCode = status.ExitStatus()
		}
		s.visits.left(m.Session)
		s.executed <- outcome
	}()
}

// refuse answers a command that is not started.
func (c *connection) refuse(m proxyproto.Exec, files []*os.File, why error) {
	closeAll(files)
	c.send(proxyproto.Message{Executed: &proxyproto.Executed{Session: m.Session, Error: clip(why.Error(), mostText)}})
}

// enter notes a session, which ends with the connection or when it is hung up.
func (v *visits) enter(connection context.Context, session string) (open context.Context, hangUp context.CancelFunc, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.hangUps[session] != nil:
		return nil, nil, fmt.Errorf("session %.60q runs a command already", session)
	case len(v.hangUps) >= mostSessions:
		return nil, nil, fmt.Errorf("%d commands already run beside that of the job, the limit", len(v.hangUps))
	case v.hangUps == nil:
		v.hangUps = map[string]context.CancelFunc{}
	}
	open, hangUp = context.WithCancel(connection)
	v.hangUps[session] = hangUp
	return open, hangUp, nil
}

func (v *visits) left(session string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.hangUps, session)
}

// hangUp ends the command of a session.
func (v *visits) hangUp(session string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if end := v.hangUps[session]; end != nil {
		end()
	}
}

// run runs a command within the job, whose root process is `root`, until it ends or `open` does.
func (v *visits) run(open context.Context, root child, m proxyproto.Exec, files []*os.File) (unix.WaitStatus, error) {
	fault, end, err := os.Pipe()
	if err != nil {
		closeAll(files)
		return 0, err
	}
	defer fault.Close()
	started, ended, err := v.beside.start(func() (child, error) { return v.fork(root, m, files, end) })
	closeAll(append(files, end))
	if errors.Is(err, unix.EAGAIN) {
		err = errNoProcess
	}
	if err != nil {
		return 0, fmt.Errorf("start command: %w", err)
	}
	defer func() { _ = unix.Close(started.handle) }() // it was only needed to have the pid for sure
	// It has no other way to end while the disk with its program hangs.
	defer context.AfterFunc(open, func() {
		v.beside.whileRunning(started.pid, func() {
			// It leads its session, and so its group.
			if err := unix.Kill(-started.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				complain(err)
			}
		})
	})()
	if err := faultIn(fault); err != nil {
		<-ended
		return 0, err
	}
	return (<-ended).status, nil
}

// fork starts the command of a session.
func (v *visits) fork(root child, m proxyproto.Exec, files []*os.File, fault *os.File) (child, error) {
	standard := make([]uintptr, 3)
	for i := range standard {
		standard[i] = files[min(i, len(files)-1)].Fd()
	}
	spec := *v.spec
	if m.Term != "" {
		spec.Environment = append(slices.DeleteFunc(slices.Clone(spec.Environment), func(variable string) bool {
			return strings.HasPrefix(variable, "TERM=")
		}), "TERM="+m.Term)
	}
	return startInside(v.inside.Join, func(attributes *syscall.SysProcAttr) (int, error) {
		if spec.Separated() {
			if err := join(&spec, root.handle); err != nil {
				return 0, err
			}
		}
		attributes.Setctty, attributes.Ctty = m.Terminal, 0
		return become(&spec, m.Argv, standard, fault, attributes)
	})
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // nothing was written through it
	}
}

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// child is the root process of the job.
type child struct {
	pid int
	// handle is a descriptor of the process. Unlike the pid it can never refer to another
	// process.
	handle int
	// init is the pid of the job's init; 0 if the command is the proxy's own child. reports is the
	// connection on which the init reports how the command ended.
	init    int
	reports *net.UnixConn
}

// startChild starts the command inside the enclosure with the given standard files, isolated as
// the spec says.
func startChild(spec *proxyproto.Spec, folder string, inside enclosure, standard []uintptr) (started child, err error) {
	onOwnThread(func() {
		// Start nothing else on this thread: it may be in the job's groups by then, and have
		// fewer rights.
		if err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(proxyproto.UsualTimerSlack), 0, 0, 0); err != nil {
			return
		}
		switch {
		case spec.HasInit():
			started, err = startWithInit(spec, folder, inside, standard)
			return
		case spec.Isolation == proxyproto.IsolationDefault:
			if err = refuseMoreRights(); err != nil {
				return
			}
		}
		started, err = startCommand(spec, inside.Start, standard)
	})
	return started, err
}

// onOwnThread runs work on a thread that ends afterwards.
func onOwnThread(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		work()
	}()
	<-done
}

// startCommand starts the command with the function `start`, a method of the enclosure.
func startCommand(spec *proxyproto.Spec, start func(*syscall.SysProcAttr, func() error) error, standard []uintptr) (child, error) {
	argv := spec.Argv
	if spec.Shell != "" {
		argv = []string{"/bin/sh", "-c", spec.Shell}
	}
	path, err := lookPath(argv[0], spec.Environment)
	if err != nil {
		return child{}, fmt.Errorf("start %q: %w", argv[0], err)
	}
	// The system reports a missing program and a missing folder alike.
	if _, err := os.Stat(spec.Workspace); err != nil {
		return child{}, fmt.Errorf("start %q: workspace: %w", argv[0], err)
	}
	started := child{handle: -1}
	attributes := &syscall.SysProcAttr{Setsid: true, PidFD: &started.handle}
	if spec.User != nil {
		attributes.Credential = &syscall.Credential{Uid: spec.User.UID, Gid: spec.User.GID}
	}
	err = start(attributes, func() error {
		var err error
		started.pid, _, err = syscall.StartProcess(path, argv, &syscall.ProcAttr{
			Dir:   spec.Workspace,
			Env:   slices.Concat(spec.Environment, spec.Secrets),
			Files: standard,
			Sys:   attributes,
		})
		return err
	})
	if err != nil {
		return child{}, fmt.Errorf("start %q: %w", argv[0], err)
	}
	return started, nil
}

// signal sends a signal to the root process.
func (c child) signal(number unix.Signal) error {
	if err := unix.PidfdSendSignal(c.handle, number, nil, 0); err != nil {
		return fmt.Errorf("signal process %d: %w", c.pid, err)
	}
	return nil
}

// lookPath finds a program by the PATH of the job's own environment. It returns a name with a
// slash as it is, relative to the workspace.
func lookPath(name string, environment []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := ""
	for _, variable := range environment {
		if value, found := strings.CutPrefix(variable, "PATH="); found {
			search = value
		}
	}
	for _, folder := range filepath.SplitList(search) {
		if !filepath.IsAbs(folder) {
			continue
		}
		path := filepath.Join(folder, name)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w in PATH %q", unix.ENOENT, search)
}

// ending is how the root process ended.
type ending struct {
	status unix.WaitStatus
	usage  unix.Rusage
	time   time.Time
}

// await waits for every process. It sends the end of the root process to the channel ended, and
// passes the end of every other process to the function others. It closes the channel empty when no
// process is left.
func (c child) await(ended chan<- ending, others func(pid int, e ending), empty chan<- struct{}) {
	reported := make(chan struct{})
	if c.reports == nil {
		close(reported)
	} else {
		go func() {
			defer close(reported)
			// The proxy has inspected the command by now, so init may reap it. If this write fails,
			// init is gone, and awaitReport sees the end of the reports.
			_, _ = c.reports.Write([]byte{0})
			ended <- c.awaitReport()
		}()
	}
	told := false
	reap(func(pid int, e ending) {
		// An orphan may reuse the pid later.
		if pid == c.pid && !told {
			told = true
			ended <- e
			return
		}
		others(pid, e)
	})
	<-reported
	close(empty)
}

// reap waits for every child, the job's orphans included, until none is left.
func reap(tell func(pid int, e ending)) {
	for {
		var e ending
		pid, err := unix.Wait4(-1, &e.status, 0, &e.usage)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return
		}
		e.time = time.Now()
		tell(pid, e)
	}
}

package main

import (
	"fmt"
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
}

// startChild starts the command inside the enclosure with the given standard files, isolated as
// the spec says.
func startChild(spec *proxyproto.Spec, folder string, inside enclosure, standard []uintptr) (started child, err error) {
	if err := makeTemporary(spec, folder); err != nil {
		return child{}, err
	}
	onOwnThread(func() {
		// Start nothing else on this thread: it may be in the job's groups by then, and have
		// fewer rights.
		if err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(proxyproto.UsualTimerSlack), 0, 0, 0); err != nil {
			return
		}
		argv := spec.Argv
		if spec.Shell != "" {
			argv = []string{"/bin/sh", "-c", spec.Shell}
		}
		started, err = startInside(inside.Start, func(attributes *syscall.SysProcAttr) (int, error) {
			return startCommand(spec, folder, argv, standard, attributes)
		})
	})
	return started, err
}

// onOwnThread runs work on a thread that ends afterwards. It is not the first thread of the process,
// which would not end, and whose namespaces /proc shows as those of the process.
func onOwnThread(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(work)
			runtime.UnlockOSThread()
			return
		}
		work()
	}()
	<-done
}

// startInside starts a process with the function `enter`, a method of the enclosure.
func startInside(enter func(*syscall.SysProcAttr, func() error) error, start func(*syscall.SysProcAttr) (pid int, err error)) (child, error) {
	started := child{handle: -1}
	attributes := &syscall.SysProcAttr{Setsid: true, PidFD: &started.handle}
	err := enter(attributes, func() (err error) {
		started.pid, err = start(attributes)
		return err
	})
	if err != nil {
		if started.handle >= 0 {
			_ = unix.Close(started.handle) // nothing was written through it
		}
		return child{}, err
	}
	return started, nil
}

// startCommand starts the command of the job, as the job sees it.
func startCommand(spec *proxyproto.Spec, folder string, argv []string, standard []uintptr, attributes *syscall.SysProcAttr) (pid int, err error) {
	switch {
	case spec.Separated():
		err = separate(spec, folder)
	case spec.Isolation == proxyproto.IsolationDefault:
		err = refuseMoreRights()
	}
	if err != nil {
		return 0, err
	}
	if spec.Isolation == proxyproto.IsolationStrict {
		return becomeCommand(spec, argv, standard, attributes)
	}
	if spec.User != nil {
		attributes.Credential = &syscall.Credential{Uid: spec.User.UID, Gid: spec.User.GID}
	}
	path, err := findProgram(spec, argv)
	if err == nil {
		pid, _, err = syscall.StartProcess(path, argv, &syscall.ProcAttr{
			Dir: spec.Workspace, Env: slices.Concat(spec.Environment, spec.Secrets), Files: standard, Sys: attributes,
		})
	}
	if err != nil {
		return 0, fmt.Errorf("start %q: %w", argv[0], err)
	}
	return pid, nil
}

// findProgram returns the path of a program, once the workspace is there too: the system reports a
// missing program and a missing folder alike.
func findProgram(spec *proxyproto.Spec, argv []string) (string, error) {
	path, err := lookPath(argv[0], spec.Environment)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(spec.Workspace); err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	return path, nil
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

// await waits for every process, and notes in waited what it held. It sends the end of the root process to
// the channel ended, and passes the end of every other process to the function others. It closes the channel
// empty when no process is left.
func (c child) await(waited *waited, ended chan<- ending, others func(pid int, e ending), empty chan<- struct{}) {
	told := false
	reap(func(pid int, e ending) {
		waited.note(e)
		// An orphan may reuse the pid later.
		if pid == c.pid && !told {
			told = true
			ended <- e
			return
		}
		others(pid, e)
	})
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

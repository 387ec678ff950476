package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// child is the root process of the job.
type child struct {
	pid int
	// handle is a descriptor of the process, which no other process can take
	// the place of.
	handle int
}

// startChild starts the command inside the enclosure, its output going to the
// given files.
func startChild(spec *proxyproto.Spec, inside enclosure, stdout, stderr *os.File) (child, error) {
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
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return child{}, fmt.Errorf("start %q: %w", argv[0], err)
	}
	defer stdin.Close()
	started := child{handle: -1}
	attributes := &syscall.SysProcAttr{Setsid: true, PidFD: &started.handle}
	err = inside.start(attributes, func() error {
		var err error
		started.pid, _, err = syscall.StartProcess(path, argv, &syscall.ProcAttr{
			Dir:   spec.Workspace,
			Env:   spec.Environment,
			Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
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

// lookPath finds a program by the PATH of the job's own environment. A name
// with a slash is taken as it is, relative to the workspace.
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

// reap waits for every child, the job's orphans included, until none is left,
// and tells of the root process.
func reap(root int, ended chan<- ending, empty chan<- struct{}) {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, 0, &usage)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			close(empty)
			return
		case pid == root:
			ended <- ending{status: status, usage: usage, time: time.Now()}
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// separateFlags are the namespaces that a separate job has in addition to those of its proxy,
	// whose process ids it shares. strictFlags are those of a strictly isolated one.
	separateFlags = unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	strictFlags   = separateFlags | unix.CLONE_NEWUTS
)

// namespaces are the flags of the namespaces of a job that has its own.
func namespaces(spec *proxyproto.Spec) int {
	if spec.Isolation == proxyproto.IsolationStrict {
		return strictFlags
	}
	return separateFlags
}

// ownProcesses makes /proc show the processes of this job alone, and returns the /proc of the agent.
// The proxy is the first of the job's processes: if it ends, the kernel ends all.
func ownProcesses() (agents *os.File, err error) {
	if os.Getpid() != 1 {
		return nil, errors.New("the proxy is not the first of its processes: the agent is older than its weir-jobproxy: restart the agent")
	}
	if agents, err = os.Open("/proc"); err != nil {
		return nil, err
	}
	return agents, mountProc()
}

func mountProc() error {
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// outside tells the process ids by which the agent knows the proxy and its job.
type outside struct {
	self proxyproto.Identity
	// proc is the agent's /proc if the job has process ids of its own.
	proc *os.File
}

// pid returns the process id that the agent knows a process by; 0 if it has gone.
func (o outside) pid(inside int) int {
	if o.proc == nil {
		return inside
	}
	handle, err := unix.PidfdOpen(inside, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(handle) }() // nothing was written through it
	// What describes a handle in a /proc has the process id of that /proc.
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/self/fdinfo/%d", o.proc.Fd(), handle))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(info)) {
		if text, is := strings.CutPrefix(line, "Pid:"); is {
			// The kernel writes a number: -1 if the process has gone.
			pid, _ := strconv.Atoi(strings.TrimSpace(text))
			return max(0, pid)
		}
	}
	return 0
}

// identity returns what the agent knows a process by.
func (o outside) identity(inside proxyproto.Identity) proxyproto.Identity {
	inside.Pid = o.pid(inside.Pid)
	return inside
}

// separate gives this thread, and what it starts, the namespaces and the view of the machine's files of
// the job, and takes rights from it. A strictly isolated command still needs them, to become what it is.
func separate(spec *proxyproto.Spec, folder string) error {
	if err := unix.Unshare(namespaces(spec)); err != nil {
		return fmt.Errorf("isolate: make namespaces: %w", err)
	}
	root := rootfs{spec: spec, folder: folder}
	if err := root.build(); err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	if spec.Isolation == proxyproto.IsolationStrict {
		return nil
	}
	if err := dropRights(); err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	return nil
}

// join gives this thread, and what it starts, the namespaces of a process of the job.
func join(spec *proxyproto.Spec, handle int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the working directory (CLONE_FS): %w", err)
	}
	if err := unix.Setns(handle, namespaces(spec)); err != nil {
		return fmt.Errorf("join the job's namespaces: %w", err)
	}
	return nil
}

// makeTemporary creates the folder that a strictly isolated job sees as /tmp.
func makeTemporary(spec *proxyproto.Spec, folder string) error {
	if spec.Isolation != proxyproto.IsolationStrict {
		return nil
	}
	path := filepath.Join(folder, temporaryFolder)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Lchown(path, int(spec.User.UID), int(spec.User.GID))
}

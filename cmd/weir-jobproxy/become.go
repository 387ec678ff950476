package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// becomeArgument makes weir-jobproxy become a command of a strictly isolated job. The system calls
	// that such a job is refused include the one with which a process starts within a control group, so
	// they can be refused to the command only from there.
	becomeArgument = "--become"
	// programDescriptor is the file that holds the program to become, and faultDescriptor is the pipe
	// that takes an error.
	programDescriptor = 3
	faultDescriptor   = 4
	// mostFault is the length of an error in bytes.
	mostFault = 4 << 10
)

// program is what weir-jobproxy becomes.
type program struct {
	Path        string          `json:"path"`
	Argv        []string        `json:"argv"`
	Environment []string        `json:"environment"`
	User        proxyproto.User `json:"user"`
}

// becoming starts weir-jobproxy within the job, as root: the job has no hold on it before it is the
// command. It returns once it is.
func becoming(p program, dir string, standard []uintptr, attributes *syscall.SysProcAttr) (pid int, err error) {
	content, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	descriptor, err := unix.MemfdCreate("weir-program", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	file := os.NewFile(uintptr(descriptor), "program")
	defer file.Close()
	if _, err := file.WriteAt(content, 0); err != nil {
		return 0, err
	}
	fault, end, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer fault.Close()
	attributes.Credential = nil
	pid, _, err = syscall.StartProcess("/proc/self/exe", []string{"weir-jobproxy", becomeArgument}, &syscall.ProcAttr{
		// Nothing of the job's environment is meant for this program, but the mark of the job's processes.
		Env: append(marks(p.Environment), "GOMAXPROCS=1"), Dir: dir, Files: slices.Concat(standard[:3], []uintptr{file.Fd(), end.Fd()}), Sys: attributes,
	})
	_ = end.Close() // nothing was written through it
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(io.LimitReader(fault, mostFault))
	if err == nil && len(text) > 0 {
		err = errors.New(string(text))
	}
	return pid, err
}

// marks returns the mark of the job's processes in an environment.
func marks(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		return !strings.HasPrefix(variable, proxyproto.TreeVariable+"=")
	})
}

// become is the other side of becoming.
func become() error {
	// Rights are those of a thread.
	runtime.LockOSThread()
	unix.CloseOnExec(programDescriptor)
	unix.CloseOnExec(faultDescriptor)
	err := becomeProgram()
	_, failed := unix.Write(faultDescriptor, []byte(clip(err.Error(), mostFault)))
	return failed
}

// becomeProgram returns only if it fails.
func becomeProgram() error {
	file := os.NewFile(programDescriptor, "program")
	content, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<62))
	if err != nil {
		return err
	}
	var p program
	if err := json.Unmarshal(content, &p); err != nil {
		return err
	}
	uid, gid := int(p.User.UID), int(p.User.GID)
	for _, step := range []func() error{
		dropRights, refuseCalls,
		func() error { return unix.Setgroups(nil) },
		func() error { return unix.Setresgid(gid, gid, gid) },
		func() error { return unix.Setresuid(uid, uid, uid) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("isolate: %w", err)
		}
	}
	return unix.Exec(p.Path, p.Argv, p.Environment)
}

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
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// becomeArgument makes weir-jobproxy become a command of the job: a probe, or the command of a
	// strictly isolated job.
	//
	// A probe starts beside processes of its user, which could hold up one that has their user before it
	// has its program, and with it the proxy, whose memory it shares until then. As weir-jobproxy it is
	// still root. The system calls that a strictly isolated job is refused include the one with which a
	// process starts within a control group, so they are refused to the command only from there.
	becomeArgument = "--become"
	// programDescriptor is the file that holds the program to become, faultDescriptor is the pipe that
	// takes an error, and errorDescriptor is the standard error of the program: until then the pipe is in
	// its place, for what the Go runtime says if it cannot go on.
	programDescriptor = 3
	faultDescriptor   = 4
	errorDescriptor   = 5
	// mostFault is the length of an error in bytes, and faultTimeout is how long it may take to become
	// the command.
	mostFault    = 4 << 10
	faultTimeout = 2 * time.Minute
)

// program is what weir-jobproxy becomes.
type program struct {
	Argv []string `json:"argv"`
	// Confinement has the environment, the workspace, the user and the isolation.
	Confinement proxyproto.Spec `json:"confinement"`
}

// become starts weir-jobproxy within the job as root, with a pipe on which it tells why it cannot
// become a command.
func become(spec *proxyproto.Spec, argv []string, standard []uintptr, fault *os.File, attributes *syscall.SysProcAttr) (pid int, err error) {
	environment := slices.Concat(spec.Environment, spec.Secrets)
	content, err := json.Marshal(program{argv, proxyproto.Spec{
		Environment: environment, Workspace: spec.Workspace, Isolation: spec.Isolation, Separate: spec.Separate, User: spec.User,
	}})
	if err != nil {
		return 0, err
	}
	defer clear(content)
	descriptor, err := unix.MemfdCreate("weir-program", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	file := os.NewFile(uintptr(descriptor), "program")
	defer file.Close()
	if _, err := file.WriteAt(content, 0); err != nil {
		return 0, err
	}
	pid, _, err = syscall.StartProcess("/proc/self/exe", []string{"weir-jobproxy", becomeArgument}, &syscall.ProcAttr{
		// Nothing of the job's environment is meant for this program, but the mark of the job's processes.
		Env: append(marks(environment), "GOMAXPROCS=1", "GOTRACEBACK=none"), Dir: "/", Sys: attributes,
		Files: []uintptr{standard[0], standard[1], fault.Fd(), file.Fd(), fault.Fd(), standard[2]},
	})
	return pid, err
}

// becomeCommand is become for the command of the job, which has no other process yet. It returns once
// weir-jobproxy is the command.
func becomeCommand(spec *proxyproto.Spec, argv []string, standard []uintptr, attributes *syscall.SysProcAttr) (pid int, err error) {
	fault, end, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer fault.Close()
	pid, err = become(spec, argv, standard, end, attributes)
	_ = end.Close() // nothing was written through it
	if err != nil {
		return 0, err
	}
	return pid, faultIn(fault)
}

// faultIn returns what weir-jobproxy tells through a pipe about becoming a command: nil once it is the command.
func faultIn(fault *os.File) error {
	if err := fault.SetReadDeadline(time.Now().Add(faultTimeout)); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(fault, mostFault))
	switch {
	case err != nil || len(text) == 0:
		return err
	case strings.Contains(string(text), noThread):
		return errNoProcess
	default:
		return errors.New(string(text))
	}
}

// noThread is what the Go runtime says when there is no room for a thread.
const noThread = "failed to create new OS thread"

// errNoProcess is the error of a command for which the job has no room.
var errNoProcess = errors.New("the job has as many processes and threads as it may have (pids_limit)")

// marks returns the mark of the job's processes in an environment.
func marks(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		return !strings.HasPrefix(variable, proxyproto.TreeVariable+"=")
	})
}

// runBecome becomes the command, or tells why it cannot.
func runBecome() {
	// Rights are those of a thread.
	runtime.LockOSThread()
	unix.CloseOnExec(programDescriptor)
	unix.CloseOnExec(faultDescriptor)
	unix.CloseOnExec(errorDescriptor)
	err := becomeProgram()
	_, _ = unix.Write(faultDescriptor, []byte(clip(err.Error(), mostFault))) // Who reads it may have gone.
	os.Exit(1)
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
	spec := &p.Confinement
	if err := confine(spec); err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	path, err := findProgram(spec, p.Argv)
	if err == nil {
		err = unix.Chdir(spec.Workspace)
	}
	if err == nil {
		err = unix.Dup3(errorDescriptor, unix.Stderr, 0)
	}
	if err == nil {
		err = unix.Exec(path, p.Argv, spec.Environment)
	}
	return fmt.Errorf("start %q: %w", p.Argv[0], err)
}

// confine gives this thread the rights and the user of the job.
func confine(spec *proxyproto.Spec) error {
	var steps []func() error
	switch {
	case spec.Isolation == proxyproto.IsolationStrict:
		steps = append(steps, dropRights, refuseCalls)
	case spec.Separate:
		steps = append(steps, dropRights)
	case spec.Isolation == proxyproto.IsolationDefault:
		steps = append(steps, refuseMoreRights)
	}
	if spec.User != nil {
		uid, gid := int(spec.User.UID), int(spec.User.GID)
		steps = append(steps,
			func() error { return unix.Setgroups(nil) },
			func() error { return unix.Setresgid(gid, gid, gid) },
			func() error { return unix.Setresuid(uid, uid, uid) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

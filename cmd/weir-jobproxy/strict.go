package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// initTimeout is how long the init may take to start the command.
	initTimeout = 2 * time.Minute
	// separateFlags are the namespaces that a job with an init has in addition to the proxy's.
	// strictFlags are those of a strictly isolated one.
	separateFlags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	strictFlags   = separateFlags | unix.CLONE_NEWUTS
)

// namespaces are the flags of the namespaces of a job with an init.
func namespaces(spec *proxyproto.Spec) int {
	if spec.Isolation == proxyproto.IsolationStrict {
		return strictFlags
	}
	return separateFlags
}

// startWithInit starts an init in namespaces of its own, which starts the command.
func startWithInit(spec *proxyproto.Spec, folder string, inside enclosure, standard []uintptr) (child, error) {
	if err := makeTemporary(spec, folder); err != nil {
		return child{}, err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return child{}, fmt.Errorf("start init: %w", err)
	}
	far := os.NewFile(uintptr(ends[1]), "reports of init")
	defer far.Close()
	started := child{handle: -1}
	if started.reports, err = reportsFrom(ends[0]); err != nil {
		return child{}, fmt.Errorf("start init: %w", err)
	}
	files := slices.Concat(standard[:3], []uintptr{far.Fd()})
	if spec.HasSecrets {
		files = append(files, proxyproto.SecretsDescriptor)
	}
	attributes := &syscall.SysProcAttr{Setsid: true, Cloneflags: uintptr(namespaces(spec))}
	err = inside.Start(attributes, func() error {
		var err error
		started.init, _, err = syscall.StartProcess("/proc/self/exe", []string{"weir-jobproxy", initArgument, folder}, &syscall.ProcAttr{
			Dir: "/",
			// The variable marks the init as a process of the job.
			Env:   []string{proxyproto.TreeVariable + "=" + folder},
			Files: files,
			Sys:   attributes,
		})
		return err
	})
	if err != nil {
		return child{}, errors.Join(fmt.Errorf("start init: %w", err), started.reports.Close())
	}
	if err := errors.Join(far.Close(), started.meet()); err != nil {
		return child{}, errors.Join(err, started.abandon(inside))
	}
	return started, nil
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

// reportsFrom returns the connection on which reports are read.
func reportsFrom(descriptor int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(descriptor), "reports of init")
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// meet receives the report on the start, with the descriptor and pid of the root process.
func (c *child) meet() error {
	if err := c.reports.SetReadDeadline(time.Now().Add(initTimeout)); err != nil {
		return err
	}
	first, handle, err := c.receive()
	switch {
	case err != nil:
		return fmt.Errorf("start init: %w", err)
	case first.Error != "":
		return errors.New(first.Error)
	case handle < 0:
		return errors.New("start init: it sent no descriptor of the process that it started")
	}
	c.handle = handle
	if c.pid, err = pidOf(handle); err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	return c.reports.SetReadDeadline(time.Time{})
}

// receive reads a report, and the descriptor that comes with it; -1 if there is none.
func (c *child) receive() (r report, handle int, err error) {
	data, rights := make([]byte, maxReport), make([]byte, unix.CmsgSpace(4))
	n, rightsN, _, _, err := c.reports.ReadMsgUnix(data, rights)
	if err != nil {
		return r, -1, err
	}
	handle = -1
	// An error means that there is no descriptor.
	messages, _ := unix.ParseSocketControlMessage(rights[:rightsN])
	for _, message := range messages {
		if descriptors, err := unix.ParseUnixRights(&message); err == nil && len(descriptors) == 1 {
			handle = descriptors[0]
			unix.CloseOnExec(handle)
		}
	}
	if n == 0 {
		return r, handle, errors.New("it ended without a report")
	}
	return r, handle, json.Unmarshal(data[:n], &r)
}

// pidOf returns the pid of a process in the proxy's own namespace.
func pidOf(handle int) (int, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", handle))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		if text, is := strings.CutPrefix(line, "Pid:"); is {
			return strconv.Atoi(strings.TrimSpace(text))
		}
	}
	return 0, errors.New("the fdinfo of a process descriptor has no Pid")
}

// awaitReport waits for the end of the root process. If the init ends without a report, it was
// killed together with all processes in its namespace.
func (c *child) awaitReport() ending {
	last, _, err := c.receive()
	e := ending{status: last.Status, usage: last.Usage, time: time.Now()}
	if err != nil {
		e.status = unix.WaitStatus(unix.SIGKILL)
	}
	_ = c.reports.Close() // no more reports follow
	return e
}

// abandon kills an init that has not started the command.
func (c *child) abandon(inside enclosure) error {
	err := inside.Kill(killPatience)
	_ = c.reports.Close() // no more reports follow
	reap(func(int, ending) {})
	return err
}

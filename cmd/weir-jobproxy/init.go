package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// initArgument is the first argument that makes weir-jobproxy the init of a job
	// with process ids of its own; the job's folder follows.
	initArgument = "--init"
	// reportDescriptor is the socket on which the init reports to the proxy.
	reportDescriptor = 3
	// maxReport limits one report, in bytes.
	maxReport = 8 << 10
)

// report is a message of the init. The first says how the start went, and carries a descriptor
// of the root process. The second says how that process ended.
type report struct {
	Error  string          `json:"error,omitempty"`
	Status unix.WaitStatus `json:"status"`
	Usage  unix.Rusage     `json:"usage"`
}

// runInit is process 1 of such a job: it prepares the job's file system, starts
// the command, waits for orphans, and exits with the command. The kernel then kills the remaining
// processes.
func runInit(folder string) error {
	// Caught, not ignored: the command would inherit ignored signals as ignored.
	signal.Notify(make(chan os.Signal, 1))
	// Rights that this thread drops are dropped for all its children.
	runtime.LockOSThread()
	unix.CloseOnExec(reportDescriptor)
	pid, handle, err := startInside(folder)
	if err != nil {
		return send(report{Error: clip(err.Error(), mostText)}, -1)
	}
	if err := errors.Join(send(report{}, handle), unix.Close(handle), letGo()); err != nil {
		return err
	}
	// Wait until the proxy has inspected the command: even if the command has ended, it exists
	// until it is reaped. If the proxy is gone, the read ends too.
	_, _ = unix.Read(reportDescriptor, make([]byte, 1))
	for {
		var end report
		switch waited, err := unix.Wait4(-1, &end.Status, 0, &end.Usage); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case waited == pid:
			return send(end, -1)
		}
	}
}

// startInside prepares the job's file system and starts its command.
func startInside(folder string) (pid, handle int, err error) {
	spec, err := readSpec(folder)
	if err != nil {
		return 0, -1, err
	}
	if err := readSecrets(spec); err != nil {
		return 0, -1, err
	}
	defer forgetSecrets(spec)
	root := rootfs{spec: spec, folder: folder}
	if err = root.build(); err == nil {
		err = dropRights(spec)
	}
	if err != nil {
		return 0, -1, fmt.Errorf("isolate: %w", err)
	}
	started, err := startCommand(spec, (&tree{}).Start, []uintptr{0, 1, 2})
	return started.pid, started.handle, err
}

// send sends a report, with a descriptor unless that is -1.
func send(r report, descriptor int) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var rights []byte
	if descriptor >= 0 {
		rights = unix.UnixRights(descriptor)
	}
	if err := unix.Sendmsg(reportDescriptor, data, rights, nil, 0); err != nil {
		return fmt.Errorf("report to the proxy: %w", err)
	}
	return nil
}

// letGo closes the standard files, which are for the command alone: a reader or writer at the
// other end then notices when the command closes them.
func letGo() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for descriptor := range 3 {
		if err := unix.Dup3(null, descriptor, 0); err != nil {
			return err
		}
	}
	return unix.Close(null)
}

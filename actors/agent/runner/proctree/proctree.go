// Package proctree reads the processes of this machine from /proc: who is whose
// child, who carries a mark, what they use. It is what is left where there are
// no cgroups.
//
// A process that forks faster than /proc is read, or that drops the mark from
// its environment after losing its parents, can get away.
package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// ticksPerSecond is the unit of times in /proc, the same on every Linux.
const ticksPerSecond = 100

// Process is a process as /proc shows it.
type Process struct {
	proxyproto.Identity
	Parent int
	Name   string
	// Gone says that it has ended and waits for its parent to notice.
	Gone bool
	// CPUUser and CPUSystem include the children that it has waited for.
	CPUUser, CPUSystem time.Duration
}

// Read reads one process. The error is fs.ErrNotExist when there is none.
func Read(pid int) (Process, error) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			err = fs.ErrNotExist
		}
		return Process{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return parseStat(data)
}

// parseStat reads "pid (name) state parent ...". The name may hold anything,
// parentheses and spaces included.
func parseStat(data []byte) (Process, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return Process{}, fmt.Errorf("read process: %.40q has no name in parentheses", data)
	}
	// fields[0] is field 3 of the manual page, the state.
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("read process: %.40q has %d fields after the name, want 20", data, len(fields))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data[:open])))
	if err != nil {
		return Process{}, fmt.Errorf("read process: %w", err)
	}
	var numbers [20]uint64
	for _, i := range []int{1, 11, 12, 13, 14, 19} {
		if numbers[i], err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return Process{}, fmt.Errorf("read process %d: field %d: %w", pid, i+3, err)
		}
	}
	ticks := func(n uint64) time.Duration { return time.Duration(n) * (time.Second / ticksPerSecond) }
	return Process{
		Identity:  proxyproto.Identity{Pid: pid, StartTicks: numbers[19]},
		Parent:    int(numbers[1]),
		Name:      string(data[open+1 : end]),
		Gone:      fields[0] == "Z" || fields[0] == "X",
		CPUUser:   ticks(numbers[11]) + ticks(numbers[13]),
		CPUSystem: ticks(numbers[12]) + ticks(numbers[14]),
	}, nil
}

// Alive says whether the process lives, and is not another with its pid.
func Alive(id proxyproto.Identity) bool {
	process, err := Read(id.Pid)
	return err == nil && process.StartTicks == id.StartTicks && !process.Gone
}

// All reads every process.
func All() ([]Process, error) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// A process may have gone since it was listed.
		if process, err := Read(pid); err == nil {
			all = append(all, process)
		}
	}
	return all, nil
}

// Tree lists the living descendants of the process root, without root itself,
// and with a mark also the processes that carry it, and their descendants.
func Tree(root int, mark string) ([]Process, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for i, process := range all {
		children[process.Parent] = append(children[process.Parent], i)
	}
	inside := make(map[int]bool)
	var enter func(i int)
	enter = func(i int) {
		if inside[i] {
			return
		}
		inside[i] = true
		for _, child := range children[all[i].Pid] {
			enter(child)
		}
	}
	for i, process := range all {
		if process.Pid == root {
			continue
		}
		if process.Parent == root || mark != "" && marked(process.Pid, mark) {
			enter(i)
		}
	}
	var tree []Process
	for i, process := range all {
		if inside[i] && process.Pid != root && !process.Gone {
			tree = append(tree, process)
		}
	}
	return tree, nil
}

// marked says whether the process was started with proxyproto.TreeVariable set
// to mark.
func marked(pid int, mark string) bool {
	data, err := os.ReadFile(procPath(pid, "environ"))
	if err != nil {
		return false
	}
	wanted := []byte(proxyproto.TreeVariable + "=" + mark)
	for variable := range bytes.SplitSeq(data, []byte{0}) {
		if bytes.Equal(variable, wanted) {
			return true
		}
	}
	return false
}

// Signal sends a signal to the process, unless it has gone and its pid belongs
// to another.
func Signal(id proxyproto.Identity, signal unix.Signal) error {
	handle, err := unix.PidfdOpen(id.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	defer unix.Close(handle) //nolint:errcheck // nothing was written to it
	// The handle is of the process that has the pid now: is it the one meant?
	if !Alive(id) {
		return nil
	}
	if err := unix.PidfdSendSignal(handle, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	return nil
}

// Kill kills every process that list returns, again and again until it returns
// none: a process may have forked while it was listed. The first round stops
// them, so that they cannot.
func Kill(list func() ([]Process, error), patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		processes, err := list()
		if err != nil {
			return err
		}
		if len(processes) == 0 {
			return nil
		}
		var errs []error
		for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for _, process := range processes {
				errs = append(errs, Signal(process.Identity, signal))
			}
		}
		if time.Now().After(deadline) {
			return errors.Join(append(errs, fmt.Errorf("kill processes: %d are left after %v", len(processes), patience))...)
		}
		time.Sleep(wait)
	}
}

// Memory is the memory of a process in bytes: its proportional share where the
// kernel tells it, otherwise all that is resident.
func Memory(pid int) (int64, error) {
	data, err := os.ReadFile(procPath(pid, "smaps_rollup"))
	if err == nil {
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "Pss:" {
				kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
				if err != nil {
					return 0, fmt.Errorf("measure process %d: %w", pid, err)
				}
				return kilobytes << 10, nil
			}
		}
	}
	return Resident(pid)
}

// Resident is the resident memory of a process in bytes.
func Resident(pid int) (int64, error) {
	data, err := os.ReadFile(procPath(pid, "statm"))
	if err != nil {
		return 0, fmt.Errorf("measure process %d: %w", pid, err)
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("measure process %d: statm %q has no second field", pid, data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("measure process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// Package proctree reads the processes of this machine from /proc: their parents,
// marks and resource usage. It holds jobs together where there are no cgroups.
//
// A process that keeps forking and exiting faster than /proc is read can escape. So can one
// that has lost its parents and clears the mark from its environment.
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

const (
	// ticksPerSecond is the unit of times in /proc, the same on every Linux.
	ticksPerSecond = 100
	// ending and kernelThread are flags of processes in /proc, the same on every Linux.
	ending       = 0x00000004
	kernelThread = 0x00200000
)

// Process is a process as /proc shows it.
type Process struct {
	proxyproto.Identity
	Parent  int
	Threads int
	Name    string
	// Gone says that all threads of the process have ended, but that its parent has not waited for
	// it yet.
	Gone bool
	// Headless says that its first thread has ended while others run.
	Headless bool
	// Ending says that its first thread is exiting.
	Ending bool
	// Stuck says that it waits in the kernel and no signal wakes it.
	Stuck bool
	// Kernel says that it is a kernel thread, which has no program.
	Kernel bool
	// CPUUser and CPUSystem are its cpu time and that of the children it has waited for.
	CPUUser, CPUSystem time.Duration
}

// Read reads one process. The error is fs.ErrNotExist if there is no such process.
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

// Self reads the calling process. Its pid is that of /proc, which may be another than the process has
// in a namespace of its own.
func Self() (Process, error) { return ReadTask("/proc/self") }

// ReadTask reads a thread by its folder, /proc/PID/task/TID.
func ReadTask(folder string) (Process, error) {
	data, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return Process{}, fmt.Errorf("read thread: %w", err)
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
	for _, i := range []int{1, 6, 11, 12, 13, 14, 17, 19} {
		if numbers[i], err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return Process{}, fmt.Errorf("read process %d: field %d: %w", pid, i+3, err)
		}
	}
	ended := fields[0] == "Z" || fields[0] == "X"
	// A first thread that has ended is still included in the number of threads.
	headless := ended && numbers[17] > 1
	ticks := func(n uint64) time.Duration { return time.Duration(n) * (time.Second / ticksPerSecond) }
	return Process{
		Identity:  proxyproto.Identity{Pid: pid, StartTicks: numbers[19]},
		Parent:    int(numbers[1]),
		Threads:   int(numbers[17]),
		Name:      string(data[open+1 : end]),
		Gone:      ended && !headless,
		Headless:  headless,
		Ending:    numbers[6]&ending != 0,
		Stuck:     fields[0] == "D",
		Kernel:    numbers[6]&kernelThread != 0,
		CPUUser:   ticks(numbers[11]) + ticks(numbers[13]),
		CPUSystem: ticks(numbers[12]) + ticks(numbers[14]),
	}, nil
}

// Alive reports whether the process is alive and its pid not reused. A process that cannot be
// read for lack of resources counts as alive.
func Alive(id proxyproto.Identity) bool {
	alive, err := look(id)
	return alive || err != nil
}

// look reports whether a process is alive. It fails if the system lacks the resources to read it.
func look(id proxyproto.Identity) (alive bool, err error) {
	process, err := Read(id.Pid)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		return false, err
	}
	return err == nil && process.StartTicks == id.StartTicks && !process.Gone, nil
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

// Tree lists the living descendants of the process root, without root itself. If
// mark is not empty, it also lists processes with that mark and their descendants.
func Tree(root int, mark string) ([]Process, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	readParents(all)
	deadline := time.Now().Add(execPatience)
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
		if process.Parent == root || mark != "" && marked(process, mark, deadline) {
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

// readParents reads again the processes whose parent ended before it could be read: they have
// another parent by now.
func readParents(all []Process) {
	read := make(map[int]bool, len(all))
	for _, process := range all {
		read[process.Pid] = true
	}
	for i := range all {
		for lost := all[i].Parent; lost != 0 && !read[lost]; {
			now, err := Read(all[i].Pid)
			if err != nil || now.Identity != all[i].Identity {
				all[i].Gone = true
				break
			}
			all[i] = now
			if now.Parent == lost {
				// The parent is hidden from this process.
				break
			}
			lost = now.Parent
		}
	}
}

// Signal sends a signal to the process, unless it has gone and its pid belongs
// to another.
func Signal(id proxyproto.Identity, signal unix.Signal) error {
	handle, err := unix.PidfdOpen(id.Pid, 0)
	if err != nil && !Alive(id) {
		// The pid may be that of a thread of another process by now, which PidfdOpen refuses.
		return nil
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	defer unix.Close(handle) //nolint:errcheck // nothing was written to it
	// The handle refers to the process that has the pid now. Check that it is the right one.
	alive, err := look(id)
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	if !alive {
		return nil
	}
	if err := unix.PidfdSendSignal(handle, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	return nil
}

// Kill kills the processes that the function `list` returns, repeatedly, until `list` returns none
// twice in a row: a process may fork and exit during one listing, so that neither it nor its child
// is listed. All are stopped before any is killed, so that they cannot fork. Kill waits for each
// killed process even when `list` no longer returns it: a dying process loses its mark first.
func Kill(list func() ([]Process, error), patience time.Duration) error {
	deadline := time.Now().Add(patience)
	killed := make(map[proxyproto.Identity]Process)
	none := false
	for wait := time.Millisecond; ; {
		processes, err := list()
		for _, process := range processes {
			delete(killed, process.Identity)
		}
		for id, process := range killed {
			if Alive(id) {
				processes = append(processes, process)
			}
		}
		switch {
		case err != nil:
			return err
		case len(processes) > 0:
			none = false
		case none:
			return nil
		default:
			none = true
			continue
		}
		var errs []error
		for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for _, process := range processes {
				errs = append(errs, Signal(process.Identity, signal))
			}
		}
		for _, process := range processes {
			killed[process.Identity] = process
		}
		if time.Now().After(deadline) {
			return errors.Join(append(errs, fmt.Errorf("kill processes: %d still running after %v", len(processes), patience))...)
		}
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// Memory is the memory of a process in bytes: its proportional share (PSS) where the
// kernel reports that, otherwise its resident memory. The result `shared` is the part of the total
// in shared memory, tmpfs files included; 0 where the kernel does not report that.
func Memory(pid int) (total, shared int64, err error) {
	data, err := os.ReadFile(procPath(pid, "smaps_rollup"))
	if err != nil {
		total, err = Resident(pid)
		return total, 0, err
	}
	sizes, err := Sizes(data)
	if err != nil {
		return 0, 0, fmt.Errorf("measure process %d: %w", pid, err)
	}
	return sizes["Pss"], sizes["Pss_Shmem"], nil
}

// Sizes parses the lines "name: number kB" of a file of /proc into bytes.
func Sizes(data []byte) (map[string]int64, error) {
	sizes := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(line, ":")
		fields := strings.Fields(text)
		if len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		kilobytes, err := strconv.ParseUint(fields[0], 10, 40)
		if err != nil {
			return nil, fmt.Errorf("%.60q is not an amount of memory", line)
		}
		sizes[name] = int64(kilobytes << 10)
	}
	return sizes, nil
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

// Peak is the peak resident memory of a process in bytes, since it executed its program.
// getrusage would count from the fork on, and so include the memory of the parent.
func Peak(pid int) (int64, error) {
	data, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		return 0, fmt.Errorf("measure process %d: %w", pid, err)
	}
	sizes, err := Sizes(data)
	if err != nil {
		return 0, fmt.Errorf("measure process %d: %w", pid, err)
	}
	peak, has := sizes["VmHWM"]
	if !has {
		return 0, fmt.Errorf("measure process %d: its status has no VmHWM: it has no memory of its own", pid)
	}
	return peak, nil
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// biggest is how many processes a MemoryExcess names.
const biggest = 5

// enclosure holds the processes of the job: control groups, or a process tree.
type enclosure interface {
	// create makes the enclosure. It is called before the command starts.
	create() error
	// Start calls the function `start` with attributes that put the process inside.
	Start(attributes *syscall.SysProcAttr, start func() error) error
	// Join does the same as Start for one more process, while other processes are inside.
	Join(attributes *syscall.SysProcAttr, start func() error) error
	Usage() (cgroup.Usage, error)
	// Glance measures only what shows that the job is not at rest. A tree cannot tell.
	Glance() (charged int64, cpu time.Duration, err error)
	processes() ([]proctree.Process, error)
	// MemoryEvents reports whether the kernel has killed a process for lack of memory.
	MemoryEvents() (cgroup.MemoryEvents, error)
	// RefusedForks counts processes and threads that could not start because of the limit.
	RefusedForks() (int64, error)
	// WatchMemory calls notify when the memory limit is hit, if the kernel reports that.
	WatchMemory(notify func()) (stop func(), err error)
	// Kill ends all processes and returns when none is left.
	Kill(patience time.Duration) error
	// Remove removes what create made. No process may be left.
	Remove(patience time.Duration) error
}

// newEnclosure returns control groups if the spec has any, or else a tree. The content of `volumes`
// counts as memory of the job.
func newEnclosure(spec *proxyproto.Spec, volumes *volumes, waited *waited) enclosure {
	if spec.Cgroups.None() {
		return &tree{volumes: volumes, waited: waited}
	}
	return &group{Group: cgroup.Open(spec.Cgroups), limits: limitsOf(spec)}
}

// usualWeight is the weight per core: a job with two cores gets twice as much of a full
// machine.
const usualWeight = 100

func limitsOf(spec *proxyproto.Spec) cgroup.Limits {
	limits := cgroup.Limits{CPU: spec.CPULimit, CPUWeight: spec.CPUWeight, Memory: spec.MemoryLimit, Pids: pidsLimit(spec)}
	if spec.CPUEnforcement == proxyproto.EnforceWeight && spec.CPULimit > 0 {
		limits.CPU = 0
		if limits.CPUWeight == 0 {
			limits.CPUWeight = int(min(cgroup.MaxWeight, max(1, spec.CPULimit*usualWeight)))
		}
	}
	return limits
}

// becomeThreads is how many processes and threads weir-jobproxy has within a job besides the command that
// it becomes.
const becomeThreads = 8

// pidsLimit is the limit of processes and threads that the enclosure has.
func pidsLimit(spec *proxyproto.Spec) int {
	if spec.PidsLimit > 0 && spec.Separated() {
		return spec.PidsLimit + becomeThreads
	}
	return spec.PidsLimit
}

// group is an enclosure of control groups.
type group struct {
	*cgroup.Group
	limits cgroup.Limits
}

func (g *group) create() error { return g.Create(g.limits) }

// processes lists the pids inside, reads the processes, and lists the pids again: a pid in both
// lists was not reused in between.
func (g *group) processes() ([]proctree.Process, error) {
	before, err := g.Processes()
	if err != nil {
		return nil, err
	}
	var list []proctree.Process
	for _, pid := range before {
		if process, err := proctree.Read(pid); err == nil && !process.Gone {
			list = append(list, process)
		}
	}
	after, err := g.Processes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(p proctree.Process) bool { return !slices.Contains(after, p.Pid) }), nil
}

// tree is the enclosure of all descendants of the proxy, which adopts orphans. Limits of memory and
// processes are enforced by measuring; the CPU limit is not enforced.
type tree struct {
	volumes *volumes
	waited  *waited
}

func (t *tree) create() error { return nil }

func (t *tree) Start(_ *syscall.SysProcAttr, start func() error) error { return start() }

func (t *tree) Join(_ *syscall.SysProcAttr, start func() error) error { return start() }

func (t *tree) processes() ([]proctree.Process, error) { return proctree.Tree(os.Getpid(), "") }

// Usage adds up the usage of live processes and of processes that were waited for. A process that
// ends between the two readings is missing from one sample.
func (t *tree) Usage() (cgroup.Usage, error) {
	waited := t.waited.usage()
	usage := cgroup.Usage{
		CPUUser:   time.Duration(waited.Utime.Nano()),
		CPUSystem: time.Duration(waited.Stime.Nano()),
	}
	processes, err := t.processes()
	if err != nil {
		return cgroup.Usage{}, err
	}
	var allShared int64
	for _, process := range processes {
		usage.CPUUser += process.CPUUser
		usage.CPUSystem += process.CPUSystem
		usage.PeakPids += int64(process.Threads)
		if memory, shared, err := proctree.Memory(process.Pid); err == nil {
			usage.Memory += memory
			allShared += shared
		}
	}
	// Pages of the volumes are already counted if processes have mapped them.
	inVolumes := t.volumes.used()
	usage.Memory += inVolumes - min(inVolumes, allShared)
	return usage, nil
}

func (t *tree) Glance() (int64, time.Duration, error) { return 0, 0, errors.ErrUnsupported }

func (t *tree) MemoryEvents() (cgroup.MemoryEvents, error) { return cgroup.MemoryEvents{}, nil }

func (t *tree) RefusedForks() (int64, error) { return 0, nil }

func (t *tree) WatchMemory(func()) (func(), error) { return func() {}, nil }

func (t *tree) Kill(patience time.Duration) error { return proctree.Kill(t.processes, patience) }

func (t *tree) Remove(time.Duration) error { return nil }

// signalAll sends a signal to every process of the job.
func signalAll(inside enclosure, number unix.Signal) error {
	processes, err := inside.processes()
	if err != nil {
		return err
	}
	var errs []error
	for _, process := range processes {
		errs = append(errs, proctree.Signal(process.Identity, number))
	}
	return errors.Join(errs...)
}

// biggestProcesses lists the processes with the most memory.
func biggestProcesses(inside enclosure, outside outside) []proxyproto.ProcessMemory {
	processes, err := inside.processes()
	if err != nil {
		return nil
	}
	var list []proxyproto.ProcessMemory
	for _, process := range processes {
		if memory, err := proctree.Resident(process.Pid); err == nil && memory > 0 {
			list = append(list, proxyproto.ProcessMemory{Pid: outside.pid(process.Pid), Name: process.Name, Bytes: memory})
		}
	}
	return mostMemory(list)
}

// mostMemory sorts a list by size, biggest first, and truncates it.
func mostMemory(list []proxyproto.ProcessMemory) []proxyproto.ProcessMemory {
	slices.SortFunc(list, func(a, b proxyproto.ProcessMemory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Pid, b.Pid))
	})
	return list[:min(len(list), biggest)]
}

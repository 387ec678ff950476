package main

import (
	"cmp"
	"errors"
	"fmt"
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
	// create makes it, before the command starts.
	create() error
	// start calls start with attributes that put the process inside.
	start(attributes *syscall.SysProcAttr, start func() error) error
	usage() (cgroup.Usage, error)
	processes() ([]proctree.Process, error)
	// memoryEvents says whether the kernel has killed for lack of memory.
	memoryEvents() (cgroup.MemoryEvents, error)
	// watchMemory calls notify when the limit is met, if the kernel can tell.
	watchMemory(notify func()) (stop func(), err error)
	// kill ends all processes and returns when none is left.
	kill(patience time.Duration) error
	remove() error
}

// newEnclosure returns control groups where the spec places some.
func newEnclosure(spec *proxyproto.Spec) enclosure {
	if spec.Cgroups.None() {
		return &tree{}
	}
	return &group{group: cgroup.Open(spec.Cgroups), limits: cgroup.Limits{
		CPU:       spec.CPULimit,
		CPUWeight: spec.CPUWeight,
		Memory:    spec.MemoryLimit,
		Pids:      spec.PidsLimit,
	}}
}

// group is an enclosure of control groups.
type group struct {
	group  *cgroup.Group
	limits cgroup.Limits
}

func (g *group) create() error { return g.group.Create(g.limits) }

func (g *group) start(attributes *syscall.SysProcAttr, start func() error) error {
	return g.group.Start(attributes, start)
}

func (g *group) usage() (cgroup.Usage, error) { return g.group.Usage() }

// processes reads who is inside, and asks again: a pid that is in both lists
// was not another's when it was read.
func (g *group) processes() ([]proctree.Process, error) {
	before, err := g.group.Processes()
	if err != nil {
		return nil, err
	}
	var list []proctree.Process
	for _, pid := range before {
		if process, err := proctree.Read(pid); err == nil && !process.Gone {
			list = append(list, process)
		}
	}
	after, err := g.group.Processes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(p proctree.Process) bool { return !slices.Contains(after, p.Pid) }), nil
}

func (g *group) memoryEvents() (cgroup.MemoryEvents, error) { return g.group.MemoryEvents() }

func (g *group) watchMemory(notify func()) (func(), error) { return g.group.WatchMemory(notify) }

func (g *group) kill(patience time.Duration) error { return g.group.Kill(patience) }

func (g *group) remove() error { return g.group.Remove(time.Second) }

// tree is an enclosure of whatever descends from the proxy, which is the foster
// parent of orphans. Nothing but the memory limit can be enforced, and that by
// measuring.
type tree struct{}

func (t *tree) create() error { return nil }

func (t *tree) start(_ *syscall.SysProcAttr, start func() error) error { return start() }

func (t *tree) processes() ([]proctree.Process, error) { return proctree.Tree(os.Getpid(), "") }

// usage adds up who lives and who was waited for. A process that goes between
// the two readings is missing from one sample.
func (t *tree) usage() (cgroup.Usage, error) {
	var waited unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &waited); err != nil {
		return cgroup.Usage{}, fmt.Errorf("measure children: %w", err)
	}
	usage := cgroup.Usage{
		CPUUser:   time.Duration(waited.Utime.Nano()),
		CPUSystem: time.Duration(waited.Stime.Nano()),
	}
	processes, err := t.processes()
	if err != nil {
		return cgroup.Usage{}, err
	}
	for _, process := range processes {
		usage.CPUUser += process.CPUUser
		usage.CPUSystem += process.CPUSystem
		if memory, err := proctree.Memory(process.Pid); err == nil {
			usage.Memory += memory
		}
	}
	return usage, nil
}

func (t *tree) memoryEvents() (cgroup.MemoryEvents, error) { return cgroup.MemoryEvents{}, nil }

func (t *tree) watchMemory(func()) (func(), error) { return func() {}, nil }

func (t *tree) kill(patience time.Duration) error { return proctree.Kill(t.processes, patience) }

func (t *tree) remove() error { return nil }

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

// biggestProcesses lists those with the most memory.
func biggestProcesses(inside enclosure) []proxyproto.ProcessMemory {
	processes, err := inside.processes()
	if err != nil {
		return nil
	}
	var list []proxyproto.ProcessMemory
	for _, process := range processes {
		if memory, err := proctree.Resident(process.Pid); err == nil && memory > 0 {
			list = append(list, proxyproto.ProcessMemory{Pid: process.Pid, Name: process.Name, Bytes: memory})
		}
	}
	return mostMemory(list)
}

// mostMemory sorts a list, biggest first, and cuts it.
func mostMemory(list []proxyproto.ProcessMemory) []proxyproto.ProcessMemory {
	slices.SortFunc(list, func(a, b proxyproto.ProcessMemory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Pid, b.Pid))
	})
	return list[:min(len(list), biggest)]
}

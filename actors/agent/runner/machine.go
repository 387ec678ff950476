package runner

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
)

// Resources are what a machine has for jobs.
type Resources struct {
	// CPU is in cores.
	CPU float64
	// Memory is in bytes.
	Memory int64
}

// Machine measures the resources of this machine, or what the control groups of
// this process allow of them. root is "/" except in tests.
func Machine(root string) (Resources, error) {
	var info unix.Sysinfo_t
	memory, memoryErr := cgroup.MemoryLimit(root)
	cores, coresErr := cgroup.CPULimit(root)
	if err := errors.Join(unix.Sysinfo(&info), memoryErr, coresErr); err != nil {
		return Resources{}, fmt.Errorf("measure machine: %w", err)
	}
	found := Resources{
		// The processors that this process may run on.
		CPU:    float64(runtime.NumCPU()),
		Memory: int64(info.Totalram * uint64(info.Unit)),
	}
	if memory > 0 {
		found.Memory = min(found.Memory, memory)
	}
	if cores > 0 {
		found.CPU = math.Min(found.CPU, cores)
	}
	return found, nil
}

// PressureFile is the path of the kernel's memory pressure file for the control group of this
// process and its jobs. An error says why there is none. root is "/" except in tests.
func PressureFile(root string) (string, error) { return cgroup.PressureFile(root) }

// MemoryRoom returns the memory limit of a control group and how much of it is left, in bytes:
// of the control groups of this process and those above, the one with the smallest fraction
// left. 0, 0: none has a limit.
func MemoryRoom(root string) (limit, left int64, err error) {
	room, err := cgroup.MemoryRoom(root)
	return room.Limit, room.Left, err
}

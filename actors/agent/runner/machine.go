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

// Machine measures what this machine has, or what the control group of this
// process, or one above it, allows. root is "/" but in tests.
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

// PressureFile is where the kernel tells how long this process and its jobs wait for memory, of
// their control group. An error says why it does not. root is "/" but in tests.
func PressureFile(root string) (string, error) { return cgroup.PressureFile(root) }

// MemoryRoom is how much memory the control group of this process may use, or one above it that
// has less left of it, and how much is left, in bytes. 0, 0: there is no limit.
func MemoryRoom(root string) (limit, left int64, err error) {
	room, err := cgroup.MemoryRoom(root)
	return room.Limit, room.Left, err
}

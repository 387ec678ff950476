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

// Machine measures the resources of this machine, or the part of them that the control groups of
// this process allow. root is "/" except in tests.
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

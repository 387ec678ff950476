package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Usage is the resource usage of a group. Values that the kernel does not report are 0,
// except Peak.
type Usage struct {
	// Memory is in bytes, without Cache.
	Memory int64
	// Cache is the memory that the kernel can reclaim at once (file pages other than shared
	// memory). Peak is the most memory ever charged, Cache included. If the kernel does not report
	// that, Peak is the memory charged now. Both are in bytes.
	Cache, Peak int64
	// CPUUser and CPUSystem count from the group's beginning.
	CPUUser, CPUSystem time.Duration
	// CPUThrottled is the time in which the group had used up its quota. CPUWait is the time in
	// which some thread of the group was ready to run but had no processor.
	CPUThrottled, CPUWait time.Duration
	// PeakPids is the most processes and threads at a time.
	PeakPids int64
}

// Usage measures the group.
func (g *Group) Usage() (Usage, error) {
	var usage Usage
	for _, measure := range []func(*Usage) error{g.measureMemory, g.measureCPU, g.measurePids} {
		if err := measure(&usage); err != nil {
			return Usage{}, fmt.Errorf("measure cgroup: %w", err)
		}
	}
	return usage, nil
}

// memoryFiles are the names of a group's memory values: control files (limit, current, peak) and
// keys of memory.stat (file, shared).
type memoryFiles struct{ limit, current, peak, file, shared string }

var (
	memoryV1 = memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "total_cache", "total_shmem"}
	memoryV2 = memoryFiles{"memory.max", "memory.current", "memory.peak", "file", "shmem"}
)

// read reads the memory charged to a group and how much of it the kernel can reclaim at once,
// in bytes.
func (m *memoryFiles) read(folder string) (charged, cache int64, err error) {
	if charged, err = readInt(folder, m.current); err != nil {
		return 0, 0, err
	}
	detail, err := readKeyed(folder, "memory.stat")
	return charged, max(0, detail[m.file]-detail[m.shared]), err
}

// Charged returns the memory charged to the group, file cache included, in bytes.
func (g *Group) Charged() (int64, error) {
	folder, names := g.memory()
	charged, err := readInt(folder, names.current)
	if err != nil {
		return 0, fmt.Errorf("measure cgroup: %w", err)
	}
	return charged, nil
}

// Glance returns the memory charged to the group, as Charged does, and its processor time. It takes a fifth of the
// time of Usage.
func (g *Group) Glance() (charged int64, cpu time.Duration, err error) {
	if charged, err = g.Charged(); err != nil {
		return 0, 0, err
	}
	used, err := readKeyed(g.place.Unified, "cpu.stat")
	if err != nil {
		return 0, 0, fmt.Errorf("measure cgroup: %w", err)
	}
	return charged, time.Duration(used["usage_usec"]) * time.Microsecond, nil
}

// memory returns the folder with the files of the memory controller, and their names.
func (g *Group) memory() (folder string, names *memoryFiles) {
	if g.place.Hybrid() {
		return g.place.Memory, &memoryV1
	}
	return g.place.Unified, &memoryV2
}

func (g *Group) measureMemory(usage *Usage) error {
	folder, names := g.memory()
	charged, cache, err := names.read(folder)
	if err != nil {
		return err
	}
	usage.Cache, usage.Memory = cache, max(0, charged-cache)
	// Older kernels with v2 have no memory.peak.
	if usage.Peak, err = readInt(folder, names.peak); errors.Is(err, fs.ErrNotExist) {
		usage.Peak, err = charged, nil
	}
	return err
}

func (g *Group) measureCPU(usage *Usage) error {
	cpu, err := readKeyed(g.place.Unified, "cpu.stat")
	if err != nil {
		return err
	}
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	usage.CPUUser, usage.CPUSystem = micros(cpu["user_usec"]), micros(cpu["system_usec"])
	usage.CPUThrottled = micros(cpu["throttled_usec"])
	if g.place.Hybrid() {
		limited, err := readKeyed(g.place.CPU, "cpu.stat")
		if err != nil {
			return err
		}
		usage.CPUThrottled = time.Duration(limited["throttled_time"])
	}
	// Kernels may be built or booted without pressure accounting.
	if wait, err := readPressure(g.place.Unified, "cpu.pressure"); err == nil {
		usage.CPUWait = micros(wait)
	}
	return nil
}

// pidsFolder is the group's directory with the files of the pids controller.
func (g *Group) pidsFolder() string {
	if g.place.Hybrid() {
		return g.place.Pids
	}
	return g.place.Unified
}

func (g *Group) measurePids(usage *Usage) (err error) {
	// Older kernels have no pids.peak.
	usage.PeakPids, err = readInt(g.pidsFolder(), "pids.peak")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RefusedForks counts the processes and threads that could not be started because of the
// pids limit of the group or, on some kernels, of a group above it.
func (g *Group) RefusedForks() (int64, error) {
	counts, err := readKeyed(g.pidsFolder(), "pids.events")
	if err != nil {
		return 0, fmt.Errorf("read pids events: %w", err)
	}
	return counts["max"], nil
}

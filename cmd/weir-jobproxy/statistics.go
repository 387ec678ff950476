package main

import (
	"os"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/statistics"
)

// kernelBlock is the unit of the kernel's block I/O counts, in bytes.
const kernelBlock = 512

// statistics returns all statistics up to now.
func (s *supervisor) statistics() proxyproto.Statistics {
	all := s.meter.statistics
	if s.stdout != nil {
		all.StdoutBytes, all.StdoutDroppedBytes = s.stdout.written.Load(), s.stdout.dropped.Load()
	}
	if s.stderr != nil {
		all.StderrBytes, all.StderrDroppedBytes = s.stderr.written.Load(), s.stderr.dropped.Load()
	}
	values := map[string]int64{
		statistics.UserMaxMemory:          s.meter.netPeak,
		statistics.UserCurrentMemory:      max(0, s.meter.current-s.meter.tmpfs),
		statistics.UserMemoryIntegral:     int64(all.CumulativeMaxMemory),
		statistics.UserCPUUser:            all.CPUUserMicros,
		statistics.UserCPUSystem:          all.CPUSystemMicros,
		statistics.UserPipesStdout:        all.StdoutBytes,
		statistics.UserPipesStdoutDropped: all.StdoutDroppedBytes,
		statistics.UserPipesStderr:        all.StderrBytes,
		statistics.UserPipesStderrDropped: all.StderrDroppedBytes,
	}
	if s.meter.peakPids > 0 {
		values[statistics.UserPeakProcesses] = s.meter.peakPids
	}
	if !s.spec.Cgroups.None() {
		values[statistics.UserCPUWait] = s.meter.wait.Microseconds()
		values[statistics.UserCPUThrottled] = s.meter.throttled.Microseconds()
	}
	if s.volumes.size > 0 {
		values[statistics.UserTmpfsLimit] = s.volumes.size
		values[statistics.UserTmpfsSize] = s.meter.tmpfs
		values[statistics.UserMaxTmpfsSize] = s.meter.tmpfsPeak
	}
	if s.spec.DiskLimit > 0 {
		values[statistics.UserDiskLimit] = s.spec.DiskLimit
		values[statistics.UserDiskMaxUsage] = s.disk.max
	}
	if s.root != nil {
		addEnded(values, s.waited.usage())
	}
	addProxy(values, since(used(unix.RUSAGE_SELF), s.cpu))
	s.streams.measure(values)
	all.Values = values
	return all
}

// addEnded adds the statistics of processes that were waited for. At the end of a job, these are
// all its processes.
func addEnded(values map[string]int64, usage unix.Rusage) {
	values[statistics.UserBlockRead] = usage.Inblock * kernelBlock
	values[statistics.UserBlockWritten] = usage.Oublock * kernelBlock
	values[statistics.UserMajorFaults] = usage.Majflt
	values[statistics.UserContextSwitches] = usage.Nvcsw + usage.Nivcsw
}

// addProxy adds the statistics of the proxy itself.
func addProxy(values map[string]int64, usage unix.Rusage) {
	if peak, err := proctree.Peak(os.Getpid()); err == nil {
		values[statistics.ProxyMaxMemory] = peak
	} else {
		complain(err)
	}
	values[statistics.ProxyCPUUser] = usage.Utime.Nano() / 1000
	values[statistics.ProxyCPUSystem] = usage.Stime.Nano() / 1000
}

// used returns the resource usage of the proxy, or of its children that were waited for.
func used(who int) (usage unix.Rusage) {
	// Getrusage cannot fail with these two values of who.
	_ = unix.Getrusage(who, &usage)
	return usage
}

// ownMemory is the proxy's current memory, in bytes; 0 if unknown.
func (s *supervisor) ownMemory() int64 {
	memory, err := proctree.Resident(os.Getpid())
	complain(err)
	return memory
}

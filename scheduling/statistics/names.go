package statistics

import (
	"math"
	"math/bits"
	"slices"
)

// Unit is the unit of a statistic's values.
type Unit string

// The units.
const (
	Bytes        Unit = "bytes"
	ByteSeconds  Unit = "bytes*seconds"
	Milliseconds Unit = "milliseconds"
	Microseconds Unit = "microseconds"
	Rows         Unit = "rows"
	Processes    Unit = "processes"
	Times        Unit = "times"
	PerTenMille  Unit = "1/10000"
)

// The statistics of jobs. A slash separates the words of a name.
const (
	UserMaxMemory             = "user_job/max_memory"
	UserCurrentMemory         = "user_job/current_memory"
	UserMemoryLimit           = "user_job/memory_limit"
	UserMemoryReserve         = "user_job/memory_reserve"
	UserReserveFactor         = "user_job/memory_reserve_factor_x10000"
	UserCumulativeMaxMemory   = "user_job/cumulative_max_memory"
	UserCumulativeReserve     = "user_job/cumulative_memory_reserve"
	UserCumulativeMemoryLimit = "user_job/cumulative_memory_limit"
	UserMemoryIntegral        = "user_job/cumulative_memory"
	UserTmpfsSize             = "user_job/tmpfs_size"
	UserMaxTmpfsSize          = "user_job/max_tmpfs_size"
	UserTmpfsLimit            = "user_job/tmpfs_limit"
	UserCPUUser               = "user_job/cpu/user"
	UserCPUSystem             = "user_job/cpu/system"
	UserCPUWait               = "user_job/cpu/wait"
	UserCPUThrottled          = "user_job/cpu/throttled"
	UserContextSwitches       = "user_job/cpu/context_switches"
	UserBlockRead             = "user_job/block_io/bytes_read"
	UserBlockWritten          = "user_job/block_io/bytes_written"
	UserMajorFaults           = "user_job/major_page_faults"
	UserPeakProcesses         = "user_job/peak_processes"
	UserDiskMaxUsage          = "user_job/disk/max_usage"
	UserDiskLimit             = "user_job/disk/limit"
	UserPipesInput            = "user_job/pipes/input/bytes"
	UserPipesStdout           = "user_job/pipes/stdout/bytes"
	UserPipesStdoutDropped    = "user_job/pipes/stdout/dropped_bytes"
	UserPipesStderr           = "user_job/pipes/stderr/bytes"
	UserPipesStderrDropped    = "user_job/pipes/stderr/dropped_bytes"
	ProxyMaxMemory            = "job_proxy/max_memory"
	ProxyEstimatedMemory      = "job_proxy/estimated_memory"
	ProxyMemoryReserve        = "job_proxy/memory_reserve"
	ProxyReserveFactor        = "job_proxy/memory_reserve_factor_x10000"
	ProxyCumulativeMaxMemory  = "job_proxy/cumulative_max_memory"
	ProxyCumulativeEstimate   = "job_proxy/cumulative_estimated_memory"
	ProxyCumulativeReserve    = "job_proxy/cumulative_memory_reserve"
	ProxyCPUUser              = "job_proxy/cpu/user"
	ProxyCPUSystem            = "job_proxy/cpu/system"
	TimeTotal                 = "time/total"
	TimePrepare               = "time/prepare"
	TimeArtifactsDownload     = "time/artifacts_download"
	TimeExec                  = "time/exec"
	DataInputRows             = "data/input/rows"
	DataInputBytes            = "data/input/bytes"
	DataOutputRows            = "data/output/rows"
	DataOutputBytes           = "data/output/bytes"
)

// Description says what a statistic is.
type Description struct {
	Name string
	Unit Unit
	Text string
}

// byNumber lists the statistics by number: packed values hold the number instead of the name.
// Numbers are in logs and on disk: add a new statistic at the end, and leave one that is no longer
// measured in its place.
var byNumber = [...]Description{
	{DataInputBytes, Bytes, "input that the job has read to its end"},
	{DataInputRows, Rows, "records of the input that the job has read to its end"},
	{DataOutputBytes, Bytes, "output that the job has written"},
	{DataOutputRows, Rows, "records of the output"},
	{ProxyCPUSystem, Microseconds, "cpu time of the job proxy in the kernel"},
	{ProxyCPUUser, Microseconds, "user-mode CPU time of the job proxy"},
	{ProxyCumulativeEstimate, ByteSeconds, "estimated memory of the job proxy, times the run time of the job"},
	{ProxyCumulativeMaxMemory, ByteSeconds, "peak memory of the job proxy, times the run time of the job"},
	{ProxyCumulativeReserve, ByteSeconds, "memory reserved for the job proxy, times the run time of the job"},
	{ProxyEstimatedMemory, Bytes, "estimate of the memory that the job proxy needs for what it reads and writes"},
	{ProxyMaxMemory, Bytes, "peak memory of the job proxy"},
	{ProxyMemoryReserve, Bytes, "memory reserved for the job proxy"},
	{ProxyReserveFactor, PerTenMille, "part of the estimate that is reserved for the job proxy"},
	{TimeArtifactsDownload, Milliseconds, "time to fetch the files that the job finds in its workspace"},
	{TimeExec, Milliseconds, "time from the start of the job's first process to its end"},
	{TimePrepare, Milliseconds, "time from the order to start the job to its first process"},
	{TimeTotal, Milliseconds, "time from the order to start the job to its result"},
	{UserBlockRead, Bytes, "bytes read from disk on behalf of the job's processes"},
	{UserBlockWritten, Bytes, "what the job's processes caused to be written to disks"},
	{UserContextSwitches, Times, "context switches of the job's threads, voluntary and involuntary"},
	{UserCPUSystem, Microseconds, "cpu time of the job's processes in the kernel"},
	{UserCPUThrottled, Microseconds, "time for which the job was throttled by its own cpu limit"},
	{UserCPUUser, Microseconds, "cpu time of the job's processes outside the kernel"},
	{UserCPUWait, Microseconds, "time for which the job was ready to run but had no cpu"},
	{UserCumulativeMaxMemory, ByteSeconds, "peak memory of the job, times its run time"},
	{UserMemoryIntegral, ByteSeconds, "peak memory so far, integrated over the job's run time"},
	{UserCumulativeMemoryLimit, ByteSeconds, "memory_limit, times the run time of the job"},
	{UserCumulativeReserve, ByteSeconds, "memory reserved for the job, times its run time"},
	{UserCurrentMemory, Bytes, "memory of the job's processes at the last measurement"},
	{UserDiskLimit, Bytes, "disk_limit of the task"},
	{UserDiskMaxUsage, Bytes, "peak disk space of the job's workspace"},
	{UserMajorFaults, Times, "how often a process of the job had to wait for a page to be read from disk"},
	{UserMaxMemory, Bytes, "peak memory of the job's processes, without tmpfs"},
	{UserMaxTmpfsSize, Bytes, "peak size of the contents of the job's tmpfs"},
	{UserMemoryLimit, Bytes, "memory_limit of the task"},
	{UserMemoryReserve, Bytes, "memory reserved for the job's processes"},
	{UserReserveFactor, PerTenMille, "part of memory_limit that is reserved"},
	{UserPeakProcesses, Processes, "peak number of processes and threads"},
	{UserPipesInput, Bytes, "what the job read from its standard input"},
	{UserPipesStderr, Bytes, "what the job wrote to its standard error"},
	{UserPipesStderrDropped, Bytes, "standard error that was not kept"},
	{UserPipesStdout, Bytes, "what the job wrote to its standard output"},
	{UserPipesStdoutDropped, Bytes, "standard output that was not kept"},
	{UserTmpfsLimit, Bytes, "size of the job's tmpfs"},
	{UserTmpfsSize, Bytes, "size of the contents of the job's tmpfs at the last measurement"},
}

// numbers maps names to numbers.
var numbers = func() map[string]int {
	m := make(map[string]int, len(byNumber))
	for number, known := range byNumber {
		m[known.Name] = number
	}
	return m
}()

// All returns the descriptions of all statistics, by number.
func All() []Description { return slices.Clone(byNumber[:]) }

// Describe returns the description of a statistic, and whether it is known.
func Describe(name string) (Description, bool) {
	number, known := numbers[name]
	if !known {
		return Description{}, false
	}
	return byNumber[number], true
}

// Cumulative returns an amount in bytes times a duration in milliseconds, in bytes x seconds,
// truncated (J.1.7). The result saturates; amounts and durations below 0 count as 0.
func Cumulative(amount, durationMillis int64) int64 {
	if amount <= 0 || durationMillis <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(amount), uint64(durationMillis))
	if high >= 1000 {
		return math.MaxInt64
	}
	seconds, _ := bits.Div64(high, low, 1000)
	return int64(min(seconds, math.MaxInt64))
}

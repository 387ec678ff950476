package proxyproto

import (
	"fmt"
	"time"
)

// Outcome says how a job ended. The first cause counts: a job that is stopped
// and then exits with 0 was stopped.
type Outcome string

// The ways in which a job ends.
const (
	// OutcomeExited: the command ended by itself, with Result.ExitCode.
	OutcomeExited Outcome = "exited"
	// OutcomeSignaled: the command was killed by Result.Signal, which Weir did not send to end the
	// job.
	OutcomeSignaled Outcome = "signaled"
	// OutcomeStartFailed: the system refused to start the command.
	OutcomeStartFailed Outcome = "start_failed"
	// OutcomeMemoryLimitExceeded: the job needed more than its memory limit: Result.Memory.
	OutcomeMemoryLimitExceeded Outcome = "memory_limit_exceeded"
	// OutcomeDiskLimitExceeded: the workspace took more than its limit: Result.Disk.
	OutcomeDiskLimitExceeded Outcome = "disk_limit_exceeded"
	// OutcomePidsLimitExceeded: the job had more processes than its limit, found by
	// sampling. Where the kernel enforces the limit, fork fails instead and the job ends by
	// itself.
	OutcomePidsLimitExceeded Outcome = "pids_limit_exceeded"
	// OutcomeInputFailed: the job's input is faulty, or could not be read:
	// Result.InputFault.
	OutcomeInputFailed Outcome = "input_failed"
	// OutcomeOutputFailed: the job's output could not be stored.
	OutcomeOutputFailed Outcome = "output_failed"
	// OutcomeEndHung: the command succeeded, but a later step, such as storing its output,
	// hung: Result.Hang.
	OutcomeEndHung Outcome = "end_hung"
	// OutcomeTimeLimitExceeded: the job ran longer than its time limit.
	OutcomeTimeLimitExceeded Outcome = "time_limit_exceeded"
	// OutcomeStopped: the agent stopped the job, or the job still ran after the grace of an
	// Interrupt: Result.Reason.
	OutcomeStopped Outcome = "stopped"
	// OutcomeLeaseExpired: the agent did not renew the lease in time.
	OutcomeLeaseExpired Outcome = "lease_expired"
	// OutcomeProxyFailed: the proxy died, and the job with it. Only the agent
	// reports this outcome.
	OutcomeProxyFailed Outcome = "proxy_failed"
)

// Result is the end of a job.
type Result struct {
	JobID   string  `json:"job_id"`
	Outcome Outcome `json:"outcome"`
	// Reason is the stop's reason.
	Reason string `json:"reason,omitempty"`
	// Error explains the outcome to people, if it needs an explanation.
	Error string `json:"error,omitempty"`

	// Interrupted: an Interrupt had asked the job to end by itself.
	Interrupted bool `json:"interrupted,omitempty"`

	// ExitCode and Signal say how the root process really ended, whatever the outcome. ExitCode is
	// -1 when it did not exit by itself.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	// Pid is the pid of the root process; 0 when it never started.
	Pid int `json:"pid,omitempty"`

	StartTime time.Time `json:"start_time"`
	EndTime   time.Time `json:"end_time"`
	// DurationMicros is measured on a monotonic clock.
	DurationMicros int64 `json:"duration_micros"`

	// OutputLost is the disk error because of which output within its limit was dropped.
	OutputLost string `json:"output_lost,omitempty"`
	// Memory is set with OutcomeMemoryLimitExceeded. Disk is set with OutcomeDiskLimitExceeded.
	Memory *MemoryExcess `json:"memory,omitempty"`
	Disk   *DiskExcess   `json:"disk,omitempty"`
	// Hang is set if a step at the job's end hung and was abandoned, whatever the outcome.
	Hang *Hang `json:"hang,omitempty"`
	// Input is set for a job with a Feed. Output is set too if that job has completed. InputFault
	// is set with OutcomeInputFailed.
	Input      *InputCount  `json:"input,omitempty"`
	Output     *OutputCount `json:"output,omitempty"`
	InputFault *InputFault  `json:"input_fault,omitempty"`
	Statistics Statistics   `json:"statistics"`
}

// Duration is DurationMicros as a duration.
func (r *Result) Duration() time.Duration {
	return time.Duration(r.DurationMicros) * time.Microsecond
}

// MemoryExcess is the memory of a job when it reached its limit, in bytes.
type MemoryExcess struct {
	Usage int64 `json:"usage"`
	Limit int64 `json:"limit"`
	// Tmpfs is the part of Usage that was in the job's tmpfs.
	Tmpfs int64 `json:"tmpfs,omitempty"`
	// Biggest are the biggest processes last seen by the proxy, or by the kernel when it
	// killed them; biggest first.
	Biggest []ProcessMemory `json:"biggest,omitempty"`
}

// String returns a text with the usage, the limit, the part in tmpfs and the biggest processes.
func (m *MemoryExcess) String() string {
	text := fmt.Sprintf("used %d of %d bytes", m.Usage, m.Limit)
	if m.Tmpfs > 0 {
		text += fmt.Sprintf(", %d of them in tmpfs", m.Tmpfs)
	}
	return text + Listed("; largest: ", m.Biggest)
}

// Listed joins a list after a label. It returns an empty text for an empty list.
func Listed[T fmt.Stringer](label string, list []T) (text string) {
	for i, one := range list {
		if i > 0 {
			label = ", "
		}
		text += label + one.String()
	}
	return text
}

// ProcessMemory is the memory of one process, in bytes.
type ProcessMemory struct {
	Pid   int    `json:"pid"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// String names the process and its memory.
func (p ProcessMemory) String() string {
	return fmt.Sprintf("%s (pid %d, %d bytes)", p.Name, p.Pid, p.Bytes)
}

// DiskExcess is the disk use of a workspace when it exceeded its limit, in bytes.
type DiskExcess struct {
	Usage int64 `json:"usage"`
	Limit int64 `json:"limit"`
	// Biggest are the biggest files, biggest first.
	Biggest []FileSize `json:"biggest,omitempty"`
}

// Hang describes a step at the end of a job that makes no progress.
type Hang struct {
	// Step names the step. IdleMillis is how long it had made no progress.
	Step       string `json:"step"`
	IdleMillis int64  `json:"idle_millis"`
	// Processes are those of the job that no signal ends, and the proxy if it hangs too.
	// The list may be cut short.
	Processes []HungProcess `json:"processes,omitempty"`
}

// HungProcess is a process that hangs. Wait is the kernel function in which it waits; empty: not
// known.
type HungProcess struct {
	Identity
	Name string `json:"name"`
	Wait string `json:"wait,omitempty"`
}

// String names the process and where it hangs.
func (p HungProcess) String() string {
	if p.Wait == "" {
		return fmt.Sprintf("%s (pid %d)", p.Name, p.Pid)
	}
	return fmt.Sprintf("%s (pid %d, in %s)", p.Name, p.Pid, p.Wait)
}

// String names the step, how long it has hung, and the processes.
func (h *Hang) String() string {
	return fmt.Sprintf("job cannot finish: no progress for %v while trying to %s", time.Duration(h.IdleMillis)*time.Millisecond, h.Step) +
		Listed("; stuck: ", h.Processes)
}

// FileSize is how much disk a file uses, in bytes. Path is within the workspace.
type FileSize struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// String names the file and its size.
func (f FileSize) String() string { return fmt.Sprintf("%q (%d bytes)", f.Path, f.Bytes) }

// String names usage, limit and the biggest files.
func (d *DiskExcess) String() string {
	return fmt.Sprintf("took %d of %d bytes", d.Usage, d.Limit) + Listed("; largest: ", d.Biggest)
}

// Statistics are the measures of a job.
type Statistics struct {
	// MaxMemory is the most memory seen in use, in bytes, tmpfs included, without memory
	// that the kernel can reclaim (clean file pages).
	MaxMemory int64 `json:"max_memory"`
	// CumulativeMaxMemory is the integral over time of the MaxMemory reached so far, in bytes x
	// seconds.
	CumulativeMaxMemory float64 `json:"cumulative_max_memory"`
	CPUUserMicros       int64   `json:"cpu_user_micros"`
	CPUSystemMicros     int64   `json:"cpu_system_micros"`
	// StdoutBytes and StderrBytes count all output of the job. The dropped bytes are the part of it
	// that was not kept.
	StdoutBytes        int64 `json:"stdout_bytes"`
	StdoutDroppedBytes int64 `json:"stdout_dropped_bytes"`
	StderrBytes        int64 `json:"stderr_bytes"`
	StderrDroppedBytes int64 `json:"stderr_dropped_bytes"`
	// Values are keyed by the names in package statistics. A value that was not measured is
	// missing.
	Values map[string]int64 `json:"values,omitempty"`
}

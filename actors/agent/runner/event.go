package runner

import (
	"time"

	"weir/actors/agent/runner/proxyproto"
)

// Result is the end of a job. Its outcomes are constants of proxyproto.
type Result = proxyproto.Result

// Statistics are the measures of a job.
type Statistics = proxyproto.Statistics

// Event is Started, Sample or Exited.
type Event interface{ event() }

// Started says that the command is running. It comes at most once, before any Sample.
type Started struct {
	JobID string
	// Pid is the pid of the job's root process.
	Pid  int
	Time time.Time
	// Cgroup is the folder of its control group in the v2 hierarchy, empty where
	// there is none.
	Cgroup string
}

// Sample is a measurement. Samples are dropped when the receiver falls behind.
type Sample struct {
	JobID string
	// Memory is the current memory of the job, and ProxyMemory is that of its proxy, in bytes.
	Memory, ProxyMemory int64
	Statistics          Statistics
}

// Exited says that no process of the job is left. It comes exactly once, last,
// unless the Runner leaves the job.
type Exited struct {
	JobID  string
	Result *Result
}

func (Started) event() {}
func (Sample) event()  {}
func (Exited) event()  {}

// eventBuffer is the capacity of a job's channel. The last eventKept places are for
// Started and Exited, which are never dropped.
const (
	eventBuffer = 16
	eventKept   = 2
)

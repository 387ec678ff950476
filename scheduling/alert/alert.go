// Package alert finds what the owner of an operation can improve, and says what to change.
//
// It checks statistics of jobs that have ended, task by task. The thresholds are those of J.7.3.
// The package is pure.
package alert

import (
	"fmt"
	"time"

	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
	"weir/scheduling/statistics"
)

// The names of alerts.
const (
	UnusedMemory   = "unused_memory"
	UnusedTmpfs    = "unused_tmpfs_space"
	LowCPU         = "low_cpu_usage"
	ShortJobs      = "short_jobs_duration"
	LongAborted    = "long_aborted_jobs"
	ManyOverdrafts = "many_overdrafts"
)

// The thresholds.
const (
	unusedMemory     = 8 << 30
	unusedMemoryPart = 0.2

	unusedTmpfs     = 512 << 20
	unusedTmpfsPart = 0.2
	// If jobs use more than this part of memory_limit, there is no alert about tmpfs.
	tmpfsMutedBy = 0.8

	lowCPUPart = 0.5
	lowCPUTime = 10 * time.Minute

	shortJobsTime  = time.Minute
	shortJobsCount = 1000

	longAbortedTime = 10 * time.Minute
	longAbortedPart = 0.25

	overdrafts     = 10
	overdraftsPart = 0.05
)

// Alert is something that the owner of a task can improve.
type Alert struct {
	Name, Task string
	// Message says what was observed. Advice says what to change.
	Message, Advice string
}

// Task is what the alerts of one task are computed from.
type Task struct {
	Name string
	// Limit is memory_limit, in bytes. Tmpfs is the size of all tmpfs of a job, in bytes.
	Limit, Tmpfs int64
	// CPU is cpu_limit.
	CPU resource.Hundredths
	// Overdrafts is how many jobs were aborted because they used more than their reserve.
	Overdrafts int64
	Statistics statistics.Set
}

// Of returns the alerts of all tasks, in the order of the tasks.
func Of(tasks []Task) []Alert {
	var all []Alert
	for i := range tasks {
		task := &tasks[i]
		for _, rule := range []struct {
			name string
			look func(*Task) (message, advice string)
		}{
			{UnusedMemory, memoryUnused}, {UnusedTmpfs, tmpfsUnused}, {LowCPU, cpuLow},
			{ShortJobs, jobsShort}, {LongAborted, abortedLong}, {ManyOverdrafts, overdraftsMany},
		} {
			if message, advice := rule.look(task); message != "" {
				all = append(all, Alert{Name: rule.name, Task: task.Name, Message: message, Advice: advice})
			}
		}
	}
	return all
}

// completed returns a statistic about the jobs that have completed.
func (t *Task) completed(name string) statistics.Aggregate {
	return t.Statistics.Of(name, lifecycle.JobCompleted.String())
}

// used returns the greatest memory usage of any completed job, and the greatest usage of tmpfs.
func (t *Task) used() (memory, tmpfs int64, known bool) {
	m, f := t.completed(statistics.UserMaxMemory), t.completed(statistics.UserMaxTmpfsSize)
	return m.Max, f.Max, m.Count > 0
}

func memoryUnused(t *Task) (message, advice string) {
	memory, tmpfs, known := t.used()
	unused := t.Limit - memory - tmpfs
	if !known || unused <= unusedMemory || float64(unused) <= unusedMemoryPart*float64(t.Limit) {
		return "", ""
	}
	// All of tmpfs is reserved, and has to fit into the limit.
	enough := max(memory+tmpfs+(memory+tmpfs)/4, memory+memory/4+t.Tmpfs)
	if enough >= t.Limit {
		return "", ""
	}
	return fmt.Sprintf("no job has used more than %s of its memory_limit of %s", resource.FormatRoughly(memory+tmpfs), resource.FormatSize(t.Limit)),
		fmt.Sprintf("set memory_limit to %s", resource.FormatRoughly(enough))
}

func tmpfsUnused(t *Task) (message, advice string) {
	memory, tmpfs, known := t.used()
	unused := t.Tmpfs - tmpfs
	if !known || unused <= unusedTmpfs || float64(unused) <= unusedTmpfsPart*float64(t.Tmpfs) || float64(memory+tmpfs) > tmpfsMutedBy*float64(t.Limit) {
		return "", ""
	}
	return fmt.Sprintf("no job has used more than %s of its tmpfs of %s, all of which is reserved for it", resource.FormatRoughly(tmpfs), resource.FormatSize(t.Tmpfs)),
		fmt.Sprintf("set the size of tmpfs to %s", resource.FormatRoughly(max(tmpfs+tmpfs/4, 1)))
}

func cpuLow(t *Task) (message, advice string) {
	user, system, exec := t.completed(statistics.UserCPUUser), t.completed(statistics.UserCPUSystem), t.completed(statistics.TimeExec)
	ran := time.Duration(exec.Sum) * time.Millisecond
	had := ran.Seconds() * t.CPU.Cores()
	used := float64(user.Sum+system.Sum) / 1e6
	if ran < lowCPUTime || had <= 0 || used >= lowCPUPart*had {
		return "", ""
	}
	return fmt.Sprintf("jobs have used %.0f %% of the cpu time that their cpu_limit of %v allows", 100*used/had, t.CPU),
		fmt.Sprintf("set cpu_limit to %.2f, so that more jobs fit on a node, or find out what they wait for", max(used/ran.Seconds()*1.25, 0.01))
}

func jobsShort(t *Task) (message, advice string) {
	exec := t.completed(statistics.TimeExec)
	mean := time.Duration(exec.Mean()) * time.Millisecond
	if exec.Count < shortJobsCount || mean >= shortJobsTime {
		return "", ""
	}
	return fmt.Sprintf("%d jobs ran for %v on average", exec.Count, mean.Round(time.Millisecond)),
		"give each job more to do (job_count, data_size_per_job): starting a job takes time too"
}

func abortedLong(t *Task) (message, advice string) {
	aborted := t.Statistics.Of(statistics.TimeTotal, lifecycle.JobAborted.String())
	all := t.Statistics.Total(statistics.TimeTotal)
	lost := time.Duration(aborted.Sum) * time.Millisecond
	if lost <= longAbortedTime || float64(aborted.Sum) <= longAbortedPart*float64(all.Sum) {
		return "", ""
	}
	return fmt.Sprintf("%d aborted jobs ran for %v, %.0f %% of the time of all jobs", aborted.Count, lost.Round(time.Second), 100*float64(aborted.Sum)/float64(all.Sum)),
		"make jobs shorter, or let them save their work when they are asked to leave (interruption_signal), or run them in a pool whose guarantee covers them"
}

func overdraftsMany(t *Task) (message, advice string) {
	all := t.Statistics.Total(statistics.TimeTotal)
	if t.Overdrafts < overdrafts || float64(t.Overdrafts) <= overdraftsPart*float64(all.Count) {
		return "", ""
	}
	return fmt.Sprintf("%d of %d jobs were aborted because they used more memory than was reserved for them on a full node", t.Overdrafts, all.Count),
		"raise user_job_memory_digest_lower_bound, or set memory_reserve_factor to 1 to reserve all of memory_limit; or split tasks whose jobs need very different amounts"
}

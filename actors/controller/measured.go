package controller

import (
	"weir/messages/statepb"
	"weir/scheduling/memory"
	"weir/scheduling/statistics"
)

// measured completes the statistics of a finished job and packs them. The statistics are the known
// measurements of the job's node, the job's limits and reserves, and values in bytes x seconds
// (J.1.7). The record's reserve must be set.
func measured(job *statepb.FinishedJob, task memory.Task, spec *statepb.TaskSpec) {
	if job.GetStatistics() == nil {
		job.Statistics = &statepb.JobStatistics{}
	}
	s := job.GetStatistics()
	var values statistics.Values
	putFields(&values, s)
	for name, value := range s.GetValues() {
		if _, known := statistics.Describe(name); known && value >= 0 {
			values.Put(name, value)
		}
	}
	if job.GetRerun() {
		// The job has completed, but its input is read again.
		for _, name := range []string{statistics.DataInputRows, statistics.DataInputBytes, statistics.DataOutputRows, statistics.DataOutputBytes} {
			values.Delete(name)
		}
	}
	putReserve(&values, job.GetReserve(), task)
	if spec.GetDiskLimit() > 0 {
		values.Put(statistics.UserDiskLimit, spec.GetDiskLimit())
	}
	if in := job.GetInput(); in != nil {
		values.Put(statistics.DataInputRows, in.GetRows())
		values.Put(statistics.DataInputBytes, in.GetBytes())
	}
	if out := job.GetOutput(); out != nil {
		values.Put(statistics.DataOutputRows, out.GetRows())
		values.Put(statistics.DataOutputBytes, out.GetBytes())
	}
	// The node reports the total time, including preparation. If the node was lost before it could
	// report, take the time from start to finish.
	millis, told := values.Get(statistics.TimeTotal)
	if !told && job.GetStartTime() != nil && job.GetFinishTime() != nil {
		millis = max(job.GetFinishTime().AsTime().Sub(job.GetStartTime().AsTime()).Milliseconds(), 0)
		values.Put(statistics.TimeTotal, millis)
	}
	for _, over := range overTime {
		if held, known := values.Get(over.amount); known {
			values.Put(over.total, statistics.Cumulative(held, millis))
		}
	}
	s.Packed, s.Values = values.Pack()
}

// overTime lists the statistics that are another statistic multiplied by the job's duration.
var overTime = []struct{ total, amount string }{
	{statistics.UserCumulativeMaxMemory, statistics.UserMaxMemory},
	{statistics.UserCumulativeReserve, statistics.UserMemoryReserve},
	{statistics.UserCumulativeMemoryLimit, statistics.UserMemoryLimit},
	{statistics.ProxyCumulativeMaxMemory, statistics.ProxyMaxMemory},
	{statistics.ProxyCumulativeEstimate, statistics.ProxyEstimatedMemory},
	{statistics.ProxyCumulativeReserve, statistics.ProxyMemoryReserve},
}

// putReserve puts the memory reserve and limits of a job.
func putReserve(values *statistics.Values, r *statepb.JobReserve, task memory.Task) {
	values.Put(statistics.UserMemoryLimit, task.Limit)
	values.Put(statistics.UserMemoryReserve, r.GetUser())
	values.Put(statistics.ProxyEstimatedMemory, r.GetProxyEstimate())
	values.Put(statistics.ProxyMemoryReserve, r.GetProxy())
	values.Put(statistics.ProxyReserveFactor, int64(1e4*r.GetProxyFactor()))
	if task.Limit > 0 {
		values.Put(statistics.UserReserveFactor, int64(1e4*float64(r.GetUser())/float64(task.Limit)))
	}
	if task.Tmpfs > 0 {
		values.Put(statistics.UserTmpfsLimit, task.Tmpfs)
	}
}

// putFields puts the statistics that have fields of their own under their names.
func putFields(values *statistics.Values, s *statepb.JobStatistics) {
	values.Put(statistics.UserCPUUser, s.GetCpuUserMicros())
	values.Put(statistics.UserCPUSystem, s.GetCpuSystemMicros())
	values.Put(statistics.UserPipesStdout, s.GetStdoutBytes())
	values.Put(statistics.UserPipesStdoutDropped, s.GetStdoutDroppedBytes())
	values.Put(statistics.UserPipesStderr, s.GetStderrBytes())
	values.Put(statistics.UserPipesStderrDropped, s.GetStderrDroppedBytes())
	values.Put(statistics.TimeExec, s.GetRunMillis())
	values.Put(statistics.TimePrepare, s.GetPrepareMillis())
	values.Put(statistics.UserMemoryIntegral, int64(min(max(s.GetCumulativeMaxMemory(), 0), 1<<62)))
	if s.GetMaxMemory() > 0 {
		values.Put(statistics.UserMaxMemory, s.GetMaxMemory())
	}
}

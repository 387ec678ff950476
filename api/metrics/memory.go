package metrics

import (
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

var (
	memoryReserved  = gauge("memory_reserved_bytes", "Memory reserved for jobs, by pool tree.", "tree")
	memoryLimits    = gauge("memory_limits_bytes", "Sum of memory_limit over jobs that hold resources. The lower the reserves are below it, the more they save.")
	memorySamples   = counter("memory_samples_total", "Jobs that contributed a memory sample, as this replica saw them in the log.")
	samplesWaiting  = gauge("memory_samples_waiting", "Memory samples that controllers have not added to their digests yet.")
	memoryProfiles  = gauge("memory_profiles", "Memory profiles of finished operations that are kept.")
	gangRestarts    = counter("gang_restarts_total", "Gangs that restarted after losing a job, as this replica saw them in the log.")
	mapReadRows     = counter("map_read_rows_total", "Records read by completed jobs of map operations, as this replica saw them in the log.")
	mapReadBytes    = counter("map_read_bytes_total", "Input bytes read by completed jobs of map operations.")
	mapWrittenRows  = counter("map_written_rows_total", "Records written by completed jobs of map operations.")
	mapWrittenBytes = counter("map_written_bytes_total", "Output bytes written by completed jobs of map operations.")
	mapSkipped      = counter("map_skipped_records_total", "Records of map operations skipped because every job failed on them.")
	mapInput        = gauge("map_input_bytes", "Input of map operations in progress, by progress: read, or waiting.", "state")
)

// memoryPart shows what memory is held for jobs and learned from them, and what jobs read
// and write.
func memoryPart(of Store) part {
	families := []family{
		memoryReserved, memoryLimits, memorySamples, samplesWaiting, memoryProfiles, gangRestarts, mapReadRows, mapReadBytes, mapWrittenRows,
		mapWrittenBytes, mapSkipped, mapInput,
	}
	return part{families, func(s sink) {
		tally := of.Stats().Tally
		s.put(memorySamples, float64(tally.Samples))
		s.put(gangRestarts, float64(tally.GangRestarts))
		s.put(mapReadRows, float64(tally.Data.ReadRows))
		s.put(mapReadBytes, float64(tally.Data.ReadBytes))
		s.put(mapWrittenRows, float64(tally.Data.WrittenRows))
		s.put(mapWrittenBytes, float64(tally.Data.WrittenBytes))
		s.put(mapSkipped, float64(tally.Data.SkippedRows))
		now := learnedOf(of)
		for tree, bytes := range now.reserved {
			s.put(memoryReserved, float64(bytes), tree)
		}
		s.put(memoryLimits, float64(now.limits))
		s.put(samplesWaiting, float64(now.waiting))
		s.put(memoryProfiles, float64(now.profiles))
		s.put(mapInput, float64(now.read), "read")
		s.put(mapInput, float64(now.input-now.read), "waiting")
	}}
}

// learned is what the state knows of memory and input now.
type learned struct {
	reserved                     map[string]int64
	limits, waiting, input, read int64
	profiles                     int
}

func learnedOf(of Store) learned {
	now := learned{reserved: map[string]int64{}}
	of.View(func(st *state.State) {
		for _, n := range st.Nodes() {
			if n.GetTree() != "" {
				now.reserved[n.GetTree()] += st.NodeUsage(scheduling.NodeID(n.GetId())).Memory
			}
		}
		now.profiles = st.Counts().Profiles
		for op := range st.InProgress() {
			limits := limitsOf(op.GetSpec())
			for _, task := range op.GetTasks() {
				now.limits += limits[task.GetName()] * task.GetCounters().GetRunning()
				now.waiting += int64(len(task.GetMemory().GetSamples()))
				now.input += task.GetInput().GetBytesTotal()
				now.read += task.GetInput().GetBytes()
			}
		}
	})
	return now
}

// limitsOf returns what jobs of each task may use.
func limitsOf(spec *statepb.OperationSpec) map[string]int64 {
	limits := make(map[string]int64, len(spec.GetTasks()))
	for _, task := range spec.GetTasks() {
		limits[task.GetName()] = task.GetMemoryLimit()
	}
	return limits
}

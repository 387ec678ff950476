package metrics

import (
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

var (
	memoryReserved  = gauge("memory_reserved_bytes", "Memory that is held for jobs, by pool tree.", "tree")
	memoryLimits    = gauge("memory_limits_bytes", "What jobs that hold resources may use together, by their memory_limit. Reserves are as good as they are below it.")
	memorySamples   = counter("memory_samples_total", "Jobs that taught what memory their tasks need, as this replica saw them in the log.")
	samplesWaiting  = gauge("memory_samples_waiting", "Samples of memory that controllers have not taken into their digests.")
	memoryProfiles  = gauge("memory_profiles", "What finished operations have needed, by profile: how many are kept.")
	gangRestarts    = counter("gang_restarts_total", "Gangs that began anew, for they had lost a job, as this replica saw them in the log.")
	mapReadRows     = counter("map_read_rows_total", "Records that jobs of map operations have read, of jobs that completed, as this replica saw them in the log.")
	mapReadBytes    = counter("map_read_bytes_total", "Input that jobs of map operations have read, likewise.")
	mapWrittenRows  = counter("map_written_rows_total", "Records that jobs of map operations have written, likewise.")
	mapWrittenBytes = counter("map_written_bytes_total", "Output that jobs of map operations have written, likewise.")
	mapSkipped      = counter("map_skipped_records_total", "Records of map operations that no job survived and that were left out.")
	mapInput        = gauge("map_input_bytes", "Input of map operations that have not ended, by what became of it: read, or waiting.", "state")
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

package metrics

import (
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// memory adds the metrics of memory reserves and memory samples, of gangs, and of the data
// that map operations read and write.
func (s sink) memory(tally raftstore.Tally, of Store) {
	counter(s, "memory_samples_total", "Jobs that contributed a memory sample, as this replica saw them in the log.", tally.Samples)
	counter(s, "gang_restarts_total", "Gangs that restarted after losing a job, as this replica saw them in the log.", tally.GangRestarts)
	counter(s, "map_read_rows_total", "Records read by completed jobs of map operations, as this replica saw them in the log.", tally.Data.ReadRows)
	counter(s, "map_read_bytes_total", "Input bytes read by completed jobs of map operations.", tally.Data.ReadBytes)
	counter(s, "map_written_rows_total", "Records written by completed jobs of map operations.", tally.Data.WrittenRows)
	counter(s, "map_written_bytes_total", "Output bytes written by completed jobs of map operations.", tally.Data.WrittenBytes)
	counter(s, "map_skipped_records_total", "Records of map operations skipped because every job failed on them.", tally.Data.SkippedRows)
	now := learnedOf(of)
	gauges(s, "memory_reserved_bytes", "Memory reserved for jobs, by pool tree.", "tree", now.reserved)
	gauge(s, "memory_limits_bytes", "Sum of memory_limit over jobs that hold resources. The difference to memory_reserved_bytes is what reserves save.",
		now.limits)
	gauge(s, "memory_samples_waiting", "Memory samples that controllers have not added to their digests yet.", now.waiting)
	gauge(s, "memory_profiles", "Memory profiles of finished operations that are kept.", now.profiles)
	gauges(s, "map_input_bytes", "Input of map operations in progress, by progress: read, or waiting.", "state",
		map[string]int64{"read": now.read, "waiting": now.input - now.read})
}

// learned are the present totals of memory and input in the state.
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
			limits := map[string]int64{}
			for _, task := range op.GetSpec().GetTasks() {
				limits[task.GetName()] = task.GetMemoryLimit()
			}
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

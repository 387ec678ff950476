package state

import (
	"slices"
	"strconv"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// NoteEventsOmitted is the note of the event that replaces those dropped from the middle of an
// operation's events. Its attribute "count" is the number of dropped events.
const NoteEventsOmitted = "events_omitted"

// trimEvents limits the length of a list of events. It keeps the first half and the latest events.
// Between them it puts an event with the number of events left out.
func trimEvents(events []*statepb.OperationEvent, limit int) []*statepb.OperationEvent {
	if len(events) <= limit {
		return events
	}
	// The gap event takes one place; events after it are dropped until the list is short enough.
	gap, surplus := limit/2, len(events)-limit
	var omitted int64
	for _, e := range events[gap : gap+1+surplus] {
		omitted += eventsOmitted(e)
	}
	last := events[gap+surplus]
	events[gap] = &statepb.OperationEvent{
		Time:       last.GetTime(),
		State:      last.GetState(),
		Note:       NoteEventsOmitted,
		Attributes: map[string]string{"count": strconv.FormatInt(omitted, 10)},
		Index:      last.GetIndex(),
	}
	return slices.Delete(events, gap+1, gap+1+surplus)
}

// eventsOmitted returns how many events this event stands for.
func eventsOmitted(e *statepb.OperationEvent) int64 {
	if e.GetNote() != NoteEventsOmitted {
		return 1
	}
	n, err := strconv.ParseInt(e.GetAttributes()["count"], 10, 64)
	if err != nil {
		return 1
	}
	return n
}

const (
	// keptValues is how many of an operation's latest finished jobs keep their full
	// statistics. Those of earlier jobs are only in the sums of their task.
	keptValues = 50
	// keptHistograms is how many of the latest ended operations keep the histograms of their
	// statistics and the memory digests. Earlier operations keep counts, sums and bounds, and the
	// last reserve.
	keptHistograms = 1000
)

// trimValues drops the statistics of the jobs that are no longer among the latest keptValues. The
// parameter added is the number of jobs appended since the last call.
func trimValues(jobs []*statepb.FinishedJob, added int) {
	last := len(jobs) - keptValues
	for i := max(0, last-added); i < last; i++ {
		s := jobs[i].GetStatistics()
		if len(s.GetValues()) == 0 && len(s.GetPacked()) == 0 {
			continue
		}
		jobs[i] = shallow(jobs[i])
		jobs[i].Statistics = shallow(s)
		jobs[i].Statistics.Values, jobs[i].Statistics.Packed = nil, nil
	}
}

// keep appends the record of a finished job. edit has been called.
func (c *change) keep(o *operation, finished *statepb.FinishedJob) {
	o.record.FinishedJobs = append(o.record.GetFinishedJobs(), finished)
	made(&c.kept)[o]++
}

// trimKept trims the records of finished jobs to the limits. It runs after all ends of a command,
// because a command that ends many jobs may take most of their records beyond the limits.
func (c *change) trimKept() {
	for o, added := range c.kept {
		o.record.FinishedJobs = trimFinished(o.record.GetFinishedJobs(), int(c.limits.GetFinishedJobsPerOperation()))
		trimValues(o.record.GetFinishedJobs(), added)
	}
}

// condense drops an operation's histograms. It also drops the operation's memory digests, which its
// memory profiles have preserved.
func (s *State) condense(o *operation) {
	s.edit(o)
	for i, t := range o.record.GetTasks() {
		measured := o.tasks[i].statistics.Set
		for j := range measured {
			measured[j].Buckets, measured[j].Counts = nil, nil
		}
		if m := t.GetMemory(); m != nil {
			m.UserDigest, m.ProxyDigest, m.Samples = nil, nil, nil
		}
	}
}

// trimFinished limits the length of a list of finished jobs. It drops the oldest jobs first, but
// drops failed jobs only when no other jobs are left.
func trimFinished(jobs []*statepb.FinishedJob, limit int) []*statepb.FinishedJob {
	for len(jobs) > limit {
		drop := max(0, slices.IndexFunc(jobs, func(j *statepb.FinishedJob) bool {
			return j.GetState() != lifecycle.JobFailed.String()
		}))
		copy(jobs[1:drop+1], jobs[:drop])
		jobs[0] = nil
		jobs = jobs[1:]
	}
	return jobs
}

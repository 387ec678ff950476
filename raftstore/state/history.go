package state

import (
	"slices"
	"strconv"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// NoteEventsOmitted is the note of the event that stands for those that were
// dropped from the middle of an operation's events; its attribute "count" says
// how many they were.
const NoteEventsOmitted = "events_omitted"

// trimEvents keeps a list of events at limit: the first half stays, then comes
// how many are left out, then the latest.
func trimEvents(events []*statepb.OperationEvent, limit int) []*statepb.OperationEvent {
	if len(events) <= limit {
		return events
	}
	// The gap takes a place of its own; what follows it is dropped until the list
	// has its length.
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

// eventsOmitted returns how many events one stands for.
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
	// keptValues is how many finished jobs of an operation, the latest, keep all that was
	// measured of them. Of the others there are the sums of their task.
	keptValues = 50
	// keptHistograms is how many operations that have ended, the latest, keep the
	// histograms of what was measured, and what was learned of memory. Of the others there
	// are counts, sums and bounds, and the last reserve.
	keptHistograms = 1000
)

// trimValues drops what was measured of jobs that are not of the latest any more, since so
// many have been added.
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

// keep adds the record of a job that has ended. edit has been called.
func (c *change) keep(o *operation, finished *statepb.FinishedJob) {
	o.record.FinishedJobs = append(o.record.GetFinishedJobs(), finished)
	made(&c.kept)[o]++
}

// trimKept keeps the records of jobs that have ended within the limits. It comes after all
// ends of a command: of many, most are kept without what was measured, or not at all.
func (c *change) trimKept() {
	for o, added := range c.kept {
		o.record.FinishedJobs = trimFinished(o.record.GetFinishedJobs(), int(c.limits.GetFinishedJobsPerOperation()))
		trimValues(o.record.GetFinishedJobs(), added)
	}
}

// condense drops the histograms of an operation, and its digests of memory: they have been
// left in profiles.
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

// trimFinished keeps a list of finished jobs at limit: failed ones stay while
// there are others to drop, and the oldest goes first.
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

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

// trimFinished keeps a list of finished jobs at limit: failed ones stay while
// there are others to drop, and the oldest goes first.
func trimFinished(jobs []*statepb.FinishedJob, limit int) []*statepb.FinishedJob {
	for len(jobs) > limit {
		drop := max(0, slices.IndexFunc(jobs, func(j *statepb.FinishedJob) bool {
			return j.GetState() != lifecycle.JobFailed.String()
		}))
		jobs = slices.Delete(jobs, drop, drop+1)
	}
	return jobs
}

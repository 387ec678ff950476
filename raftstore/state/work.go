package state

import (
	"fmt"
	"slices"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/statistics"
)

// work is the pending and completed work of a task. Readers of an operation's record
// rarely need it, so it is kept beside the record. A cookie that is in none of the sets
// is running.
type work struct {
	pending   queue
	completed cookies.IntervalSet
	// givenUp are the cookies that have used up their attempts.
	givenUp cookies.IntervalSet
	// failed are pending cookies of an ended operation that had a failed attempt.
	failed cookies.IntervalSet
	gang   gang
	// slices holds the input of each cookie. It is nil for completed cookies.
	slices []*statepb.Slices
	// parts are the input and output of completed cookies. The list only grows at the
	// end, so clones share it.
	parts      []*statepb.CompletedPart
	statistics statistics.Sums
}

func (w *work) clone() work {
	return work{
		pending: w.pending.clone(), completed: w.completed.Clone(), givenUp: w.givenUp.Clone(), failed: w.failed.Clone(), gang: w.gang.clone(),
		slices: slices.Clone(w.slices), parts: w.parts, statistics: w.statistics.Clone(),
	}
}

// full returns a copy of a task's record with its work filled in, as in a snapshot.
func (w *work) full(t *statepb.Task) *statepb.Task {
	t = shallow(t)
	pending := w.pending.all()
	t.Pending, t.Completed = intervalRecords(&pending), intervalRecords(&w.completed)
	t.GivenUp, t.Failed = intervalRecords(&w.givenUp), intervalRecords(&w.failed)
	t.Parts, t.Statistics = w.parts, aggregateRecords(w.statistics.Set)
	for cookie, s := range w.slices {
		if s != nil {
			made(&t.Slices)[int32(cookie)] = s
		}
	}
	return t
}

// forget drops the inputs, outputs, reserves and attempt counts of a task's cookies after its
// operation has ended. It keeps the sets of cookies, and adds the set of those that have failed.
func (w *work) forget(t *statepb.Task) {
	w.pending = queue{learned: w.pending.all()}
	w.slices, w.parts = nil, nil
	for cookie := range sorted(t.GetFailures()) {
		w.failed.Add(scheduling.Cookie(cookie))
	}
	t.Attempts, t.Reserves, t.Failures = nil, nil, nil
}

// offered returns how many jobs of a group of a task may be granted. A gang restarts only
// after its previous jobs have ended.
func (v *version) offered(task int, group int64) int64 {
	w := &v.tasks[task]
	if w.gang.stale > 0 || w.gang.done() {
		return 0
	}
	return w.pending.len(group)
}

// reserveOf returns the memory reserve for the next attempt of a cookie; nil if it has none.
func reserveOf(t *statepb.Task, c scheduling.Cookie) *statepb.JobReserve {
	if own := t.GetReserves()[int32(c)]; own != nil {
		return own.GetReserve()
	}
	return t.GetMemory().GetReserve()
}

// groupOf returns the group that a cookie belongs to while it is pending.
func groupOf(t *statepb.Task, c scheduling.Cookie) int64 {
	return t.GetReserves()[int32(c)].GetReserve().Total()
}

// addMeasured adds the statistics of a job whose end has been checked.
func (w *work) addMeasured(j *statepb.FinishedJob) {
	measured := j.GetStatistics()
	if err := w.statistics.Add(j.GetState(), measured.GetPacked(), measured.GetValues()); err != nil {
		panic(fmt.Sprintf("add statistics of job %q: %v", j.GetJobId(), err))
	}
}

func aggregateRecords(set statistics.Set) []*statepb.Aggregate {
	records := make([]*statepb.Aggregate, len(set))
	for i, e := range set {
		records[i] = &statepb.Aggregate{
			Name: e.Name, State: e.State, Count: e.Count, Sum: e.Sum, Min: e.Min, Max: e.Max, Buckets: e.Buckets, Counts: e.Counts,
		}
	}
	return records
}

func restoredStatistics(records []*statepb.Aggregate) statistics.Sums {
	var set statistics.Set
	for _, r := range records {
		set = append(set, statistics.Entry{Name: r.GetName(), State: r.GetState(), Aggregate: statistics.Aggregate{
			Count: r.GetCount(), Sum: r.GetSum(), Min: r.GetMin(), Max: r.GetMax(), Buckets: r.GetBuckets(), Counts: r.GetCounts(),
		}})
	}
	return statistics.Sums{Set: set}
}

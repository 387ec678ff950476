package state

import (
	"errors"
	"fmt"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
)

// verifyTasks checks that the cookies of each task are in one place and counted.
func verifyTasks(o *operation) error {
	running := make([]cookies.IntervalSet, len(o.tasks))
	for _, a := range byGrant(o.allocations) {
		i, ok := o.taskIndex[scheduling.TaskName(a.GetTask())]
		if !ok {
			return fmt.Errorf("allocation %q: task %q is missing", a.GetJobId(), a.GetTask())
		}
		if !a.GetReplaced() && !running[i].Add(scheduling.Cookie(a.GetCookie())) {
			return fmt.Errorf("allocation %q: cookie %d of task %q runs twice", a.GetJobId(), a.GetCookie(), a.GetTask())
		}
	}
	var failed int64
	for i, t := range o.record.GetTasks() {
		if o.record.GetSpec().GetTasks()[i].GetName() != t.GetName() || o.taskIndex[scheduling.TaskName(t.GetName())] != i {
			return fmt.Errorf("task %q: not at its place in the specification", t.GetName())
		}
		for _, err := range []error{verifyTask(t, &o.tasks[i], running[i]), verifyMemory(t, &o.tasks[i]), o.verifyGang(i)} {
			if err != nil {
				return fmt.Errorf("task %q: %w", t.GetName(), err)
			}
		}
		failed += t.GetCounters().GetFailed()
	}
	if failed != o.record.GetFailedJobCount() {
		return fmt.Errorf("%d failed jobs, tasks count %d", o.record.GetFailedJobCount(), failed)
	}
	return verifyInput(o)
}

func verifyTask(t *statepb.Task, sets *work, running cookies.IntervalSet) error {
	counters := counted(t.GetCounters())
	if err := counters.Check(); err != nil {
		return err
	}
	all, pending := sets.pending.all(), sets.pending.all()
	for _, part := range []cookies.IntervalSet{running, sets.completed} {
		for _, interval := range part.Intervals() {
			if added := all.AddInterval(interval); added != interval.Len() {
				return fmt.Errorf("a cookie of [%d, %d) is pending, running or completed at once", interval.Begin, interval.End)
			}
		}
	}
	want := cookies.Range(0, scheduling.Cookie(counters.Total))
	switch {
	case !all.Equal(&want):
		return fmt.Errorf("cookies %v, want all of %d", all.Intervals(), counters.Total)
	case pending.Len() != counters.Pending || running.Len() != counters.Running || sets.completed.Len() != counters.Completed:
		return fmt.Errorf("%d pending, %d running, %d completed cookies, counted as %+v",
			pending.Len(), running.Len(), sets.completed.Len(), counters)
	case len(t.GetPending()) > 0 || len(t.GetCompleted()) > 0 || len(t.GetSlices()) > 0 || len(t.GetParts()) > 0 || len(t.GetStatistics()) > 0:
		return errors.New("its work is in the record itself")
	}
	var aborted int64
	for _, n := range t.GetCounters().GetAbortedByReason() {
		aborted += n
	}
	if aborted != counters.Aborted {
		return fmt.Errorf("%d aborted attempts, %d by reason", counters.Aborted, aborted)
	}
	for cookie := range t.GetAttempts() {
		if sets.completed.Contains(scheduling.Cookie(cookie)) && !sets.gang.exists() || int64(cookie) >= counters.Total || cookie < 0 {
			return fmt.Errorf("attempts of cookie %d are counted, which does not run again", cookie)
		}
	}
	return nil
}

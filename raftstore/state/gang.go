package state

import (
	"fmt"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// inReserve is the rank of a gang's spare job, whose resources are for the next incarnation.
const inReserve = -1

// gang holds the ranks of a gang. With size 0 the task is not a gang.
type gang struct {
	size int32
	// The set free holds the ranks that no job of the current incarnation holds or has completed.
	// The set completed holds the ranks that a job has completed.
	free, completed cookies.IntervalSet
	// stale counts jobs of earlier incarnations that have not ended.
	stale int64
}

func (g *gang) exists() bool { return g.size > 0 }

// done reports whether all ranks have completed.
func (g *gang) done() bool { return g.exists() && g.completed.Len() == int64(g.size) }

// begin frees all ranks.
func (g *gang) begin() {
	g.free, g.completed = cookies.Range(0, scheduling.Cookie(g.size)), cookies.IntervalSet{}
}

func (g *gang) clone() gang {
	return gang{size: g.size, free: g.free.Clone(), completed: g.completed.Clone(), stale: g.stale}
}

// hold counts a job of the gang. A job of the current incarnation takes its rank.
func (g *gang) hold(a *statepb.Allocation, incarnation int64) {
	switch {
	case a.GetGangIncarnation() != incarnation:
		g.stale++
	case a.GetGangRank() >= 0:
		g.free.Remove(scheduling.Cookie(a.GetGangRank()))
	}
}

// gangSize returns how many jobs of a task have a rank; 0 if the task is not a gang.
func gangSize(spec *statepb.TaskSpec, jobs int32) int32 {
	switch {
	case spec.GetGang() == nil:
		return 0
	case spec.GetGang().GetSize() == 0:
		return jobs
	}
	return spec.GetGang().GetSize()
}

// giveRank gives an allocation of a gang a rank. If the rank with the number of its cookie is free,
// the allocation gets that rank, because the cookie may have its own reserve for the work of that
// rank. Otherwise the allocation gets the lowest free rank, or no rank if none is free.
func (w *work) giveRank(t *statepb.Task, a *statepb.Allocation) {
	if !w.gang.exists() {
		return
	}
	rank := int32(inReserve)
	if w.gang.free.Remove(scheduling.Cookie(a.GetCookie())) {
		rank = a.GetCookie()
	} else if free, ok := w.gang.free.PopFirst(); ok {
		rank = int32(free)
	}
	a.GangIncarnation, a.GangRank = t.GetGang().GetIncarnation(), &rank
}

// isStale reports whether an allocation belongs to an earlier incarnation of its gang.
func (w *work) isStale(t *statepb.Task, a *statepb.Allocation) bool {
	return w.gang.exists() && a.GetGangIncarnation() != t.GetGang().GetIncarnation()
}

// gangEvent is a change of a gang after which its remaining jobs have to stop.
type gangEvent struct {
	operation *operation
	task      int
	// order says why the remaining jobs have to stop.
	order *statepb.StopOrder
}

// leaveGang counts a job of a gang that has ended. If the job has a rank but did not complete it,
// the incarnation ends. When the last rank completes, the task ends. edit has been called.
func (c jobChange) leaveGang(o *operation, task int, a *statepb.Allocation, j *statepb.FinishedJob) {
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	completed := j.GetState() == lifecycle.JobCompleted.String() && !j.GetRerun()
	switch {
	case !w.gang.exists():
	case w.isStale(t, a):
		if w.gang.stale--; w.gang.stale == 0 {
			c.touchAll(o, task)
		}
	case a.GetGangRank() < 0:
	case completed:
		w.gang.completed.Add(scheduling.Cookie(a.GetGangRank()))
		t.Gang = shallow(t.GetGang())
		t.Gang.Completed = intervalRecords(&w.gang.completed)
		if w.gang.done() {
			c.touchAll(o, task)
			c.gangs = append(c.gangs, gangEvent{o, task, &statepb.StopOrder{
				Reason: lifecycle.AbortOperationCompleted.String(), Message: fmt.Sprintf("all %d ranks of the gang have completed", w.gang.size), Time: c.timestamp(),
			}})
		}
	case o.state != lifecycle.Running:
		w.gang.free.Add(scheduling.Cookie(a.GetGangRank()))
	default:
		c.beginIncarnation(o, task, a, j)
	}
}

// beginIncarnation ends the current incarnation of a gang because of a job. Completed ranks run
// again once the other jobs have ended.
func (c jobChange) beginIncarnation(o *operation, task int, a *statepb.Allocation, j *statepb.FinishedJob) {
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	reason := fmt.Sprintf("job %q of rank %d %s", a.GetJobId(), a.GetGangRank(), endOf(j))
	for cookie := range w.completed.All() {
		move(t, "reopen job", (*lifecycle.Counters).Reopen)
		c.requeue(o, task, cookie)
	}
	w.completed = cookies.IntervalSet{}
	w.gang.begin()
	w.gang.stale = t.GetCounters().GetRunning()
	t.Gang = &statepb.Gang{Incarnation: t.GetGang().GetIncarnation() + 1, Size: t.GetGang().GetSize(), Reason: reason}
	c.touchAll(o, task)
	c.note(o, NoteGangIncarnation, map[string]string{
		"task": t.GetName(), "incarnation": fmt.Sprint(t.GetGang().GetIncarnation()), "job_id": a.GetJobId(), "reason": reason,
	})
	c.consequences = append(c.consequences, GangRestarted{
		ID: o.id(), Task: scheduling.TaskName(t.GetName()), Incarnation: t.GetGang().GetIncarnation(), Job: scheduling.JobID(a.GetJobId()), Reason: reason,
	})
	c.gangs = append(c.gangs, gangEvent{o, task, &statepb.StopOrder{
		Reason: lifecycle.AbortOperationIncarnationChanged.String(), Message: reason, Time: c.timestamp(),
	}})
}

// endOf says how a job that did not complete its rank ended.
func endOf(j *statepb.FinishedJob) string {
	switch {
	case j.GetRerun():
		return "was interrupted and is to run again"
	case j.GetAbortReason() != "":
		return fmt.Sprintf("was %s (%s)", j.GetState(), j.GetAbortReason())
	}
	return j.GetState()
}

// settleGangs gives stop orders to the jobs that a command has made superfluous. Operations that no
// longer run stop all their jobs anyway.
func (c *change) settleGangs() {
	for _, e := range c.gangs {
		if e.operation.state != lifecycle.Running {
			continue
		}
		var s stops
		name := e.operation.record.GetTasks()[e.task].GetName()
		for _, a := range byGrant(e.operation.allocations) {
			if a.GetTask() == name {
				c.orderStop(&s, a, e.order)
			}
		}
		c.tellStops(s)
	}
	c.gangs = nil
}

// verifyGang checks that each rank is free, held by a running job, or completed.
func (o *operation) verifyGang(task int) error {
	var b breach
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	want := gangSize(o.record.GetSpec().GetTasks()[task], int32(t.GetCounters().GetTotal()))
	b.when(w.gang.size != want || t.GetGang().GetSize() != want || w.gang.exists() != (t.GetGang().GetIncarnation() > 0),
		"gang of size %d, recorded as %v, want size %d", w.gang.size, t.GetGang(), want)
	if !w.gang.exists() {
		return b.err
	}
	ranks := gang{size: w.gang.size}
	ranks.begin()
	seen := w.gang.completed.Clone()
	for rank := range seen.All() {
		ranks.free.Remove(rank)
	}
	for _, a := range byGrant(o.allocations) {
		if a.GetTask() != t.GetName() {
			continue
		}
		ranks.hold(a, t.GetGang().GetIncarnation())
		if rank := scheduling.Cookie(a.GetGangRank()); !w.isStale(t, a) && rank >= 0 {
			b.when(int32(rank) >= w.gang.size || !seen.Add(rank), "job %q has rank %d of %d, which is out of range or held by another job", a.GetJobId(), rank, w.gang.size)
		}
	}
	b.when(!ranks.free.Equal(&w.gang.free) || ranks.stale != w.gang.stale, "ranks %v are free and %d jobs are of earlier incarnations, but counted are %v and %d",
		ranks.free.Intervals(), ranks.stale, w.gang.free.Intervals(), w.gang.stale)
	b.when(w.gang.completed.Len() > w.completed.Len(), "%d ranks have completed, but only %d jobs", w.gang.completed.Len(), w.completed.Len())
	return b.err
}

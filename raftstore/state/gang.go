package state

import (
	"fmt"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// inReserve is the rank of a job of a gang that has none: it waits to be needed.
const inReserve = -1

// gang is where the ranks of a gang are. One that is of no size is none.
type gang struct {
	size int32
	// free are the ranks that no job of the present incarnation has or has completed.
	free, completed cookies.IntervalSet
	// stale are the jobs of earlier incarnations that have not ended.
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

// hold counts a job of the gang: one of the present incarnation has its rank.
func (g *gang) hold(a *statepb.Allocation, incarnation int64) {
	switch {
	case a.GetGangIncarnation() != incarnation:
		g.stale++
	case a.GetGangRank() >= 0:
		g.free.Remove(scheduling.Cookie(a.GetGangRank()))
	}
}

// gangSize returns how many jobs of a task have a rank; 0: it is no gang.
func gangSize(spec *statepb.TaskSpec, jobs int32) int32 {
	switch {
	case spec.GetGang() == nil:
		return 0
	case spec.GetGang().GetSize() == 0:
		return jobs
	}
	return spec.GetGang().GetSize()
}

// giveRank gives the allocation of a gang's job the rank with the number of its cookie,
// which may have a reserve of its own for what that rank does; or the least that is free,
// or none.
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

// isStale reports whether an allocation is of an incarnation of its gang that is over.
func (w *work) isStale(t *statepb.Task, a *statepb.Allocation) bool {
	return w.gang.exists() && a.GetGangIncarnation() != t.GetGang().GetIncarnation()
}

// gangEvent is a gang that a command has changed so that jobs have to go.
type gangEvent struct {
	operation *operation
	task      int
	// why the jobs go that are left.
	order *statepb.StopOrder
}

// leaveGang counts a job of a gang that has ended. One with a rank that has not
// completed it ends the incarnation; the last rank ends the task. edit has been called.
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

// beginIncarnation ends the present incarnation of a gang because of a job: what its
// ranks have completed is to be done again, once the others have gone.
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

// endOf says how a job ended that has not completed its rank.
func endOf(j *statepb.FinishedJob) string {
	switch {
	case j.GetRerun():
		return "was interrupted and is to run again"
	case j.GetAbortReason() != "":
		return fmt.Sprintf("was %s (%s)", j.GetState(), j.GetAbortReason())
	}
	return j.GetState()
}

// settleGangs tells the jobs to go that a command has made superfluous. Those of
// operations that do not run any more have to go anyway.
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

// verifyGang checks the ranks of a gang: each is free, a running job's, or completed.
func (o *operation) verifyGang(task int) error {
	var b breach
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	want := gangSize(o.record.GetSpec().GetTasks()[task], int32(t.GetCounters().GetTotal()))
	b.when(w.gang.size != want || t.GetGang().GetSize() != want || w.gang.exists() != (t.GetGang().GetIncarnation() > 0),
		"gang of %d, recorded as %v, want one of %d", w.gang.size, t.GetGang(), want)
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
			b.when(int32(rank) >= w.gang.size || !seen.Add(rank), "job %q has rank %d of %d, which another has too", a.GetJobId(), rank, w.gang.size)
		}
	}
	b.when(!ranks.free.Equal(&w.gang.free) || ranks.stale != w.gang.stale, "ranks %v are free, %d jobs of earlier incarnations, counted %v and %d",
		ranks.free.Intervals(), ranks.stale, w.gang.free.Intervals(), w.gang.stale)
	b.when(w.gang.completed.Len() > w.completed.Len(), "%d ranks have completed, and %d jobs", w.gang.completed.Len(), w.completed.Len())
	return b.err
}

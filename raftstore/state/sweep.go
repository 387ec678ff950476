package state

import (
	"fmt"
	"strings"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// toldRanges bounds the ranges of cookies that an operation's error lists.
const toldRanges = 20

// cookiesOf returns the cookies of a task with this number of jobs.
func cookiesOf(spec *statepb.TaskSpec, jobs int64) (all cookies.IntervalSet) {
	if len(spec.GetCookies()) == 0 {
		return cookies.Range(0, scheduling.Cookie(jobs))
	}
	for _, r := range spec.GetCookies() {
		all.AddInterval(cookies.Interval{Begin: scheduling.Cookie(r.GetBegin()), End: scheduling.Cookie(r.GetEnd())})
	}
	return all
}

// standsAlone reports whether each cookie of a task is useful without the others, and is done when
// its job has completed.
func (o *operation) standsAlone(task int) bool {
	return SweepObstacle(o.record.GetSpec(), o.record.GetSpec().GetTasks()[task]) == ""
}

// SweepObstacle returns the option that prevents the cookies of a task from being independent, or
// "" if no option does (J.5.4).
func SweepObstacle(spec *statepb.OperationSpec, t *statepb.TaskSpec) string {
	switch {
	case spec.GetType() != lifecycle.Vanilla:
		return "type: " + spec.GetType()
	case spec.GetIsGang():
		return "is_gang"
	case t.GetGang() != nil:
		return "gang_options"
	case t.GetRestartCompletedJobs():
		return "restart_completed_jobs"
	}
	return ""
}

// checkSweep returns what is wrong with a task's cookies or its number of attempts, or nil.
func checkSweep(spec *statepb.OperationSpec, t *statepb.TaskSpec) error {
	var b breach
	obstacle := SweepObstacle(spec, t)
	b.when(t.GetMaxAttempts() < 0, "max_attempts %d is negative", t.GetMaxAttempts())
	b.when(t.GetMaxAttempts() > 0 && obstacle != "", "max_attempts is not allowed with %s: its jobs are not independent of each other", obstacle)
	b.when(len(t.GetCookies()) > 0 && obstacle != "", "cookies are not allowed with %s: its jobs are not independent of each other", obstacle)
	end := int32(0)
	for i, r := range t.GetCookies() {
		b.when(r.GetEnd() <= r.GetBegin() || r.GetBegin() < end || i > 0 && r.GetBegin() == end || r.GetEnd() > t.GetJobCount(),
			"cookies: [%d, %d): ranges must be ascending, not adjacent, and within job_count, %d", r.GetBegin(), r.GetEnd(), t.GetJobCount())
		end = r.GetEnd()
	}
	return b.err
}

// countFailure counts a failed attempt of a cookie and returns the number of failures so
// far. edit has been called.
func (o *operation) countFailure(task int, cookie scheduling.Cookie) int32 {
	failures := made(&o.record.GetTasks()[task].Failures)
	failures[int32(cookie)]++
	return failures[int32(cookie)]
}

// giveUp counts the last attempt of a cookie, which will not run again. edit has been called.
func (c jobChange) giveUp(o *operation, task int, cookie scheduling.Cookie, j *statepb.FinishedJob) {
	c.edit(o)
	t := o.record.GetTasks()[task]
	move(t, "give job up", (*lifecycle.Counters).GiveUp)
	o.tasks[task].givenUp.Add(cookie)
	forgetCookie(t, cookie)
	j.GivenUp = true
	o.record.FailedJobCount++
	o.record.GivenUpError = errorWith(j, map[string]string{"job_id": j.GetJobId(), "task": t.GetName(), "cookie": fmt.Sprint(cookie)})
}

// CountedFailures returns how many failures of a task count against max_failed_job_count. If the
// option max_attempts is set, only jobs that were given up count; if not, all failures count.
func CountedFailures(spec *statepb.TaskSpec, t *statepb.Task) int64 {
	if spec.GetMaxAttempts() > 0 {
		return t.GetCounters().GetGivenUp()
	}
	return t.GetCounters().GetFailed()
}

// allEnded reports whether no cookie of any task has to run: each has completed or is
// given up, or every rank of its gang has completed.
func allEnded(o *operation) bool {
	for i, t := range o.record.GetTasks() {
		c := t.GetCounters()
		if !o.tasks[i].gang.done() && c.GetCompleted()+c.GetGivenUp() != c.GetTotal() {
			return false
		}
	}
	return true
}

// conclude ends an operation whose cookies have all ended. The operation completes if no cookie was
// given up, and fails if one was.
func (c *change) conclude(o *operation) {
	if why := o.givenUp(); why != nil {
		c.fail(o, why, NoteJobsGivenUp)
		return
	}
	c.advance(o, lifecycle.Completing, NoteAllJobsCompleted, nil)
}

// givenUp returns the error of an operation with cookies that were given up, or nil if there are
// none.
func (o *operation) givenUp() *statepb.Error {
	var givenUp, total int64
	var which []string
	for i, t := range o.record.GetTasks() {
		givenUp += t.GetCounters().GetGivenUp()
		total += t.GetCounters().GetTotal()
		if set := &o.tasks[i].givenUp; set.Len() > 0 {
			which = append(which, t.GetName()+": "+cookiesText(set, toldRanges))
		}
	}
	if givenUp == 0 {
		return nil
	}
	return &statepb.Error{
		Code:    int32(lifecycle.CodeJobsGivenUp),
		Message: fmt.Sprintf("%d of %d jobs failed in all of their attempts", givenUp, total),
		Attributes: map[string]string{
			"given_up_job_count": fmt.Sprint(givenUp), "job_count": fmt.Sprint(total), "cookies": strings.Join(which, "; "),
		},
		Inner: []*statepb.Error{o.record.GetGivenUpError()},
	}
}

// cookiesText formats cookies for people, as in 3, 7-9. The parameter `most` limits the number of
// ranges in the text.
func cookiesText(set *cookies.IntervalSet, most int) string {
	var parts []string
	for i, r := range set.Intervals() {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(set.Intervals())-most))
			break
		}
		if r.Len() == 1 {
			parts = append(parts, fmt.Sprint(r.Begin))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d-%d", r.Begin, r.End-1))
	}
	return strings.Join(parts, ", ")
}

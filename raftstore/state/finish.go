package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/statistics"
)

// finishJobs records how jobs ended. Each job is counted once: a counted job has no allocation, so
// a second report is refused.
func (c jobChange) finishJobs(_ string, o *operation, m *commandpb.FinishJobs) *refusal {
	ended := AllocationsEnded{Operation: o.id()}
	var failure failure
	eachJob(c, m.GetJobs(), (*statepb.FinishedJob).GetJobId, func(j *statepb.FinishedJob) *refusal {
		e, refused := c.finishJob(o, j)
		if refused != nil {
			return refused
		}
		ended.Ended = append(ended.Ended, e)
		if e.Allocation.GetReplaced() {
			return nil
		}
		c.countAgain(o, e)
		if failure.why == nil {
			failure = failureOf(o, e.Finished)
		}
		return nil
	})
	if len(ended.Ended) > 0 {
		c.emit(ended)
	}
	c.tellConsequences()
	if o.state == lifecycle.Running {
		switch {
		case failure.why != nil:
			c.fail(o, failure.why, failure.note)
		case allEnded(o):
			c.conclude(o)
		}
	}
	c.settleGangs()
	c.tellDemand()
	return nil
}

// eachJob calls the function `do` for each job of a command, and adds a result for each: accepted
// or refused.
func eachJob[J any](c jobChange, jobs []J, id func(J) string, do func(J) *refusal) {
	results := slices.Grow(c.result.GetFinishJobs().GetJobs(), len(jobs))
	for _, j := range jobs {
		result := &commandpb.FinishJobResult{JobId: id(j)}
		if refused := do(j); refused != nil {
			result.Refusal, result.Message = refused.code, refused.message
		}
		results = append(results, result)
	}
	c.result.Value = &commandpb.Result_FinishJobs{FinishJobs: &commandpb.FinishJobsResult{Jobs: results}}
}

// eachID does the same as eachJob, for jobs that are given by their ids only.
func (c jobChange) eachID(jobs []string, do func(job string) *refusal) {
	eachJob(c, jobs, func(job string) string { return job }, do)
}

// finishJob ends one job as its controller reports.
func (c jobChange) finishJob(o *operation, j *statepb.FinishedJob) (Ended, *refusal) {
	a, refused := c.held(j.GetJobId(), o.id(), scheduling.NodeID(j.GetNode()))
	if refused != nil {
		return Ended{}, refused
	}
	if term, index := j.GetGrantTerm(), j.GetGrantIndex(); (term != 0 || index != 0) && (term != a.GetGrantTerm() || index != a.GetGrantIndex()) {
		return Ended{}, refuse(CodeStaleToken, "finish job %q: its token is %d.%d, but it was granted with %d.%d",
			j.GetJobId(), term, index, a.GetGrantTerm(), a.GetGrantIndex())
	}
	state, err := lifecycle.ParseJobState(j.GetState())
	if err != nil || !state.Terminal() {
		return Ended{}, refuse(CodeInvalidCommand, "finish job %q: state %q: use completed, failed or aborted", j.GetJobId(), j.GetState())
	}
	if !a.GetStop().Interrupted() && (j.GetRerun() || j.GetAcknowledged()) {
		return Ended{}, refuse(CodeInvalidCommand, "finish job %q: rerun %t, acknowledged %t, but it was not interrupted",
			j.GetJobId(), j.GetRerun(), j.GetAcknowledged())
	}
	if j.GetRerun() && state != lifecycle.JobCompleted || j.GetAcknowledged() && state != lifecycle.JobAborted {
		return Ended{}, refuse(CodeInvalidCommand, "finish job %q: rerun %t, acknowledged %t, but the job is %s: "+
			"only a completed job can ask to run again, and only an aborted one can have acknowledged its interruption", j.GetJobId(), j.GetRerun(), j.GetAcknowledged(), state)
	}
	if err := statistics.Check(j.GetStatistics().GetPacked()); err != nil {
		return Ended{}, refuse(CodeInvalidCommand, "finish job %q: %v", j.GetJobId(), err)
	}
	if refused := cmp.Or(checkLessons(j, state), o.checkWork(o.taskIndex[scheduling.TaskName(a.GetTask())], a, j, state)); refused != nil {
		return Ended{}, refused
	}
	finished := shallow(j)
	finished.Error = cutError(c.limits, j.GetError(), bounds.Error)
	if state != lifecycle.JobAborted {
		finished.AbortReason = ""
	} else if finished.AbortReason, refused = abortReason(j.GetAbortReason()); refused != nil {
		return Ended{}, refused
	}
	if finished.GetStartTime() == nil {
		finished.StartTime = a.GetStartTime()
	}
	if finished.GetFinishTime() == nil {
		finished.FinishTime = c.timestamp()
	}
	return c.endJob(o, a, finished, state), nil
}

// held returns the allocation of a job if it belongs to the operation and is on the node. An empty
// id matches any operation or node.
func (c jobChange) held(job string, operation scheduling.OperationID, node scheduling.NodeID) (*statepb.Allocation, *refusal) {
	a, ok := c.allocations.of(scheduling.JobID(job))
	switch {
	case !ok:
		return nil, refuse(CodeUnknownAllocation, "job %q has no allocation: its end is already recorded, or it was never granted", job)
	case operation != "" && a.GetOperationId() != string(operation):
		return nil, refuse(CodeUnknownAllocation, "job %q: it belongs to operation %q, not to %q", job, a.GetOperationId(), operation)
	case node != "" && a.GetNode() != string(node):
		return nil, refuse(CodeUnknownAllocation, "job %q: it runs on node %q, not on %q", job, a.GetNode(), node)
	}
	return a, nil
}

// abortReason validates the name of an abort reason; an empty name becomes "other".
func abortReason(name string) (string, *refusal) {
	if name == "" {
		return lifecycle.AbortOther.String(), nil
	}
	reason, err := lifecycle.ParseAbortReason(name)
	if err != nil || reason == lifecycle.NotAborted {
		return "", refuse(CodeInvalidCommand, "abort reason %q: there is no such reason", name)
	}
	return name, nil
}

// endJob removes an allocation and counts how its job ended. If the job was an instance that has
// been replaced, its end is only recorded: its cookie and its counts belong to its successor.
func (c jobChange) endJob(o *operation, a *statepb.Allocation, finished *statepb.FinishedJob, state lifecycle.JobState) Ended {
	editJobs(c.State, o)
	c.release(o, a)
	if a.GetReplaced() {
		finished.Sample, finished.NextReserve, finished.Rerun = nil, nil, false
		describe(finished, a, state, c.index)
	} else {
		c.countEnd(o, a, finished, state)
	}
	c.account(o, a, finished)
	told(finished)
	c.keep(o, finished)
	o.record.LastIndex = c.index
	return Ended{Allocation: a, Finished: finished}
}

// countEnd counts how a job ended. Its cookie becomes pending again, unless the job
// completed for good or the cookie is given up. edit has been called.
func (c jobChange) countEnd(o *operation, a *statepb.Allocation, finished *statepb.FinishedJob, state lifecycle.JobState) {
	i := o.taskIndex[scheduling.TaskName(a.GetTask())]
	t, cookie := o.record.GetTasks()[i], scheduling.Cookie(a.GetCookie())
	stale, roomy := o.tasks[i].isStale(t, a), grows(c.State, o)
	if stale && state == lifecycle.JobFailed {
		// The job failed because its gang's incarnation is over.
		state, finished.AbortReason, finished.Fatal = lifecycle.JobAborted, lifecycle.AbortOperationIncarnationChanged.String(), false
	}
	learn(t, a.GetCookie(), finished, roomy)
	finished.Failures, finished.GivenUp = 0, false
	switch {
	case state == lifecycle.JobCompleted && (stale || finished.GetRerun()):
		move(t, "restart job", (*lifecycle.Counters).Restart)
		c.requeue(o, i, cookie)
	case state == lifecycle.JobCompleted && o.record.GetSpec().GetTasks()[i].GetRestartCompletedJobs():
		move(t, "restart job", (*lifecycle.Counters).Restart)
		// The cookie's next run need not use as much memory as the one that exceeded its
		// reserve.
		delete(t.GetReserves(), int32(cookie))
		c.requeue(o, i, cookie)
	case state == lifecycle.JobCompleted:
		c.complete(o, i, cookie, finished)
	case state == lifecycle.JobFailed:
		c.failJob(o, i, cookie, finished)
	default:
		move(t, "abort job", (*lifecycle.Counters).Abort)
		made(&t.Counters.AbortedByReason)[finished.GetAbortReason()]++
		c.requeue(o, i, cookie)
	}
	describe(finished, a, state, c.index)
	addTotals(t.GetTotals(), finished.GetStatistics())
	o.tasks[i].addMeasured(finished, roomy)
	c.leaveGang(o, i, a, finished)
	o.measureTask(i)
}

// describe fills in the fields of a finished job's record that the state knows.
func describe(j *statepb.FinishedJob, a *statepb.Allocation, state lifecycle.JobState, index uint64) {
	j.Task, j.Cookie, j.Node, j.Attempt = a.GetTask(), a.GetCookie(), a.GetNode(), a.GetAttempt()
	j.State, j.Index = state.String(), index
	j.GrantTerm, j.GrantIndex = a.GetGrantTerm(), a.GetGrantIndex()
	j.Stop, j.Reserve = a.GetStop(), a.GetReserve()
	j.GangIncarnation, j.GangRank = a.GetGangIncarnation(), a.GangRank
}

// complete counts a cookie as done. edit has been called.
func (c jobChange) complete(o *operation, task int, cookie scheduling.Cookie, j *statepb.FinishedJob) {
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	move(t, "complete job", (*lifecycle.Counters).Complete)
	w.completed.Add(cookie)
	if o.reads() {
		c.take(o, task, cookie, j)
	}
	if !w.gang.exists() {
		// A gang may have to run the cookie again.
		forgetCookie(t, cookie)
	}
}

// forgetCookie drops the counts of a cookie that does not run again.
func forgetCookie(t *statepb.Task, cookie scheduling.Cookie) {
	delete(t.GetAttempts(), int32(cookie))
	delete(t.GetReserves(), int32(cookie))
	delete(t.GetFailures(), int32(cookie))
}

// failJob counts a failed attempt. The cookie is tried again, unless its record is skipped or its
// attempts are used up. If the controller asks for it, the cookie's input is split first. edit has
// been called.
func (c jobChange) failJob(o *operation, task int, cookie scheduling.Cookie, j *statepb.FinishedJob) {
	t := o.record.GetTasks()[task]
	if most := o.record.GetSpec().GetTasks()[task].GetMaxAttempts(); most > 0 {
		if j.Failures = o.countFailure(task, cookie); j.GetFailures() >= most {
			c.giveUp(o, task, cookie, j)
			return
		}
		move(t, "fail job", (*lifecycle.Counters).Fail)
		c.requeue(o, task, cookie)
		return
	}
	o.record.FailedJobCount++
	if j.GetSkipped() != nil {
		move(t, "skip job", (*lifecycle.Counters).Skip)
		o.tasks[task].completed.Add(cookie)
		forgetCookie(t, cookie)
		c.skip(o, task, cookie, j.GetSkipped())
		return
	}
	if o.record.GetCountFailures() && o.standsAlone(task) {
		o.countFailure(task, cookie)
	}
	move(t, "fail job", (*lifecycle.Counters).Fail)
	if len(j.GetSplit()) > 0 {
		c.split(o, task, cookie, j.GetSplit())
	}
	c.requeue(o, task, cookie)
}

// requeue makes a cookie pending again after an attempt.
func (c *change) requeue(o *operation, task int, cookie scheduling.Cookie) {
	t := o.record.GetTasks()[task]
	if attempts := made(&t.Attempts); attempts[int32(cookie)] < math.MaxInt32 {
		attempts[int32(cookie)]++
	}
	group := groupOf(t, cookie)
	o.tasks[task].pending.add(group, cookie)
	c.touch(o, task, group)
}

// release removes an allocation from its node, its operation and the state.
func (c *change) release(o *operation, a *statepb.Allocation) {
	job := scheduling.JobID(a.GetJobId())
	c.allocations.remove(job)
	o.live -= allocationBytes(o.allocations[job])
	delete(o.allocations, job)
	c.nodes[scheduling.NodeID(a.GetNode())].release(a)
}

// addTotals adds the statistics of an attempt. Negative amounts count as 0, and sums stop
// at the largest number.
func addTotals(totals *statepb.JobTotals, s *statepb.JobStatistics) {
	totals.MaxMemory = max(totals.GetMaxMemory(), s.GetMaxMemory())
	totals.CpuMicros = sum(sum(totals.GetCpuMicros(), s.GetCpuUserMicros()), s.GetCpuSystemMicros())
	totals.RunMillis = sum(totals.GetRunMillis(), s.GetRunMillis())
}

func sum(total, more int64) int64 {
	more = max(more, 0)
	if total > math.MaxInt64-more {
		return math.MaxInt64
	}
	return total + more
}

// failure says why a job makes its operation fail. If why is nil, the operation does not fail.
type failure struct {
	why  *statepb.Error
	note string
}

// failureOf returns why the end of a job makes the operation fail, or no reason if it does not.
func failureOf(o *operation, j *statepb.FinishedJob) failure {
	if j.GetFatal() {
		return failure{errorWith(j, map[string]string{"job_id": j.GetJobId(), "task": j.GetTask(), "node": j.GetNode()}), NoteFatalJob}
	}
	return failure{failureLimit(o, j), NoteFailedJobsLimit}
}

// errorOf returns the error of a failed job.
func errorOf(j *statepb.FinishedJob) *statepb.Error {
	if j.GetError() != nil {
		return j.GetError()
	}
	return &statepb.Error{Code: int32(lifecycle.CodeJobFailed), Message: fmt.Sprintf("job failed with exit code %d", j.GetExitCode())}
}

// errorWith returns the error of a failed job with additional attributes.
func errorWith(j *statepb.FinishedJob, more map[string]string) *statepb.Error {
	why := shallow(errorOf(j))
	why.Attributes = maps.Clone(why.GetAttributes())
	maps.Copy(made(&why.Attributes), more)
	return why
}

// failureLimit returns an error if a job's failure reaches the limit of failed jobs of its
// operation or its task (J.4).
func failureLimit(o *operation, j *statepb.FinishedJob) *statepb.Error {
	if j.GetState() != lifecycle.JobFailed.String() {
		return nil
	}
	i := o.taskIndex[scheduling.TaskName(j.GetTask())]
	spec := o.record.GetSpec()
	if spec.GetTasks()[i].GetMaxAttempts() > 0 && !j.GetGivenUp() {
		return nil
	}
	attributes := map[string]string{"job_id": j.GetJobId(), "task": j.GetTask(), "node": j.GetNode()}
	failed, limit := o.record.GetFailedJobCount(), int64(spec.GetMaxFailedJobCount())
	taskFailed, taskLimit := CountedFailures(spec.GetTasks()[i], o.record.GetTasks()[i]), int64(spec.GetTasks()[i].GetMaxFailedJobCount())
	switch {
	case failed >= limit:
		attributes["limited"] = "operation"
	case taskLimit > 0 && taskFailed >= taskLimit:
		failed, limit = taskFailed, taskLimit
		attributes["limited"] = "task"
	default:
		return nil
	}
	attributes["failed_job_count"] = fmt.Sprint(failed)
	attributes["max_failed_job_count"] = fmt.Sprint(limit)
	return &statepb.Error{
		Code:       int32(lifecycle.CodeMaxFailedJobs),
		Message:    "Failed jobs limit exceeded",
		Attributes: attributes,
		Inner:      []*statepb.Error{errorOf(j)},
	}
}

// abortAllocations ends jobs of any operations because their node is lost or does not
// have them. Aborted jobs never fail an operation.
func (c jobChange) abortAllocations(m *commandpb.AbortAllocations) *refusal {
	reason, refused := abortReason(m.GetReason())
	if refused != nil {
		return refuse(refused.code, "abort allocations: %s", refused.message)
	}
	var lost losses
	c.eachID(m.GetJobIds(), func(job string) *refusal {
		a, refused := c.held(job, "", scheduling.NodeID(m.GetNode()))
		if refused == nil {
			c.lose(&lost, a, reason)
		}
		return refused
	})
	c.tellLosses(lost)
	return nil
}

// losses are jobs that a command ends without a report from their node. They are grouped by
// operation, in the order in which operations lost their first job.
type losses []AllocationsEnded

// lose ends a job without a report from its node.
func (c jobChange) lose(lost *losses, a *statepb.Allocation, reason string) {
	o := c.operations[scheduling.OperationID(a.GetOperationId())]
	e := c.endJob(o, a, &statepb.FinishedJob{
		JobId: a.GetJobId(), AbortReason: reason, StartTime: a.GetStartTime(), FinishTime: c.timestamp(),
	}, lifecycle.JobAborted)
	i := slices.IndexFunc(*lost, func(of AllocationsEnded) bool { return of.Operation == o.id() })
	if i < 0 {
		i = len(*lost)
		*lost = append(*lost, AllocationsEnded{Operation: o.id()})
	}
	(*lost)[i].Ended = append((*lost)[i].Ended, e)
}

// tellLosses emits the ends of lost jobs and their consequences.
func (c jobChange) tellLosses(lost losses) {
	for _, e := range lost {
		c.emit(e)
	}
	c.tellConsequences()
	c.settleGangs()
	c.tellDemand()
}

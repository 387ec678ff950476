package state

import (
	"fmt"
	"math"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// finishJobs takes over how jobs ended, each once: a job that has been counted
// has no allocation any more and is refused.
func (c *change) finishJobs(m *commandpb.FinishJobs) *refusal {
	what := fmt.Sprintf("finish jobs of operation %q", m.GetOperationId())
	o, refused := c.controlled(what, m.GetOperationId(), m.GetEpoch())
	if refused != nil {
		return refused
	}
	results := make([]*commandpb.FinishJobResult, len(m.GetJobs()))
	ended := AllocationsEnded{Operation: o.id()}
	var fatal *statepb.Error
	for i, j := range m.GetJobs() {
		results[i] = &commandpb.FinishJobResult{JobId: j.GetJobId()}
		e, refused := c.finishJob(o, j)
		if refused != nil {
			results[i].Refusal, results[i].Message = refused.code, refused.message
			continue
		}
		ended.Ended = append(ended.Ended, e)
		c.countAgain(o, e)
		if fatal == nil {
			fatal = failureLimit(o, e.Finished)
		}
	}
	c.answerJobs(results)
	if len(ended.Ended) > 0 {
		c.emit(ended)
	}
	if o.state == lifecycle.Running {
		switch {
		case fatal != nil:
			c.fail(o, fatal, NoteFailedJobsLimit)
		case allCompleted(o):
			c.advance(o, lifecycle.Completing, NoteAllJobsCompleted, nil)
		}
	}
	c.tellDemand()
	return nil
}

func (c *change) answerJobs(results []*commandpb.FinishJobResult) {
	c.result.Value = &commandpb.Result_FinishJobs{FinishJobs: &commandpb.FinishJobsResult{Jobs: results}}
}

// finishJob ends one job with what its controller says of it.
func (c *change) finishJob(o *operation, j *statepb.FinishedJob) (Ended, *refusal) {
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
		return Ended{}, refuse(CodeInvalidCommand, "finish job %q: rerun %t, acknowledged %t: it was not interrupted",
			j.GetJobId(), j.GetRerun(), j.GetAcknowledged())
	}
	if j.GetRerun() && state != lifecycle.JobCompleted || j.GetAcknowledged() && state != lifecycle.JobAborted {
		return Ended{}, refuse(CodeInvalidCommand, "finish job %q: rerun %t, acknowledged %t of a job that is %s: "+
			"only a completed one can ask to run again, only an aborted one can have acknowledged", j.GetJobId(), j.GetRerun(), j.GetAcknowledged(), state)
	}
	finished := shallow(j)
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

// held returns the allocation of a job if it belongs to the operation and the
// node; no node means any.
func (c *change) held(job string, operation scheduling.OperationID, node scheduling.NodeID) (*statepb.Allocation, *refusal) {
	a, ok := c.allocations[scheduling.JobID(job)]
	switch {
	case !ok:
		return nil, refuse(CodeUnknownAllocation, "job %q: it has no allocation: it has been counted already, or was never granted", job)
	case operation != "" && a.GetOperationId() != string(operation):
		return nil, refuse(CodeUnknownAllocation, "job %q: it belongs to operation %q, not to %q", job, a.GetOperationId(), operation)
	case node != "" && a.GetNode() != string(node):
		return nil, refuse(CodeUnknownAllocation, "job %q: it runs on node %q, not on %q", job, a.GetNode(), node)
	}
	return a, nil
}

// abortReason returns the name of an abort reason. No reason is "other".
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

// endJob takes an allocation away and counts how its job ended. Unless the job
// completed for good, its cookie is pending again.
func (c *change) endJob(o *operation, a *statepb.Allocation, finished *statepb.FinishedJob, state lifecycle.JobState) Ended {
	c.edit(o)
	c.release(o, a)
	i := o.taskIndex[scheduling.TaskName(a.GetTask())]
	t, cookie := o.record.GetTasks()[i], scheduling.Cookie(a.GetCookie())
	restarts := o.record.GetSpec().GetTasks()[i].GetRestartCompletedJobs() || finished.GetRerun()
	switch {
	case state == lifecycle.JobCompleted && !restarts:
		move(t, "complete job", (*lifecycle.Counters).Complete)
		o.tasks[i].completed.Add(cookie)
		delete(t.GetAttempts(), a.GetCookie())
	case state == lifecycle.JobCompleted:
		move(t, "restart job", (*lifecycle.Counters).Restart)
		c.requeue(o, i, cookie)
	case state == lifecycle.JobFailed:
		move(t, "fail job", (*lifecycle.Counters).Fail)
		o.record.FailedJobCount++
		c.requeue(o, i, cookie)
	default:
		move(t, "abort job", (*lifecycle.Counters).Abort)
		if t.Counters.AbortedByReason == nil {
			t.Counters.AbortedByReason = make(map[string]int64)
		}
		t.Counters.AbortedByReason[finished.GetAbortReason()]++
		c.requeue(o, i, cookie)
	}
	finished.Task, finished.Cookie, finished.Node, finished.Attempt = a.GetTask(), a.GetCookie(), a.GetNode(), a.GetAttempt()
	finished.State, finished.Index = state.String(), c.index
	finished.GrantTerm, finished.GrantIndex = a.GetGrantTerm(), a.GetGrantIndex()
	finished.Stop = a.GetStop()
	c.account(o, a, finished)
	addTotals(t.GetTotals(), finished.GetStatistics())
	o.record.FinishedJobs = append(o.record.GetFinishedJobs(), finished)
	c.trimHistory(o)
	o.record.LastIndex = c.index
	return Ended{Allocation: a, Finished: finished}
}

// requeue makes a cookie pending again after an attempt.
func (c *change) requeue(o *operation, task int, cookie scheduling.Cookie) {
	t := o.record.GetTasks()[task]
	if t.Attempts == nil {
		t.Attempts = make(map[int32]int32)
	}
	if n := t.Attempts[int32(cookie)]; n < math.MaxInt32 {
		t.Attempts[int32(cookie)] = n + 1
	}
	o.tasks[task].pending.Add(cookie)
	c.touch(o, task)
}

// release takes an allocation out of everything that holds it.
func (c *change) release(o *operation, a *statepb.Allocation) {
	job := scheduling.JobID(a.GetJobId())
	delete(c.allocations, job)
	delete(o.allocations, job)
	c.nodes[scheduling.NodeID(a.GetNode())].release(a)
}

// addTotals adds what was measured of an attempt. Negative amounts are taken for
// nothing, and sums stay at the greatest number.
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

// failureLimit returns why the operation fails, if the job is one failed job too
// many for the operation or its task (J.4).
func failureLimit(o *operation, j *statepb.FinishedJob) *statepb.Error {
	if j.GetState() != lifecycle.JobFailed.String() {
		return nil
	}
	i := o.taskIndex[scheduling.TaskName(j.GetTask())]
	spec := o.record.GetSpec()
	attributes := map[string]string{"job_id": j.GetJobId(), "task": j.GetTask(), "node": j.GetNode()}
	failed, limit := o.record.GetFailedJobCount(), int64(spec.GetMaxFailedJobCount())
	taskFailed, taskLimit := o.record.GetTasks()[i].GetCounters().GetFailed(), int64(spec.GetTasks()[i].GetMaxFailedJobCount())
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
	inner := j.GetError()
	if inner == nil {
		inner = &statepb.Error{Code: int32(lifecycle.CodeJobFailed), Message: fmt.Sprintf("job failed with exit code %d", j.GetExitCode())}
	}
	return &statepb.Error{
		Code:       int32(lifecycle.CodeMaxFailedJobs),
		Message:    "Failed jobs limit exceeded",
		Attributes: attributes,
		Inner:      []*statepb.Error{inner},
	}
}

// allCompleted reports whether every cookie of every task is completed.
func allCompleted(o *operation) bool {
	for _, t := range o.record.GetTasks() {
		if t.GetCounters().GetCompleted() != t.GetCounters().GetTotal() {
			return false
		}
	}
	return true
}

// abortAllocations ends jobs of whichever operations, because their node is lost
// or does not have them. Aborted jobs never fail an operation.
func (c *change) abortAllocations(m *commandpb.AbortAllocations) *refusal {
	if err := c.fence("abort allocations", m.GetTerm()); err != nil {
		return err
	}
	reason, refused := abortReason(m.GetReason())
	if refused != nil {
		return refuse(refused.code, "abort allocations: %s", refused.message)
	}
	results := make([]*commandpb.FinishJobResult, len(m.GetJobIds()))
	var ended []*AllocationsEnded
	byOperation := make(map[*operation]*AllocationsEnded)
	for i, job := range m.GetJobIds() {
		results[i] = &commandpb.FinishJobResult{JobId: job}
		a, refused := c.held(job, "", scheduling.NodeID(m.GetNode()))
		if refused != nil {
			results[i].Refusal, results[i].Message = refused.code, refused.message
			continue
		}
		o := c.operations[scheduling.OperationID(a.GetOperationId())]
		e := c.endJob(o, a, &statepb.FinishedJob{
			JobId: job, AbortReason: reason, StartTime: a.GetStartTime(), FinishTime: c.timestamp(),
		}, lifecycle.JobAborted)
		if byOperation[o] == nil {
			byOperation[o] = &AllocationsEnded{Operation: o.id()}
			ended = append(ended, byOperation[o])
		}
		byOperation[o].Ended = append(byOperation[o].Ended, e)
	}
	c.answerJobs(results)
	for _, e := range ended {
		c.emit(*e)
	}
	c.tellDemand()
	return nil
}

package controller

import (
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// Classify converts an agent's report about the end of a job into the record to commit. `order` is
// the job's order to stop, as far as this replica knows, or nil; the agent may know of an order
// that this replica has not seen yet.
//
// A job that was interrupted ends as in J.3.4: completed, completed to be run again, failed, or
// aborted. An end that the report does not explain counts as a failure of the job proxy.
func Classify(ended *actorpb.JobEnded, allocation *statepb.Allocation, task *statepb.TaskSpec, order *statepb.StopOrder) *statepb.FinishedJob {
	job := proto.CloneOf(ended.GetJob())
	job.JobId = allocation.GetJobId()
	job.Task = allocation.GetTask()
	job.Cookie = allocation.GetCookie()
	job.Node = allocation.GetNode()
	job.Attempt = allocation.GetAttempt()
	// Only the agent knows whether the job was interrupted before it ended: the order may have been
	// given after the end.
	wantsRerun := task != nil && task.RestartExitCode != nil && job.GetExitCode() == task.GetRestartExitCode() && interrupted(job.GetStop())
	if order != nil {
		job.Stop = order
	}
	state, err := lifecycle.ParseJobState(job.GetState())
	job.Rerun = false
	switch {
	case err == nil && (state == lifecycle.JobCompleted || state == lifecycle.JobFailed) && wantsRerun:
		job.State, job.Rerun = lifecycle.JobCompleted.String(), true
		job.AbortReason, job.Error, job.Acknowledged = "", nil, false
	case err == nil && state == lifecycle.JobCompleted:
		job.AbortReason, job.Error, job.Acknowledged = "", nil, false
	case err == nil && state == lifecycle.JobFailed:
		job.AbortReason, job.Acknowledged = "", false
		job.Error = failure(job, ended.GetStderrTail())
	default:
		job.State = lifecycle.JobAborted.String()
		job.AbortReason = abortReason(job)
	}
	return job
}

// interrupted reports whether a job was asked to leave by a signal; jobs that were killed at once
// were not.
func interrupted(order *statepb.StopOrder) bool {
	return order.GetInterruption() != "" && order.GetGraceMillis() > 0
}

// abortReason returns the reason of an aborted job. For a preempted job it is the reason of the
// stop order, even if the order had no grace period or the task no signal.
func abortReason(job *statepb.FinishedJob) string {
	reason, err := lifecycle.ParseAbortReason(job.GetAbortReason())
	switch {
	case err != nil || reason == lifecycle.NotAborted:
		return lifecycle.AbortJobProxyFailed.String()
	case reason == lifecycle.AbortInterruptionTimeout && job.GetStop().GetPreemption() != "":
		return job.GetStop().GetReason()
	default:
		return reason.String()
	}
}

// failure returns the error of a failed job with attributes that help to find the cause.
func failure(job *statepb.FinishedJob, stderrTail []byte) *statepb.Error {
	failed := job.GetError()
	if failed == nil {
		failed = &statepb.Error{Message: fmt.Sprintf("job exited with code %d", job.GetExitCode())}
	}
	if failed.GetCode() == 0 {
		failed.Code = int32(lifecycle.CodeJobFailed)
	}
	attributes := map[string]string{"job_id": job.GetJobId(), "node": job.GetNode(), "task": job.GetTask()}
	if len(stderrTail) > 0 {
		attributes["stderr_tail"] = strings.ToValidUTF8(string(stderrTail), "\uFFFD")
	}
	maps.Copy(attributes, failed.GetAttributes())
	failed.Attributes = attributes
	return failed
}

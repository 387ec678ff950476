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

// Classify turns an agent's word about the end of a job into the record that is
// committed. order is what the job was told, as far as this replica knows; nil:
// nothing. The agent may know of an order that this replica has not seen yet.
//
// A job that was interrupted ends as J.3.4 says: well, to be run again, badly, or
// aborted. An end that the agent cannot name is a failure of its job proxy.
func Classify(ended *actorpb.JobEnded, allocation *statepb.Allocation, task *statepb.TaskSpec, order *statepb.StopOrder) *statepb.FinishedJob {
	job := proto.CloneOf(ended.GetJob())
	job.JobId = allocation.GetJobId()
	job.Task = allocation.GetTask()
	job.Cookie = allocation.GetCookie()
	job.Node = allocation.GetNode()
	job.Attempt = allocation.GetAttempt()
	// Whether the job was asked before it ended is for the agent to say: the order may
	// have been given since.
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

// interrupted reports whether a job was asked to leave by a signal: those that are
// killed at once are not.
func interrupted(order *statepb.StopOrder) bool {
	return order.GetInterruption() != "" && order.GetGraceMillis() > 0
}

// abortReason returns why an aborted job was: who was preempted is told so, whether
// or not there was time to leave or a signal to do so.
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

// failure completes the error of a failed job with what helps to find its cause.
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

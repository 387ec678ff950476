package state

import (
	"fmt"
	"strconv"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// The notes of an operation's events. A note says why the state changed, or what else happened.
const (
	NoteControllerAssigned = "controller_assigned"
	NotePreparationFailed  = "preparation_failed"
	NoteSuspended          = "suspended"
	NoteResumed            = "resumed"
	NoteAbortedByUser      = "aborted_by_user"
	NoteCompletedByUser    = "completed_by_user"
	NoteAllJobsCompleted   = "all_jobs_completed"
	NoteFailedJobsLimit    = "failed_jobs_limit_exceeded"
	NoteJobsGivenUp        = "jobs_given_up"
	NoteUpdated            = "updated"
	NoteGangIncarnation    = "gang_incarnation"
	NoteFatalJob           = "fatal_job_error"
	NoteOutputPublished    = "output_published"
	NotePublicationFailed  = "publication_failed"
)

// suspendOperation stops an operation from starting jobs. If it is already suspended, the command
// can still abort its running jobs.
func (c operationChange) suspendOperation(what string, o *operation, m *commandpb.SuspendOperation) *refusal {
	if o.record.GetSuspended() && !m.GetAbortRunningJobs() {
		return refuse(CodeInvalidOperationState, "%s: already suspended: resume it first, or abort its running jobs", what)
	}
	c.edit(o)
	o.record.Suspended = true
	attributes := map[string]string{"user": m.GetUser()}
	if m.GetAbortRunningJobs() {
		o.record.AbortJobsUntilIndex = c.index
		attributes["abort_running_jobs"] = "true"
	}
	c.note(o, NoteSuspended, attributes)
	c.emit(OperationChanged{ID: o.id(), From: o.state, To: o.state, Suspended: true, AbortJobs: m.GetAbortRunningJobs()})
	return nil
}

// resumeOperation allows a suspended operation to start jobs again.
func (c operationChange) resumeOperation(what string, o *operation, m *commandpb.ResumeOperation) *refusal {
	if !o.record.GetSuspended() {
		return refuse(CodeInvalidOperationState, "%s: it is %s, but not suspended", what, o.state)
	}
	c.edit(o)
	o.record.Suspended = false
	c.note(o, NoteResumed, map[string]string{"user": m.GetUser()})
	c.emit(OperationChanged{ID: o.id(), From: o.state, To: o.state})
	return nil
}

// abortOperation ends an operation for a user: at once, or with a grace period for its jobs. During
// that period, another abort can shorten it.
func (c operationChange) abortOperation(m *commandpb.AbortOperation) *refusal {
	what := fmt.Sprintf("abort operation %q", m.GetOperationId())
	if refused := checkGrace(what, m.GetInterruptMillis()); refused != nil {
		return refused
	}
	if o := c.operations[scheduling.OperationID(m.GetOperationId())]; o != nil && o.record.GetStop() != nil {
		c.abortSooner(o, m)
		return nil
	}
	o, refused := unended(c.change, what, m)
	if refused != nil {
		return refused
	}
	message := fmt.Sprintf("operation aborted by user %q", m.GetUser())
	attributes := map[string]string{"user": m.GetUser()}
	if m.GetReason() != "" {
		message += ": " + m.GetReason()
		attributes["reason"] = m.GetReason()
	}
	c.edit(o)
	o.record.Result = &statepb.Error{Code: int32(lifecycle.CodeAbortedByUser), Message: message, Attributes: attributes}
	if m.GetInterruptMillis() == 0 {
		c.advance(o, lifecycle.Aborting, NoteAbortedByUser, attributes)
		return nil
	}
	attributes[attributeInterrupt] = strconv.FormatInt(m.GetInterruptMillis(), 10)
	order := c.abortOrder(message, m)
	ordered := c.orderAll(o.allocations, order)
	o.record.Stop = order
	c.advance(o, lifecycle.Aborting, NoteAbortedByUser, attributes)
	c.tellStops(ordered)
	return nil
}

// attributeInterrupt is the attribute for the jobs' grace period, in milliseconds.
const attributeInterrupt = "interrupt_millis"

// abortOrder is the stop order for the jobs of an operation that is aborted.
func (c operationChange) abortOrder(message string, m *commandpb.AbortOperation) *statepb.StopOrder {
	return &statepb.StopOrder{
		Reason: lifecycle.AbortOperationAborted.String(), Message: cutText(c.limits, message, maxOrderBytes), GraceMillis: m.GetInterruptMillis(),
		Time: c.timestamp(), Interruption: statepb.InterruptedByAbort,
	}
}

// abortSooner shortens the grace period of an operation that is being aborted. It never extends the
// period, because the jobs already have their deadline.
func (c operationChange) abortSooner(o *operation, m *commandpb.AbortOperation) {
	order, news := merged(o.record.GetStop(), c.abortOrder(o.record.GetStop().GetMessage(), m))
	if !news {
		return
	}
	c.edit(o)
	o.record.Stop = order
	c.note(o, NoteAbortedByUser, map[string]string{
		"user": m.GetUser(), attributeInterrupt: strconv.FormatInt(m.GetInterruptMillis(), 10),
	})
	c.tellStops(c.orderAll(o.allocations, order))
}

// completeOperation completes a running operation early, with the work done so far.
func (c operationChange) completeOperation(what string, o *operation, m *commandpb.CompleteOperation) *refusal {
	if o.state != lifecycle.Running {
		return refuse(CodeInvalidOperationState, "%s: it is %s: only a running operation can be completed: abort it", what, o.state)
	}
	c.advance(o, lifecycle.Completing, NoteCompletedByUser, map[string]string{"user": m.GetUser()})
	return nil
}

package apipb

// Codes of refusals in the header Weir-Code, beside those of refused commands.
// Clients of other versions know them: never change one.
const (
	// CodeInvalidArgument: the request makes no sense, now or later.
	CodeInvalidArgument = "invalid_argument"
	// CodeUnauthenticated: nobody knows who asks.
	CodeUnauthenticated = "unauthenticated"
	// CodePermissionDenied: who asks may not do that.
	CodePermissionDenied = "permission_denied"
	// CodeNotLeader: this replica does not lead, and nothing has happened.
	CodeNotLeader = "not_leader"
	// CodeNoQuorum: the replicas did not agree in time.
	CodeNoQuorum = "no_quorum"
	// CodeOverloaded: too much waits already; worth another try later.
	CodeOverloaded = "overloaded"
	// CodeOutcomeUnknown: what was asked for may have been done, or may still be.
	CodeOutcomeUnknown = "outcome_unknown"
	// CodeStopping: the replica is on its way out; another one may answer.
	CodeStopping = "stopping"
	// CodeUnavailable: it cannot be done now; worth another try later.
	CodeUnavailable = "unavailable"
	// CodeInternal: a mistake in the replica.
	CodeInternal = "internal"
	// CodeNoSuchJob: the job was never granted, or is no longer archived.
	CodeNoSuchJob = "no_such_job"
	// CodeJobEnded: the job has ended already.
	CodeJobEnded = "job_ended"
	// CodeNotInterruptible: the job's task has neither input nor an interruption_signal.
	CodeNotInterruptible = "not_interruptible"
	// CodeOutputGone: the job's output is no longer kept.
	CodeOutputGone = "output_gone"
	// CodeNeverStarted: the job ended before it had a process, so it has no output.
	CodeNeverStarted = "never_started"
	// CodeUnknownReplica: no replica has the id.
	CodeUnknownReplica = "unknown_replica"
	// CodeNotTransferred: leadership stayed where it was.
	CodeNotTransferred = "not_transferred"
	// CodeMembersNotChanged: the replicas of the cluster stay as they are.
	CodeMembersNotChanged = "members_not_changed"
	// CodeEventsGone: events are kept no longer.
	CodeEventsGone = "events_gone"
	// CodeEventsMissing: this replica does not know some events; another one may.
	CodeEventsMissing = "events_missing"
	// CodeNothingToRetry: no job of the operation can be run again by itself.
	CodeNothingToRetry = "nothing_to_retry"
	// CodeUnknownPath: there is no attribute at the path.
	CodeUnknownPath = "unknown_path"
)

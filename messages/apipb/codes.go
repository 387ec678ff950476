package apipb

// Codes of errors in the header Weir-Code, in addition to the codes of rejected commands. Clients of
// other versions know the codes: never change one.
const (
	// CodeInvalidArgument: the request is invalid; a retry is of no use.
	CodeInvalidArgument = "invalid_argument"
	// CodeUnauthenticated: the caller's identity is unknown.
	CodeUnauthenticated = "unauthenticated"
	// CodePermissionDenied: the caller is not permitted to do this.
	CodePermissionDenied = "permission_denied"
	// CodeNotLeader: this replica does not lead; nothing was done.
	CodeNotLeader = "not_leader"
	// CodeNoQuorum: the replicas did not agree in time.
	CodeNoQuorum = "no_quorum"
	// CodeOverloaded: too many requests are waiting; retry later.
	CodeOverloaded = "overloaded"
	// CodeOutcomeUnknown: the request may have been carried out, or may still be.
	CodeOutcomeUnknown = "outcome_unknown"
	// CodeStopping: the replica is shutting down; another one may answer.
	CodeStopping = "stopping"
	// CodeUnavailable: not possible at the moment; retry later.
	CodeUnavailable = "unavailable"
	// CodeInternal: an internal error of the replica.
	CodeInternal = "internal"
	// CodeNoSuchJob: the job was never granted, or is no longer archived.
	CodeNoSuchJob = "no_such_job"
	// CodeJobEnded: the job has ended already.
	CodeJobEnded = "job_ended"
	// CodeNotInterruptible: the job's task has neither input nor an interruption_signal.
	CodeNotInterruptible = "not_interruptible"
	// CodeOutputGone: the job's output is no longer kept.
	CodeOutputGone = "output_gone"
	// CodeNoSuchFile: the job has no such file, or does not run.
	CodeNoSuchFile = "no_such_file"
	// CodeNoSuchSession: the command that was run in a job is no longer there.
	CodeNoSuchSession = "no_such_session"
	// CodeTooManySessions: as many commands run in the job, or on its node, as may.
	CodeTooManySessions = "too_many_sessions"
	// CodeNeverStarted: the job ended before it had a process, so it has no output.
	CodeNeverStarted = "never_started"
	// CodeUnknownReplica: no replica has the id.
	CodeUnknownReplica = "unknown_replica"
	// CodeNotTransferred: leadership stayed where it was.
	CodeNotTransferred = "not_transferred"
	// CodeMembersNotChanged: the membership of the cluster was not changed.
	CodeMembersNotChanged = "members_not_changed"
	// CodeUpgradeBlocked: the version of the cluster was not raised.
	CodeUpgradeBlocked = "upgrade_blocked"
	// CodeEventsGone: the events are no longer kept.
	CodeEventsGone = "events_gone"
	// CodeEventsMissing: this replica does not know some events; another one may.
	CodeEventsMissing = "events_missing"
	// CodeNothingToRetry: no job of the operation can be run again by itself.
	CodeNothingToRetry = "nothing_to_retry"
	// CodeNoVaultKey: the replica has no key with which it could seal secrets.
	CodeNoVaultKey = "no_vault_key"
	// CodeSecretsGone: the operation has ended, and its secrets have to be given again.
	CodeSecretsGone = "secrets_gone"
	// CodeUnknownPath: there is no attribute at the path.
	CodeUnknownPath = "unknown_path"
	// CodeAnswerTooLarge: the answer would have more bytes than clients read.
	CodeAnswerTooLarge = "answer_too_large"
)

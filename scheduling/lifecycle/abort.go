package lifecycle

// AbortReason says why the system or a user ended a job. Numbers and names are those of J.4.3 and
// are on disk: never change or reuse one.
type AbortReason uint16

// The abort reasons in use.
const (
	// NotAborted is the reason of a job that was not aborted.
	NotAborted AbortReason = 0
	// AbortScheduler: the scheduler revoked its decision before the job began.
	AbortScheduler AbortReason = 1
	// AbortResourceOverdraft: the job used more memory than was reserved for it
	// while the node had none to spare.
	AbortResourceOverdraft AbortReason = 3
	// AbortOther: none of the other reasons.
	AbortOther AbortReason = 4
	// AbortPreemption: the resources were due to other operations or pools.
	AbortPreemption AbortReason = 5
	// AbortUserRequest: a user aborted this job.
	AbortUserRequest AbortReason = 6
	// AbortNodeOffline: the lease of the job's node ran out.
	AbortNodeOffline AbortReason = 7
	// AbortGetSpecFailed: the node could not get the job's specification.
	AbortGetSpecFailed AbortReason = 10
	// AbortRevivalConfirmationTimeout: the node came back too late to confirm the
	// job to a new leader.
	AbortRevivalConfirmationTimeout AbortReason = 12
	// AbortDisappearedFromNode: the node no longer knows a job that it ran.
	AbortDisappearedFromNode AbortReason = 28
	// AbortUnconfirmed: the node has a job without a committed allocation.
	AbortUnconfirmed AbortReason = 29
	// AbortOperationSuspended: the operation was suspended with its jobs.
	AbortOperationSuspended AbortReason = 30
	// AbortOperationFailed: the operation failed.
	AbortOperationFailed AbortReason = 25
	// AbortJobProxyFailed: the supervisor of the job failed.
	AbortJobProxyFailed AbortReason = 34
	// AbortInterruptionTimeout: the job was interrupted and did not exit in time.
	AbortInterruptionTimeout AbortReason = 35
	// AbortNodeResourceOvercommit: the node had less than its jobs hold.
	AbortNodeResourceOvercommit AbortReason = 36
	// AbortOperationCompleted: the operation completed without this job.
	AbortOperationCompleted AbortReason = 44
	// AbortOperationAborted: the operation was aborted.
	AbortOperationAborted AbortReason = 45
	// AbortInterruptionUnsupported: the job was to be interrupted, which it does not support.
	AbortInterruptionUnsupported AbortReason = 48
	// AbortOperationIncarnationChanged: the gang of the job lost another job, and starts over.
	AbortOperationIncarnationChanged AbortReason = 55
)

// abortReasons are the names by number.
var abortReasons = []string{
	NotAborted:                       "none",
	AbortScheduler:                   "scheduler",
	AbortResourceOverdraft:           "resource_overdraft",
	AbortOther:                       "other",
	AbortPreemption:                  "preemption",
	AbortUserRequest:                 "user_request",
	AbortNodeOffline:                 "node_offline",
	AbortGetSpecFailed:               "get_spec_failed",
	AbortRevivalConfirmationTimeout:  "revival_confirmation_timeout",
	AbortOperationFailed:             "operation_failed",
	AbortDisappearedFromNode:         "disappeared_from_node",
	AbortUnconfirmed:                 "unconfirmed",
	AbortOperationSuspended:          "operation_suspended",
	AbortJobProxyFailed:              "job_proxy_failed",
	AbortInterruptionTimeout:         "interruption_timeout",
	AbortNodeResourceOvercommit:      "node_resource_overcommit",
	AbortOperationCompleted:          "operation_completed",
	AbortOperationAborted:            "operation_aborted",
	AbortInterruptionUnsupported:     "interruption_unsupported",
	AbortOperationIncarnationChanged: "operation_incarnation_changed",
}

// String returns the name of the reason in the API, such as "node_offline".
func (r AbortReason) String() string { return nameOf(abortReasons, r) }

// ParseAbortReason returns the reason with this name.
func ParseAbortReason(name string) (AbortReason, error) {
	return numberOf[AbortReason](abortReasons, name, "abort reason")
}

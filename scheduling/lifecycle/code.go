package lifecycle

import "fmt"

// Code is the number of an error that callers can act upon (J.4). Codes are
// part of the API: never change or reuse one.
type Code uint16

// The error codes of operations and jobs.
const (
	// CodeNoSuchOperation: no operation has this id or alias.
	CodeNoSuchOperation Code = 200
	// CodeInvalidOperationState: the operation is in a state that does not allow
	// what was asked for.
	CodeInvalidOperationState Code = 201
	// CodeTooManyOperations: a pool holds as many operations as it may.
	CodeTooManyOperations Code = 202
	// CodeNoSuchJob: no job has this id.
	CodeNoSuchJob Code = 203
	// CodeAgentRevoked: the controller lost the operation to another one.
	CodeAgentRevoked Code = 204
	// CodeFailedOnJobRestart: a job of an operation that allows no rerun ended.
	CodeFailedOnJobRestart Code = 210
	// CodeInconsistentLocking: what the operation depends on changed under it.
	CodeInconsistentLocking Code = 211
	// CodeControllerCrashed: the controller broke on this operation.
	CodeControllerCrashed Code = 212
	// CodeTesting: the failure was asked for.
	CodeTesting Code = 213
	// CodePoolTreesUnspecified: no pool tree can run the operation.
	CodePoolTreesUnspecified Code = 214
	// CodeMaxFailedJobs: as many jobs failed as may.
	CodeMaxFailedJobs Code = 215
	// CodeFailedToPrepare: the operation could not be prepared.
	CodeFailedToPrepare Code = 216
	// CodeTimeLimitExceeded: the operation ran for as long as its time_limit.
	CodeTimeLimitExceeded Code = 230
	// CodeAbortedByUser: a user aborted the operation.
	CodeAbortedByUser Code = 231
	// CodeJobFailed: a job ended by itself, but not well.
	CodeJobFailed Code = 232
	// CodeJobsGivenUp: all jobs have ended, and some have failed in all of their attempts.
	CodeJobsGivenUp Code = 233
)

var codeNames = map[Code]string{
	CodeNoSuchOperation:       "no_such_operation",
	CodeInvalidOperationState: "invalid_operation_state",
	CodeTooManyOperations:     "too_many_operations",
	CodeNoSuchJob:             "no_such_job",
	CodeAgentRevoked:          "agent_revoked",
	CodeFailedOnJobRestart:    "failed_on_job_restart",
	CodeInconsistentLocking:   "inconsistent_locking",
	CodeControllerCrashed:     "controller_crashed",
	CodeTesting:               "testing",
	CodePoolTreesUnspecified:  "pool_trees_unspecified",
	CodeMaxFailedJobs:         "max_failed_jobs",
	CodeFailedToPrepare:       "failed_to_prepare",
	CodeTimeLimitExceeded:     "time_limit_exceeded",
	CodeAbortedByUser:         "aborted_by_user",
	CodeJobFailed:             "job_failed",
	CodeJobsGivenUp:           "jobs_given_up",
}

// String returns the name of the code in the API, such as "max_failed_jobs".
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("lifecycle.Code(%d)", uint16(c))
}

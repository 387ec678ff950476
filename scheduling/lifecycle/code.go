package lifecycle

// Code is the number of an error that callers can act upon (J.4). Codes are
// part of the API: never change or reuse one.
type Code uint16

// The error codes of operations and jobs.
const (
	// CodeNoSuchOperation: no operation has this id or alias.
	CodeNoSuchOperation Code = 200
	// CodeInvalidOperationState: the state of the operation does not allow the request.
	CodeInvalidOperationState Code = 201
	// CodeTooManyOperations: a pool is at its limit of operations.
	CodeTooManyOperations Code = 202
	// CodeNoSuchJob: no job has this id.
	CodeNoSuchJob Code = 203
	// CodeAgentRevoked: the controller lost the operation to another one.
	CodeAgentRevoked Code = 204
	// CodeFailedOnJobRestart: a job would have to run again, which the operation does not allow.
	CodeFailedOnJobRestart Code = 210
	// CodeInconsistentLocking: something that the operation depends on has changed since it began.
	CodeInconsistentLocking Code = 211
	// CodeControllerCrashed: the controller failed on this operation.
	CodeControllerCrashed Code = 212
	// CodeTesting: the failure was requested by a test.
	CodeTesting Code = 213
	// CodePoolTreesUnspecified: no pool tree can run the operation.
	CodePoolTreesUnspecified Code = 214
	// CodeMaxFailedJobs: the limit of failed jobs is reached.
	CodeMaxFailedJobs Code = 215
	// CodeFailedToPrepare: the operation could not be prepared.
	CodeFailedToPrepare Code = 216
	// CodeTimeLimitExceeded: the operation exceeded its time_limit.
	CodeTimeLimitExceeded Code = 230
	// CodeAbortedByUser: a user aborted the operation.
	CodeAbortedByUser Code = 231
	// CodeJobFailed: a job exited by itself, unsuccessfully.
	CodeJobFailed Code = 232
	// CodeJobsGivenUp: all jobs have ended, and some failed in every attempt.
	CodeJobsGivenUp Code = 233
)

package events

import "slices"

// The kinds of events. Clients depend on them: never change one.
const (
	LeaderChanged = "leader_changed"

	OperationAccepted   = "operation_accepted"
	OperationState      = "operation_state"
	OperationSuspended  = "operation_suspended"
	OperationResumed    = "operation_resumed"
	OperationUpdated    = "operation_updated"
	OperationAdmitted   = "operation_admitted"
	OperationController = "operation_controller"
	OperationArchived   = "operation_archived"

	ReserveMoved    = "reserve_moved"
	GangIncarnation = "gang_incarnation"
	RecordSkipped   = "record_skipped"
	OutputPublished = "output_published"
	ProfileSaved    = "memory_profile_saved"
	ProfileRemoved  = "memory_profile_removed"

	JobStarted     = "job_started"
	JobPreempted   = "job_preempted"
	JobInterrupted = "job_interrupted"
	JobStopping    = "job_stopping"
	JobCompleted   = "job_completed"
	JobFailed      = "job_failed"
	JobAborted     = "job_aborted"

	TreeCreated = "tree_created"
	TreeChanged = "tree_changed"
	TreeRemoved = "tree_removed"
	TreeDefault = "tree_default"
	PoolCreated = "pool_created"
	PoolChanged = "pool_changed"
	PoolRenamed = "pool_renamed"
	PoolRemoved = "pool_removed"

	NodeOnline    = "node_online"
	NodeOffline   = "node_offline"
	NodeDrained   = "node_drained"
	NodeUndrained = "node_undrained"
	NodeRemoved   = "node_removed"
	NodeMoved     = "node_moved"
	NodeRefused   = "node_refused"
)

// kinds lists all kinds, in the order of the documentation.
var kinds = []string{
	LeaderChanged,
	OperationAccepted, OperationState, OperationSuspended, OperationResumed, OperationUpdated, OperationAdmitted, OperationController, OperationArchived,
	ReserveMoved, GangIncarnation, RecordSkipped, OutputPublished, ProfileSaved, ProfileRemoved,
	JobStarted, JobPreempted, JobInterrupted, JobStopping, JobCompleted, JobFailed, JobAborted,
	TreeCreated, TreeChanged, TreeRemoved, TreeDefault, PoolCreated, PoolChanged, PoolRenamed, PoolRemoved,
	NodeOnline, NodeOffline, NodeDrained, NodeUndrained, NodeRemoved, NodeRefused, NodeMoved,
}

// Kinds returns all kinds of events.
func Kinds() []string { return slices.Clone(kinds) }

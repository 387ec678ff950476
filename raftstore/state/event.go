package state

import (
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// Event is one change made by a command. Events are values: records that they point to
// never change.
type Event interface{ event() }

// TermBegan says that a new leader has fenced off its predecessors.
type TermBegan struct {
	Term    uint64
	Replica scheduling.ReplicaID
}

// OperationAccepted says that an operation exists, in state starting.
type OperationAccepted struct {
	ID scheduling.OperationID
}

// OperationChanged says that an operation went from one state to another. With From equal
// to To, it was suspended or resumed, its settings were changed, or it was admitted to
// more of its trees.
type OperationChanged struct {
	ID       scheduling.OperationID
	From, To lifecycle.State
	// Suspended is the flag after the change.
	Suspended bool
	// AbortJobs says that the jobs granted so far are to be aborted: the operation was
	// suspended together with its jobs.
	AbortJobs bool
}

// ControllerAssigned says that an operation has another controller.
type ControllerAssigned struct {
	ID      scheduling.OperationID
	Replica scheduling.ReplicaID
	Epoch   uint64
}

// TasksDefined says that the tasks of an operation are known.
type TasksDefined struct {
	ID scheduling.OperationID
}

// DemandChanged says how many jobs of a task group are pending now. It is also emitted when the
// resources of these jobs have changed.
type DemandChanged struct {
	ID   scheduling.OperationID
	Task scheduling.TaskName
	// Group is 0 for jobs with the reserve that the task has learned. For jobs that were aborted
	// for exceeding their memory and now have their own reserve, Group is that reserve in bytes.
	Group   int64
	Pending int64
}

// AllocationsStarted lists granted jobs, in the order of the grants.
type AllocationsStarted struct {
	Allocations []*statepb.Allocation
}

// StopsOrdered lists allocations that their nodes have to end: now, or later if the allocation's
// order is held.
type StopsOrdered struct {
	Operation   scheduling.OperationID
	Allocations []*statepb.Allocation
}

// AllocationsEnded lists jobs of one operation that have ended.
type AllocationsEnded struct {
	Operation scheduling.OperationID
	Ended     []Ended
}

// Ended is a former allocation and the record of its finished job.
type Ended struct {
	Allocation *statepb.Allocation
	Finished   *statepb.FinishedJob
}

// OperationArchived says that the record of a finished operation has been dropped from
// the state to make room for newer ones.
type OperationArchived struct {
	ID scheduling.OperationID
}

// TreeChanged says that a pool tree was created, edited or removed: its options, its
// pools, or their names.
type TreeChanged struct {
	Tree    scheduling.TreeName
	Removed bool
	// Former maps the current names of renamed pools to their former names.
	Former map[string]string
}

// NodeChanged says that a node registered, went offline, was drained or undrained, or
// moved to another pool tree.
type NodeChanged struct {
	ID scheduling.NodeID
	// State is statepb.NodeOnline or statepb.NodeOffline.
	State       string
	Incarnation uint64
}

// NodeRemoved says that a node is forgotten. It may register again, as a new one.
type NodeRemoved struct {
	ID scheduling.NodeID
}

// NodeRefused says that a registered node may no longer claim what it does.
type NodeRefused struct {
	ID scheduling.NodeID
	// Reason is a text for people.
	Reason string
}

// ReserveMoved says that the next jobs of a task get another memory reserve.
type ReserveMoved struct {
	ID   scheduling.OperationID
	Task scheduling.TaskName
	// From and To are totals in bytes. Samples is the number of jobs from which the reserve is
	// learned.
	From, To, Samples int64
}

// ProfileSaved says that an operation has saved a memory profile of one of its tasks.
type ProfileSaved struct {
	ID      scheduling.OperationID
	Task    scheduling.TaskName
	Profile *statepb.MemoryProfile
}

// ProfileRemoved says that a memory profile is forgotten.
type ProfileRemoved struct {
	Key string
}

// GangRestarted says that a gang restarts because of a job.
type GangRestarted struct {
	ID   scheduling.OperationID
	Task scheduling.TaskName
	// Incarnation is the number of the incarnation that begins.
	Incarnation int64
	Job         scheduling.JobID
	// Reason is a text for people.
	Reason string
}

// RecordSkipped says that a map operation skips a record on which every job failed.
type RecordSkipped struct {
	ID     scheduling.OperationID
	Task   scheduling.TaskName
	Cookie scheduling.Cookie
	// Path is the path of the input file.
	Path   string
	Record *statepb.SkippedRecord
}

// OutputPublished says that the output of a map operation is at its final path.
type OutputPublished struct {
	ID     scheduling.OperationID
	Output *statepb.Output
}

func (ReserveMoved) event()       {}
func (ProfileSaved) event()       {}
func (ProfileRemoved) event()     {}
func (GangRestarted) event()      {}
func (RecordSkipped) event()      {}
func (OutputPublished) event()    {}
func (TermBegan) event()          {}
func (OperationAccepted) event()  {}
func (OperationChanged) event()   {}
func (ControllerAssigned) event() {}
func (TasksDefined) event()       {}
func (DemandChanged) event()      {}
func (AllocationsStarted) event() {}
func (StopsOrdered) event()       {}
func (AllocationsEnded) event()   {}
func (OperationArchived) event()  {}
func (TreeChanged) event()        {}
func (NodeChanged) event()        {}
func (NodeRemoved) event()        {}
func (NodeRefused) event()        {}

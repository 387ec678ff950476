package state

import (
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// Event is one thing that a command changed. Events are values: what they point
// to never changes.
type Event interface{ event() }

// TermBegan tells that a new leader has fenced off the leaders before it.
type TermBegan struct {
	Term    uint64
	Replica scheduling.ReplicaID
}

// OperationAccepted tells that an operation exists, in state starting.
type OperationAccepted struct {
	ID scheduling.OperationID
}

// OperationChanged tells that an operation went from one state to another, or,
// with From equal to To, that it was suspended or resumed, that what holds for it
// was changed, or that it may run in more of its trees.
type OperationChanged struct {
	ID       scheduling.OperationID
	From, To lifecycle.State
	// Suspended is the flag after the change.
	Suspended bool
	// AbortJobs says that the jobs granted so far are to be aborted: the
	// operation was suspended together with its jobs.
	AbortJobs bool
}

// ControllerAssigned tells that an operation has another controller.
type ControllerAssigned struct {
	ID      scheduling.OperationID
	Replica scheduling.ReplicaID
	Epoch   uint64
}

// TasksDefined tells that the tasks of an operation are known.
type TasksDefined struct {
	ID scheduling.OperationID
}

// DemandChanged tells how many jobs of a group of a task wait for an allocation now, or
// that they need something else.
type DemandChanged struct {
	ID   scheduling.OperationID
	Task scheduling.TaskName
	// Group is the memory, in bytes, of each of those jobs that get a reserve of their own,
	// for they were aborted for overdraft; 0: those that get what the task has learned.
	Group   int64
	Pending int64
}

// AllocationsStarted tells of granted jobs, in the order of the grants.
type AllocationsStarted struct {
	Allocations []*statepb.Allocation
}

// StopsOrdered tells of allocations that their nodes are to end from now on, or later, when their
// orders are held.
type StopsOrdered struct {
	Operation   scheduling.OperationID
	Allocations []*statepb.Allocation
}

// AllocationsEnded tells of jobs of one operation that have ended.
type AllocationsEnded struct {
	Operation scheduling.OperationID
	Ended     []Ended
}

// Ended is an allocation that is no more and what became of its job.
type Ended struct {
	Allocation *statepb.Allocation
	Finished   *statepb.FinishedJob
}

// OperationArchived tells that the record of a finished operation has left the
// state, because newer ones took its place.
type OperationArchived struct {
	ID scheduling.OperationID
}

// TreeChanged tells that a pool tree was created, edited or removed: its options,
// its pools, or the names of these.
type TreeChanged struct {
	Tree    scheduling.TreeName
	Removed bool
	// Former are the former names of pools that were renamed, by their names now.
	Former map[string]string
}

// NodeChanged tells that a node registered, was taken offline, is drained or is
// not any more, or that it is of another pool tree.
type NodeChanged struct {
	ID scheduling.NodeID
	// State is statepb.NodeOnline or statepb.NodeOffline.
	State       string
	Incarnation uint64
}

// NodeRemoved tells that a node is forgotten. It may register again, as a new one.
type NodeRemoved struct {
	ID scheduling.NodeID
}

// ReserveMoved tells that the next jobs of a task get another memory reserve.
type ReserveMoved struct {
	ID   scheduling.OperationID
	Task scheduling.TaskName
	// From and To are bytes in all; Samples is of how many jobs it was learned.
	From, To, Samples int64
}

// ProfileSaved tells that an operation has left what a task of it learned.
type ProfileSaved struct {
	ID      scheduling.OperationID
	Task    scheduling.TaskName
	Profile *statepb.MemoryProfile
}

// ProfileRemoved tells that a memory profile is forgotten.
type ProfileRemoved struct {
	Key string
}

// GangRestarted tells that a gang begins anew because of a job.
type GangRestarted struct {
	ID   scheduling.OperationID
	Task scheduling.TaskName
	// Incarnation is the one that begins.
	Incarnation int64
	Job         scheduling.JobID
	// Reason is for people.
	Reason string
}

// RecordSkipped tells that a map operation leaves out a record that no job survived.
type RecordSkipped struct {
	ID     scheduling.OperationID
	Task   scheduling.TaskName
	Cookie scheduling.Cookie
	// Path is that of the input.
	Path   string
	Record *statepb.SkippedRecord
}

// OutputPublished tells that the output of a map operation is where it is to be.
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

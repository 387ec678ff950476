package state

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
)

// change is one command on its way.
type change struct {
	*State
	index uint64
	// now is the time of the command, and never before that of an earlier one.
	now    time.Time
	result *commandpb.Result
	events []Event
	// demands are the tasks whose number of pending jobs has changed, touched the
	// same as a set.
	demands []demand
	touched map[demand]bool
	// kept counts the records of jobs that were added to operations.
	kept map[*operation]int
	// charged are the trees whose record is this command's own.
	charged map[*tree]bool
	// consequences are what the ends of jobs have led to, told after these.
	consequences []Event
	// gangs are those whose jobs have to go because of the command.
	gangs []gangEvent
}

// A command changes one kind of record first. Each kind has a type of its own for it; what
// several of them need is a method of change.
type (
	// treeChange changes pool trees, pools, and the places that operations have in them.
	treeChange struct{ *change }
	// jobChange grants, ends, stops and preempts jobs.
	jobChange struct{ *change }
	// nodeChange changes nodes, whose jobs it may end.
	nodeChange struct{ jobChange }
	// operationChange changes operations, which have places in trees.
	operationChange struct{ treeChange }
	// memoryChange changes what is known of the memory that jobs need.
	memoryChange struct{ *change }
)

// timed is what commands with a time have.
type timed interface {
	GetTime() *timestamppb.Timestamp
}

// apply checks the command's time and passes it to its handler. A handler
// checks everything before it changes anything.
func (c *change) apply(msg proto.Message) *refusal {
	if t, ok := msg.(timed); ok {
		if err := c.setTime(t.GetTime()); err != nil {
			return err
		}
	}
	switch m := msg.(type) {
	case *commandpb.BeginTerm:
		return c.beginTerm(m)
	case *commandpb.StartOperation:
		return operationChange{treeChange{c}}.startOperation(m)
	case *commandpb.AdvanceOperation:
		return operationChange{treeChange{c}}.advanceOperation(m)
	case *commandpb.SetPendingReason:
		return operationChange{treeChange{c}}.setPendingReason(m)
	case *commandpb.AssignController:
		return operationChange{treeChange{c}}.assignController(m)
	case *commandpb.PrepareOperation:
		return operationChange{treeChange{c}}.prepareOperation(m)
	case *commandpb.DefineTasks:
		return operationChange{treeChange{c}}.defineTasks(m)
	case *commandpb.StartAllocations:
		return jobChange{c}.startAllocations(m)
	case *commandpb.FinishJobs:
		return jobChange{c}.finishJobs(m)
	case *commandpb.AbortAllocations:
		return jobChange{c}.abortAllocations(m)
	case *commandpb.StopJobs:
		return jobChange{c}.stopJobs(m)
	case *commandpb.PreemptAllocations:
		return jobChange{c}.preemptAllocations(m)
	case *commandpb.HandOver:
		return jobChange{c}.handOver(m)
	case *commandpb.SuspendOperation:
		return operationChange{treeChange{c}}.suspendOperation(m)
	case *commandpb.ResumeOperation:
		return operationChange{treeChange{c}}.resumeOperation(m)
	case *commandpb.AbortOperation:
		return operationChange{treeChange{c}}.abortOperation(m)
	case *commandpb.CompleteOperation:
		return operationChange{treeChange{c}}.completeOperation(m)
	case *commandpb.RegisterNode:
		return nodeChange{jobChange{c}}.registerNode(m)
	case *commandpb.SetNodeOffline:
		return nodeChange{jobChange{c}}.setNodeOffline(m)
	case *commandpb.DrainNode:
		return nodeChange{jobChange{c}}.drainNode(m)
	case *commandpb.UndrainNode:
		return nodeChange{jobChange{c}}.undrainNode(m)
	case *commandpb.RemoveNode:
		return nodeChange{jobChange{c}}.removeNode(m)
	}
	return c.applyToResults(msg)
}

// applyToResults is apply for what controllers learn and publish.
func (c *change) applyToResults(msg proto.Message) *refusal {
	switch m := msg.(type) {
	case *commandpb.UpdateReserves:
		return memoryChange{c}.updateReserves(m)
	case *commandpb.SaveMemoryProfiles:
		return memoryChange{c}.saveMemoryProfiles(m)
	case *commandpb.RemoveMemoryProfiles:
		return memoryChange{c}.removeMemoryProfiles(m)
	case *commandpb.PublishOutput:
		return operationChange{treeChange{c}}.publishOutput(m)
	}
	return c.applyToTrees(msg)
}

// applyToTrees is apply for the commands about pool trees and what is in them.
func (c *change) applyToTrees(msg proto.Message) *refusal {
	switch m := msg.(type) {
	case *commandpb.EditTree:
		return treeChange{c}.editTree(m)
	case *commandpb.CreateTree:
		return treeChange{c}.createTree(m)
	case *commandpb.RemoveTree:
		return treeChange{c}.removeTree(m)
	case *commandpb.SetDefaultTree:
		return treeChange{c}.setDefaultTree(m)
	case *commandpb.CheckpointVolumes:
		return treeChange{c}.checkpointVolumes(m)
	case *commandpb.UpdateOperation:
		return operationChange{treeChange{c}}.updateOperation(m)
	case *commandpb.AdmitOperation:
		return treeChange{c}.admitOperation(m)
	}
	panic(fmt.Sprintf("apply %T at index %d: no such command in this version: start one that knows it", msg, c.index))
}

// setTime takes over the time of the command. A clock that goes back, after a
// change of leader for instance, stands still instead.
func (c *change) setTime(t *timestamppb.Timestamp) *refusal {
	if t == nil {
		return nil
	}
	if err := t.CheckValid(); err != nil {
		return refuse(CodeInvalidCommand, "time of the command: %v", err)
	}
	if at := t.AsTime(); at.After(c.now) {
		c.now = at
	}
	return nil
}

// timestamp returns the time of the command for a record.
func (c *change) timestamp() *timestamppb.Timestamp { return timestamppb.New(c.now) }

// emit adds to what the command changed.
func (c *change) emit(e Event) { c.events = append(c.events, e) }

// tellConsequences tells what the ends of jobs, which have been told, have led to.
func (c *change) tellConsequences() {
	c.events = append(c.events, c.consequences...)
	c.consequences = nil
}

// fence refuses commands of any but the leader of the term that began last.
func (c *change) fence(what string, term uint64) *refusal {
	if last := c.term.GetTerm(); term != last {
		return refuse(CodeStaleTerm, "%s: proposed in term %d, but term %d of replica %q is the last that began: ask its leader",
			what, term, last, c.term.GetReplica())
	}
	return nil
}

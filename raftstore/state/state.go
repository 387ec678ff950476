package state

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// Format is the format of the records that a Frozen yields.
const Format = 2

// State is the replicated state. One writer calls Apply and Freeze; between its
// calls any number of readers may call the rest.
type State struct {
	lastIndex uint64
	lastTime  time.Time
	term      *statepb.Term
	clusterID string
	limits    *statepb.Limits
	// generation grows with each Freeze; what was made in an older one may be
	// part of a Frozen.
	generation uint64

	trees map[scheduling.TreeName]*tree
	// defaultTree is the tree of operations that name none.
	defaultTree scheduling.TreeName
	// lastPool is the id that a pool was given last.
	lastPool scheduling.PoolID
	nodes    map[scheduling.NodeID]*node

	operations map[scheduling.OperationID]*operation
	// order is the operations by acceptance.
	order []*operation
	// accepted numbers operations in the order of their acceptance.
	accepted   uint64
	inProgress int
	// aliases names the latest operation with each alias.
	aliases   map[string]scheduling.OperationID
	mutations map[mutation]scheduling.OperationID
	// archive is the operations that have ended, in the order of their end. It
	// grows at the end and shrinks at the front, so a Frozen may share it.
	archive []string

	allocations map[scheduling.JobID]*statepb.Allocation
	// profiles are what operations that have ended needed, by key.
	profiles map[string]*statepb.MemoryProfile
	// claims and rates are what each new leader goes on from.
	claims claims
	rates  rates
}

// mutation names an attempt of a user to start an operation.
type mutation struct {
	user scheduling.User
	id   string
}

// New returns the state before the first command: the pool tree
// scheduling.DefaultTree with the pool scheduling.DefaultPool, and nothing else.
func New() *State {
	s := empty()
	s.lastPool = 1
	t, err := newTree(scheduling.DefaultTree, pooltree.Default(), s.lastPool)
	if err != nil {
		panic(fmt.Sprintf("new state: the default pool tree is not valid: %v", err))
	}
	s.trees[scheduling.DefaultTree] = t
	s.defaultTree = scheduling.DefaultTree
	return s
}

func empty() *State {
	return &State{
		term:        &statepb.Term{},
		limits:      DefaultLimits(),
		trees:       make(map[scheduling.TreeName]*tree),
		nodes:       make(map[scheduling.NodeID]*node),
		operations:  make(map[scheduling.OperationID]*operation),
		aliases:     make(map[string]scheduling.OperationID),
		mutations:   make(map[mutation]scheduling.OperationID),
		allocations: make(map[scheduling.JobID]*statepb.Allocation),
		profiles:    make(map[string]*statepb.MemoryProfile),
		claims:      newClaims(),
		rates:       make(rates),
	}
}

// Apply carries out a command of the log entry at index and returns its result
// and what it changed, in order. A refused command changes nothing but
// LastIndex. The commands of one entry are applied one by one, with the same
// index.
//
// The state keeps parts of msg: neither side may change it afterwards. Apply
// panics when msg is no command, or index is less than that of a command before:
// the replica would no longer be like the others.
func (s *State) Apply(index uint64, msg proto.Message) (*commandpb.Result, []Event) {
	if index < s.lastIndex {
		panic(fmt.Sprintf("apply %T at index %d: index %d has been applied already", msg, index, s.lastIndex))
	}
	s.lastIndex = index
	result := &commandpb.Result{Index: index}
	c := &change{State: s, index: index, now: s.lastTime, result: result}
	if refused := c.apply(msg); refused != nil {
		return &commandpb.Result{Index: index, Refusal: refused.record()}, nil
	}
	c.settleClaims()
	c.settleRates()
	c.trimKept()
	s.lastTime = c.now
	return result, c.events
}

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
		return c.startOperation(m)
	case *commandpb.AdvanceOperation:
		return c.advanceOperation(m)
	case *commandpb.SetPendingReason:
		return c.setPendingReason(m)
	case *commandpb.AssignController:
		return c.assignController(m)
	case *commandpb.PrepareOperation:
		return c.prepareOperation(m)
	case *commandpb.DefineTasks:
		return c.defineTasks(m)
	case *commandpb.StartAllocations:
		return c.startAllocations(m)
	case *commandpb.FinishJobs:
		return c.finishJobs(m)
	case *commandpb.AbortAllocations:
		return c.abortAllocations(m)
	case *commandpb.StopJobs:
		return c.stopJobs(m)
	case *commandpb.PreemptAllocations:
		return c.preemptAllocations(m)
	case *commandpb.HandOver:
		return c.handOver(m)
	case *commandpb.SuspendOperation:
		return c.suspendOperation(m)
	case *commandpb.ResumeOperation:
		return c.resumeOperation(m)
	case *commandpb.AbortOperation:
		return c.abortOperation(m)
	case *commandpb.CompleteOperation:
		return c.completeOperation(m)
	case *commandpb.RegisterNode:
		return c.registerNode(m)
	case *commandpb.SetNodeOffline:
		return c.setNodeOffline(m)
	case *commandpb.DrainNode:
		return c.drainNode(m)
	case *commandpb.UndrainNode:
		return c.undrainNode(m)
	case *commandpb.RemoveNode:
		return c.removeNode(m)
	}
	return c.applyToResults(msg)
}

// applyToResults is apply for what controllers learn and publish.
func (c *change) applyToResults(msg proto.Message) *refusal {
	switch m := msg.(type) {
	case *commandpb.UpdateReserves:
		return c.updateReserves(m)
	case *commandpb.SaveMemoryProfiles:
		return c.saveMemoryProfiles(m)
	case *commandpb.RemoveMemoryProfiles:
		return c.removeMemoryProfiles(m)
	case *commandpb.PublishOutput:
		return c.publishOutput(m)
	}
	return c.applyToTrees(msg)
}

// applyToTrees is apply for the commands about pool trees and what is in them.
func (c *change) applyToTrees(msg proto.Message) *refusal {
	switch m := msg.(type) {
	case *commandpb.EditTree:
		return c.editTree(m)
	case *commandpb.CreateTree:
		return c.createTree(m)
	case *commandpb.RemoveTree:
		return c.removeTree(m)
	case *commandpb.SetDefaultTree:
		return c.setDefaultTree(m)
	case *commandpb.CheckpointVolumes:
		return c.checkpointVolumes(m)
	case *commandpb.UpdateOperation:
		return c.updateOperation(m)
	case *commandpb.AdmitOperation:
		return c.admitOperation(m)
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

package raftstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// Tally counts events in the log entries that this replica has applied since it was
// opened. Entries covered by the snapshot that it started from are not counted.
type Tally struct {
	// Jobs counts attempts that ended.
	Jobs map[JobEnd]uint64
	// Operations counts operations that ended, by state.
	Operations map[string]uint64
	// Preemptions counts jobs ordered to stop for others.
	Preemptions map[Preemption]uint64
	// Interruptions counts jobs that ended after they were asked to leave.
	Interruptions map[Interruption]uint64
	// Overruns counts the interrupted jobs that ended long after their deadline.
	Overruns uint64
	// Refusals counts refused commands and refused parts of commands, including late, duplicate and
	// forged reports.
	Refusals map[Refusal]uint64
	// Breaches counts operations whose counters do not add up when they end.
	Breaches uint64
	// Samples counts jobs that ended with a sample of their memory use.
	Samples uint64
	// GangRestarts counts restarts of gangs that had lost a job.
	GangRestarts uint64
	// Data is the input and output of completed jobs of map operations.
	Data DataTally
}

// DataTally counts rows and bytes. SkippedRows counts records on which every job failed.
type DataTally struct{ ReadRows, ReadBytes, WrittenRows, WrittenBytes, SkippedRows uint64 }

// JobEnd is how an attempt ended.
type JobEnd struct {
	// State is completed, failed or aborted; Reason is why it was aborted.
	State, Reason string
}

// Preemption is a kind of preemption in one pool of a tree. Pool is EphemeralPools for all pools
// that are created for a user's operations.
type Preemption struct{ Tree, Pool, Kind string }

// EphemeralPools stands for all ephemeral pools. Counting each of them separately would need
// unbounded memory.
const EphemeralPools = "<ephemeral>"

// Interruption is the outcome of a job that was asked to leave.
type Interruption struct {
	// Reason is why it was asked to leave: preemption, user_request, node_drain or
	// operation_abort.
	Reason string
	// Outcome is completed, rerun, failed, acknowledged, timeout, or lost if it ended for
	// another reason.
	Outcome string
}

// overrun is how long after its deadline a job that was asked to leave may end without counting as
// an overrun. It allows for the time in which processes die and results arrive, and for differences
// between clocks.
const overrun = 5 * time.Second

// Refusal is a kind of command and the code with which it was refused.
type Refusal struct {
	// Command is the command's name, such as FinishJobs; Code is one of package
	// state.
	Command, Code string
}

func newTally() Tally {
	return Tally{
		Jobs: map[JobEnd]uint64{}, Operations: map[string]uint64{}, Refusals: map[Refusal]uint64{},
		Preemptions: map[Preemption]uint64{}, Interruptions: map[Interruption]uint64{},
	}
}

func (t Tally) clone() Tally {
	t.Jobs, t.Operations, t.Refusals = maps.Clone(t.Jobs), maps.Clone(t.Operations), maps.Clone(t.Refusals)
	t.Preemptions, t.Interruptions = maps.Clone(t.Preemptions), maps.Clone(t.Interruptions)
	return t
}

// count adds the effects of a command. The parameter s is the state that the command has left.
func (t *Tally) count(msg proto.Message, result *commandpb.Result, events []state.Event, s *state.State) {
	t.refused(msg, result.GetRefusal().GetCode())
	for _, grant := range result.GetStartAllocations().GetGrants() {
		t.refused(msg, grant.GetRefusal())
	}
	for _, job := range result.GetFinishJobs().GetJobs() {
		t.refused(msg, job.GetRefusal())
	}
	for _, event := range events {
		switch e := event.(type) {
		case state.AllocationsEnded:
			for _, ended := range e.Ended {
				t.Jobs[JobEnd{ended.Finished.GetState(), ended.Finished.GetAbortReason()}]++
				t.left(ended.Finished)
				t.taught(ended.Finished)
			}
		case state.StopsOrdered:
			if preempt, ok := msg.(*commandpb.PreemptAllocations); ok {
				t.preempted(preempt, e.Allocations, s)
			}
		case state.GangRestarted:
			t.GangRestarts++
		case state.RecordSkipped:
			t.Data.SkippedRows++
		case state.OperationChanged:
			if e.From != e.To && e.To.Terminal() {
				t.Operations[e.To.String()]++
			}
		}
	}
}

// taught counts the memory sample, rows and bytes of a job that has ended.
func (t *Tally) taught(job *statepb.FinishedJob) {
	if job.GetSample() != nil {
		t.Samples++
	}
	if job.GetState() != lifecycle.JobCompleted.String() || job.GetRerun() {
		return
	}
	t.Data.ReadRows += uint64(max(job.GetInput().GetRows(), 0))
	t.Data.ReadBytes += uint64(max(job.GetInput().GetBytes(), 0))
	t.Data.WrittenRows += uint64(max(job.GetOutput().GetRows(), 0))
	t.Data.WrittenBytes += uint64(max(job.GetOutput().GetBytes(), 0))
}

// preempted counts the jobs that a preemption has ordered to stop.
func (t *Tally) preempted(msg *commandpb.PreemptAllocations, ordered []*statepb.Allocation, s *state.State) {
	tree, _ := s.Tree(scheduling.TreeName(msg.GetTree()))
	kinds := make(map[string]string, len(msg.GetPreemptions()))
	for _, p := range msg.GetPreemptions() {
		kinds[p.GetJobId()] = p.GetOrder().GetPreemption()
	}
	for _, a := range ordered {
		t.Preemptions[Preemption{msg.GetTree(), countedAs(tree, a.GetPool()), kinds[a.GetJobId()]}]++
	}
}

// countedAs returns the name under which a pool of a tree is counted.
func countedAs(tree *statepb.PoolTree, pool string) string {
	i, found := slices.BinarySearchFunc(tree.GetPools(), pool, func(p *statepb.Pool, name string) int { return cmp.Compare(p.GetName(), name) })
	if found && tree.GetPools()[i].GetEphemeralUser() != "" {
		return EphemeralPools
	}
	return pool
}

// left counts a job that ended after it was asked to leave.
func (t *Tally) left(job *statepb.FinishedJob) {
	order := job.GetStop()
	if !order.Interrupted() {
		return
	}
	outcome := "lost"
	switch {
	case job.GetRerun():
		outcome = "rerun"
	case job.GetAcknowledged():
		outcome = "acknowledged"
	case job.GetState() != lifecycle.JobAborted.String():
		outcome = job.GetState()
	case job.GetAbortReason() == order.GetReason():
		outcome = "timeout"
	}
	t.Interruptions[Interruption{order.GetInterruption(), outcome}]++
	if job.GetFinishTime().AsTime().After(order.Deadline().Add(overrun)) {
		t.Overruns++
	}
}

func (t *Tally) refused(msg proto.Message, code string) {
	if code != "" {
		t.Refusals[Refusal{string(msg.ProtoReflect().Descriptor().Name()), code}]++
	}
}

// audit checks the counters of operations that are about to end, when their full record is still in
// the state, and of those that have just ended. m.mu is held.
func (m *machine) audit(events []state.Event) {
	for _, event := range events {
		e, ok := event.(state.OperationChanged)
		if !ok || e.From == e.To || !e.To.Terminal() && !e.To.Finishing() {
			continue
		}
		if err := m.state.VerifyOperation(e.ID); err != nil {
			m.tally.Breaches++
			m.log.Error("job counters inconsistent; keep the replica's folder and report this", "operation", e.ID, "error", err)
		}
	}
}

package raftstore

import (
	"maps"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/raftstore/state"
)

// Tally is what this replica has seen happen in the log since it was opened.
// Entries behind the snapshot that it started from are not in it.
type Tally struct {
	// Jobs counts attempts that ended.
	Jobs map[JobEnd]uint64
	// Operations counts operations that ended, by state.
	Operations map[string]uint64
	// Refusals counts commands, and parts of commands, that were not carried out:
	// late, duplicate and forged reports among them.
	Refusals map[Refusal]uint64
	// Breaches counts operations that ended with counters that do not add up.
	Breaches uint64
}

// JobEnd is how an attempt ended.
type JobEnd struct {
	// State is completed, failed or aborted; Reason is why it was aborted.
	State, Reason string
}

// Refusal is what was refused and why.
type Refusal struct {
	// Command is the command's name, such as FinishJobs; Code is one of package
	// state.
	Command, Code string
}

func newTally() Tally {
	return Tally{Jobs: map[JobEnd]uint64{}, Operations: map[string]uint64{}, Refusals: map[Refusal]uint64{}}
}

func (t Tally) clone() Tally {
	t.Jobs, t.Operations, t.Refusals = maps.Clone(t.Jobs), maps.Clone(t.Operations), maps.Clone(t.Refusals)
	return t
}

// count takes over what a command led to.
func (t *Tally) count(msg proto.Message, result *commandpb.Result, events []state.Event) {
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
			}
		case state.OperationChanged:
			if e.From != e.To && e.To.Terminal() {
				t.Operations[e.To.String()]++
			}
		}
	}
}

func (t *Tally) refused(msg proto.Message, code string) {
	if code != "" {
		t.Refusals[Refusal{string(msg.ProtoReflect().Descriptor().Name()), code}]++
	}
}

// audit checks the counters of operations that have just ended. m.mu is held.
func (m *machine) audit(events []state.Event) {
	for _, event := range events {
		e, ok := event.(state.OperationChanged)
		if !ok || e.From == e.To || !e.To.Terminal() {
			continue
		}
		if err := m.state.VerifyOperation(e.ID); err != nil {
			m.tally.Breaches++
			m.log.Error("counters do not add up; keep the replica's folder and report this", "operation", e.ID, "error", err)
		}
	}
}

package state

import (
	"fmt"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// leaderSteps are the states that AdvanceOperation can set. Other commands set the
// remaining ones, together with their cause.
var leaderSteps = map[lifecycle.State]bool{
	lifecycle.WaitingForAgent: true,
	lifecycle.Materializing:   true,
	lifecycle.Aborting:        true,
	lifecycle.Failing:         true,
	lifecycle.Completed:       true,
	lifecycle.Aborted:         true,
	lifecycle.Failed:          true,
}

// advanceOperation makes a transition of an operation that the leader decides.
func (c operationChange) advanceOperation(m *commandpb.AdvanceOperation) *refusal {
	what := fmt.Sprintf("advance operation %q to %q", m.GetOperationId(), m.GetTo())
	if err := c.fence(what, m.GetTerm()); err != nil {
		return err
	}
	to, err := lifecycle.ParseState(m.GetTo())
	if err != nil {
		return refuse(CodeInvalidCommand, "%s: %v", what, err)
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	switch {
	case m.GetFrom() != o.record.GetState():
		return refuse(CodeInvalidOperationState, "%s: it is %s, not %q: read its state again", what, o.state, m.GetFrom())
	case !lifecycle.CanGo(o.state, to):
		return refuse(CodeInvalidOperationState, "%s: it is %s, and there is no such transition", what, o.state)
	case !leaderSteps[to]:
		return refuse(CodeInvalidCommand, "%s: only the command that reports the event makes this transition", what)
	case to == lifecycle.Failing && m.GetResult() == nil:
		return refuse(CodeInvalidCommand, "%s: the result, which says why, is missing", what)
	case to == lifecycle.Completed && o.reads() && o.record.GetOutput() == nil:
		return refuse(CodeOutputNotPublished, "%s: its controller has not published the output yet", what)
	case to.Terminal() && len(o.allocations) > 0:
		return refuse(CodeAllocationsLeft, "%s: it has %d allocations: end them first", what, len(o.allocations))
	}
	before := o.record.GetTrees()
	if to == lifecycle.Materializing {
		if refused := c.admitTrees(what, o, treesOr(m.GetTrees(), before)); refused != nil {
			return refused
		}
	}
	c.edit(o)
	if m.GetResult() != nil && to.Finishing() {
		o.record.Result = cutError(c.limits, m.GetResult(), bounds.Result)
	}
	c.advanceFrom(o, before, to, m.GetNote(), nil)
	return nil
}

// treesOr returns names, or the names of all trees if names is empty.
func treesOr(names []string, trees []*statepb.OperationTree) []string {
	if len(names) > 0 {
		return names
	}
	all := make([]string, len(trees))
	for i, t := range trees {
		all[i] = t.GetTree()
	}
	return all
}

// assignController assigns operations to replicas: all that the command names, or none.
func (c operationChange) assignController(m *commandpb.AssignController) *refusal {
	const what = "assign controller"
	named := make(map[string]bool, len(m.GetAssignments()))
	for _, a := range m.GetAssignments() {
		o, refused := c.find(what, a.GetOperationId())
		if refused != nil {
			return refused
		}
		switch {
		case named[a.GetOperationId()]:
			return refuse(CodeInvalidCommand, "%s: operation %q is named twice", what, a.GetOperationId())
		case a.GetReplica() == "":
			return refuse(CodeInvalidCommand, "%s: operation %q: no replica is named", what, a.GetOperationId())
		case !o.state.InProgress():
			return refuse(CodeInvalidOperationState, "%s: operation %q is %s and needs no controller", what, a.GetOperationId(), o.state)
		case a.GetEpoch() <= o.record.GetAssignment().GetEpoch():
			return refuse(CodeStaleEpoch, "%s: operation %q: epoch %d is not greater than the current one, %d of replica %q", what,
				a.GetOperationId(), a.GetEpoch(), o.record.GetAssignment().GetEpoch(), o.record.GetAssignment().GetReplica())
		}
		named[a.GetOperationId()] = true
	}
	for _, a := range m.GetAssignments() {
		c.assign(c.operations[scheduling.OperationID(a.GetOperationId())], a)
	}
	return nil
}

// assign assigns one operation to a replica. If the operation was waiting for a
// controller, it advances to initializing.
func (c operationChange) assign(o *operation, a *commandpb.ControllerAssignment) {
	c.edit(o)
	o.record.Assignment = &statepb.Assignment{Replica: a.GetReplica(), Epoch: a.GetEpoch()}
	attributes := map[string]string{"replica": a.GetReplica(), "epoch": fmt.Sprint(a.GetEpoch())}
	c.emit(ControllerAssigned{ID: o.id(), Replica: scheduling.ReplicaID(a.GetReplica()), Epoch: a.GetEpoch()})
	if o.state == lifecycle.WaitingForAgent {
		c.advance(o, lifecycle.Initializing, NoteControllerAssigned, attributes)
		return
	}
	c.note(o, NoteControllerAssigned, attributes)
}

// Package operation moves an operation through its states, on the leader.
//
// One actor per operation checks the operation's committed record after every change, and proposes
// the next step: to assign a controller, to fail the operation at its time limit, or to set its
// final state. Decisions of pools (pending to materializing) and of controllers are not made here.
package operation

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// View is the input of an operation's next step.
type View struct {
	// Operation is the committed record.
	Operation *statepb.Operation
	// Allocations is the number of allocations that have not ended.
	Allocations int
	// ControllerGone is the time since which the operation's replica has been gone; zero if it is
	// alive.
	ControllerGone time.Time
	// Term is the leader's term.
	Term uint64
}

// Chooser returns the replica that should control an operation; ok is false while no replica is
// alive.
type Chooser func(operationID string) (replica string, ok bool)

// Next returns the next step of an operation (J.4).
//
// An operation whose replica has been gone for reassignAfter is assigned to another replica. An
// operation past its time limit fails. A finishing operation ends when its last allocation has
// ended; a map operation completes when its controller has published its output.
func Next(now time.Time, view View, choose Chooser, reassignAfter time.Duration) reconcile.Step {
	op := view.Operation
	state, err := lifecycle.ParseState(op.GetState())
	if err != nil || state.Terminal() {
		return reconcile.Step{}
	}
	if state.Finishing() && !publishes(op, state) {
		if view.Allocations > 0 {
			// Its controller still processes the results of its jobs.
			return control(now, view, state, choose, reassignAfter)
		}
		return finish(view, state)
	}
	if deadline, ok := deadline(op); ok && !now.Before(deadline) {
		return reconcile.Step{Propose: []proto.Message{timeLimit(view, state)}}
	}
	step := control(now, view, state, choose, reassignAfter)
	if deadline, ok := deadline(op); ok && (step.Again.IsZero() || deadline.Before(step.Again)) {
		step.Again = deadline
	}
	return step
}

// publishes reports whether the operation waits for its controller to publish its output.
func publishes(op *statepb.Operation, state lifecycle.State) bool {
	return state == lifecycle.Completing && op.GetSpec().GetType() == lifecycle.Map && op.GetOutput() == nil
}

// finish moves a finishing operation without remaining jobs to its final state.
func finish(view View, state lifecycle.State) reconcile.Step {
	last := map[lifecycle.State]lifecycle.State{
		lifecycle.Completing: lifecycle.Completed,
		lifecycle.Aborting:   lifecycle.Aborted,
		lifecycle.Failing:    lifecycle.Failed,
	}[state]
	return reconcile.Step{Propose: []proto.Message{advance(view, state, last)}}
}

// control assigns a controller to the operation, or another one when its replica is gone.
func control(now time.Time, view View, state lifecycle.State, choose Chooser, reassignAfter time.Duration) reconcile.Step {
	switch {
	case state == lifecycle.Starting:
		begin := advance(view, state, lifecycle.WaitingForAgent)
		return reconcile.Step{Propose: append([]proto.Message{begin}, assignment(view, choose, "")...)}
	case state == lifecycle.WaitingForAgent:
		return reconcile.Step{Propose: assignment(view, choose, "")}
	case view.ControllerGone.IsZero():
		return reconcile.Step{}
	case now.Before(view.ControllerGone.Add(reassignAfter)):
		return reconcile.Step{Again: view.ControllerGone.Add(reassignAfter)}
	}
	return reconcile.Step{Propose: assignment(view, choose, view.Operation.GetAssignment().GetReplica())}
}

// assignment returns the command that assigns a controller; none if no replica is alive, or if the
// chosen replica is the one that is gone.
func assignment(view View, choose Chooser, gone string) []proto.Message {
	op := view.Operation
	replica, ok := choose(op.GetId())
	if !ok || replica == gone {
		return nil
	}
	return []proto.Message{&commandpb.AssignController{
		Term: view.Term,
		Assignments: []*commandpb.ControllerAssignment{{
			OperationId: op.GetId(),
			Replica:     replica,
			Epoch:       op.GetAssignment().GetEpoch() + 1,
		}},
	}}
}

func timeLimit(view View, state lifecycle.State) proto.Message {
	msg := advance(view, state, lifecycle.Failing)
	msg.Result = &statepb.Error{
		Code:    int32(lifecycle.CodeTimeLimitExceeded),
		Message: fmt.Sprintf("operation exceeded its time_limit of %s", view.Operation.GetSpec().GetTimeLimit().AsDuration()),
	}
	return msg
}

func advance(view View, from, to lifecycle.State) *commandpb.AdvanceOperation {
	return &commandpb.AdvanceOperation{
		OperationId: view.Operation.GetId(),
		Term:        view.Term,
		From:        from.String(),
		To:          to.String(),
	}
}

// deadline returns when the operation reaches its time limit; ok is false if it has none.
func deadline(op *statepb.Operation) (at time.Time, ok bool) {
	limit := op.GetSpec().GetTimeLimit().AsDuration()
	if limit <= 0 {
		return time.Time{}, false
	}
	return op.GetStartTime().AsTime().Add(limit), true
}

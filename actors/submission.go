package actors

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/controller"
	"weir/actors/operation"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/command"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// door takes the commands of this and other replicas to the log, at the replica that leads.
type door struct{ *Replica }

// carryOut commits commands of this or another replica. The first steps of an operation share the entry of its
// start, instead of each waiting for the commit of the one before.
func (r door) carryOut(ctx context.Context, commands []*commandpb.Command) ([]*commandpb.Result, error) {
	steps := r.firstSteps(commands)
	results, err := r.commit(ctx, append(commands[:len(commands):len(commands)], steps...)...)
	if len(steps) > 0 && errors.Is(err, raftstore.ErrTooLarge) {
		results, err = r.commit(ctx, commands...)
	}
	return results[:min(len(commands), len(results))], err
}

// firstSteps returns what the actors of an operation would propose once it has started, if the only command is its
// start and this replica leads. Each step is checked when it is applied, as if it came later: one that is refused,
// since the start is or another leader has begun, leaves the operation to its actors.
func (r door) firstSteps(commands []*commandpb.Command) []*commandpb.Command {
	if len(commands) != 1 || command.Kind(commands[0].GetKind()) != command.StartOperation || r.leader.Load() == nil {
		return nil
	}
	msg, err := command.Decode(commands[0])
	if err != nil {
		// Committing the command reports the error.
		return nil
	}
	start := msg.(*commandpb.StartOperation)
	var term uint64
	known := false
	r.store.View(func(s *state.State) {
		term = s.Term().GetTerm()
		_, known = s.Operation(scheduling.OperationID(start.GetOperationId()))
	})
	if known {
		return nil
	}
	steps, err := encode(r.stepsOf(start, term))
	if err != nil {
		return nil
	}
	return steps
}

func (r door) stepsOf(start *commandpb.StartOperation, term uint64) []proto.Message {
	now := r.cfg.Clock.Now()
	op := &statepb.Operation{
		Id: start.GetOperationId(), User: start.GetUser(), Spec: start.GetSpec(), State: lifecycle.Starting.String(), StartTime: timestamppb.New(now),
	}
	steps := operation.Next(now, operation.View{Operation: op, Term: term}, r.liveness.Choose, r.cfg.Timing.ReassignAfter).Propose
	for _, step := range steps {
		assign, ok := step.(*commandpb.AssignController)
		if !ok {
			continue
		}
		given := assign.GetAssignments()[0]
		op.State, op.Assignment = lifecycle.Initializing.String(), &statepb.Assignment{Replica: given.GetReplica(), Epoch: given.GetEpoch()}
		if prepare := controller.Prepared(op, r.records, r.cfg.Logger); prepare != nil {
			return append(steps, prepare)
		}
	}
	return steps
}

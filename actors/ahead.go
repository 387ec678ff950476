package actors

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/controller"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/command"
	"weir/raftstore/state"
	"weir/scheduling"
)

// commit has commands committed by this replica, which leads. Jobs that they tell to leave are
// told of ahead, as advice, so that who sends them requests need not wait for the commit; what
// does not come to pass is taken back.
func (r *Replica) commit(ctx context.Context, commands ...*commandpb.Command) ([]*commandpb.Result, error) {
	ahead := r.ahead(time.Now(), commands)
	for _, signal := range ahead {
		r.Interrupt(signal)
	}
	results, err := r.store.Propose(ctx, commands...)
	if len(ahead) == 0 || errors.Is(err, ErrOutcomeUnknown) {
		return results, err
	}
	for _, signal := range r.unfounded(ahead) {
		r.Interrupt(signal)
	}
	return results, err
}

// ahead returns what is told of jobs before the commands are committed that tell them to leave.
func (r *Replica) ahead(now time.Time, commands []*commandpb.Command) (signals []*actorpb.InterruptionSignal) {
	for _, c := range commands {
		switch command.Kind(c.GetKind()) {
		case command.PreemptAllocations, command.StopJobs, command.DrainNode, command.HandOver:
		default:
			continue
		}
		msg, err := command.Decode(c)
		if err != nil {
			// Whoever carries it out says so.
			continue
		}
		r.store.View(func(s *state.State) {
			for _, a := range s.Ahead(now, msg) {
				if op, ok := s.Operation(scheduling.OperationID(a.GetOperationId())); ok {
					signal := controller.Signal(now, op, a)
					signal.Proposed = true
					signals = append(signals, signal)
				}
			}
		})
	}
	return signals
}

// unfounded returns what takes signals back whose jobs may stay.
func (r *Replica) unfounded(ahead []*actorpb.InterruptionSignal) (signals []*actorpb.InterruptionSignal) {
	r.store.View(func(s *state.State) {
		for _, signal := range ahead {
			a, ok := s.Allocation(scheduling.JobID(signal.GetJobId()))
			if !ok || leaves(s, a) {
				continue
			}
			signal = proto.CloneOf(signal)
			signal.Proposed, signal.Withdrawn = false, true
			signals = append(signals, signal)
		}
	})
	return signals
}

// leaves reports whether a job has an order that it is told of.
func leaves(s *state.State, a *statepb.Allocation) bool {
	op, ok := s.Operation(scheduling.OperationID(a.GetOperationId()))
	return !ok || op.StopOrderFor(a) != nil
}

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

// commit commits commands while this replica leads. Jobs that the commands order to leave are
// announced before the commit, so that clients stop sending requests to the jobs without waiting
// for the commit. If the commit leaves a job without such an order, its announcement is withdrawn.
func (r *Replica) commit(ctx context.Context, commands ...*commandpb.Command) ([]*commandpb.Result, error) {
	ahead := r.ahead(r.cfg.Clock.Now(), commands)
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

// ahead returns the signals for the jobs that commands order to leave, to be sent before the
// commands are committed.
func (r *Replica) ahead(now time.Time, commands []*commandpb.Command) (signals []*actorpb.InterruptionSignal) {
	for _, c := range commands {
		switch command.Kind(c.GetKind()) {
		case command.PreemptAllocations, command.StopJobs, command.DrainNode, command.HandOver:
		default:
			continue
		}
		msg, err := command.Decode(c)
		if err != nil {
			// Applying the command reports the error.
			continue
		}
		r.store.View(func(s *state.State) {
			if by := c.GetSubject(); by != nil && state.RightsIn(s).Command(by, msg) != nil {
				return
			}
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

// unfounded returns a withdrawal for each signal whose job has no order to leave.
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

// leaves reports whether a job has an order to leave.
func leaves(s *state.State, a *statepb.Allocation) bool {
	op, ok := s.Operation(scheduling.OperationID(a.GetOperationId()))
	return !ok || op.StopOrderFor(a) != nil
}

package actors

import (
	"context"
	"time"

	"weir/cluster/storage"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

const (
	// discardPause is the upper bound of the pause before the removal of a staging folder is
	// retried. The pause doubles each time, because a store may be unavailable for hours.
	discardPause = 5 * time.Minute
	// discardsAtOnce bounds the staging folders that are removed at the same time: a replica that
	// starts checks the folders of all operations that ended recently.
	discardsAtOnce = 8
	// stagedFor is how long the removal of a staging folder is retried. A replica that starts tries
	// again for the operations that ended within this time.
	stagedFor = 24 * time.Hour
)

// stagedBefore returns the map operations that ended recently. The replica that controlled one may
// have stopped before it removed the staging folder, while no replica led.
func stagedBefore(s *state.State, now time.Time) (ended []*statepb.Operation) {
	for op := range s.Operations() {
		if op.GetSpec().GetMap() == nil || now.Sub(op.GetFinishTime().AsTime()) > stagedFor {
			continue
		}
		if at, err := lifecycle.ParseState(op.GetState()); err == nil && at.Terminal() {
			ended = append(ended, op)
		}
	}
	return ended
}

// clear removes the staging folder of an operation. Both the replica of its controller and the
// leader do this, because the replica of the controller may be gone.
func (a *controllersActor) clear(operation string) {
	var op *statepb.Operation
	a.replica.store.View(func(s *state.State) {
		ended, ok := s.Operation(scheduling.OperationID(operation))
		ours := ended.GetAssignment().GetReplica() == a.replica.cfg.ID || a.replica.leader.Load() != nil
		if ok && ended.GetSpec().GetMap() != nil && ours {
			op = ended
		}
	})
	if op != nil {
		a.replica.discard(a.ctx, op)
	}
}

// discard removes the staging folder of an operation that has ended, and also its output if the
// operation did not complete. It retries if that fails.
func (r *Replica) discard(ctx context.Context, op *statepb.Operation) {
	out := storage.Output{Path: op.GetSpec().GetMap().GetOutputPath(), Operation: op.GetId()}
	completed := op.GetState() == lifecycle.Completed.String()
	until := time.Now().Add(stagedFor)
	r.discards.Go(func() {
		for pause := r.cfg.Timing.Retry; ; pause = min(2*pause, discardPause) {
			err := r.discardOnce(ctx, out, completed)
			if err == nil || ctx.Err() != nil {
				return
			}
			if time.Now().Add(pause).After(until) {
				r.cfg.Logger.Error("staging folder not removed; remove it by hand", "operation", out.Operation, "file", out.Path, "error", err)
				return
			}
			r.cfg.Logger.Warn("staging folder not removed yet", "operation", out.Operation, "file", out.Path, "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	})
}

// discardOnce waits for a free slot.
func (r *Replica) discardOnce(ctx context.Context, out storage.Output, completed bool) error {
	select {
	case r.discarding <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.discarding }()
	return r.cfg.Storage.Discard(ctx, out, completed)
}

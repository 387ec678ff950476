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
	// discardPause bounds the pauses before a staging place is removed that could not be; they
	// double. A store may be away for hours.
	discardPause = 5 * time.Minute
	// discardsAtOnce bounds the staging places that are removed at the same time: a replica
	// that starts looks at those of all operations that have ended of late.
	discardsAtOnce = 8
	// stagedFor is how long after its end an operation may have left a staging place, and for
	// how long its removal is tried. A replica that starts later tries again.
	stagedFor = 24 * time.Hour
)

// stagedBefore returns the map operations that have ended of late. Who controlled one
// may have gone before it removed what was staged, and nobody have led just then.
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

// clear removes what an operation has left in staging: who controlled it does that, and
// the leader, for that one may have gone.
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

// discard removes what an operation that has ended has left in staging, and its output
// unless it has completed, now or, when that fails, later.
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

// discardOnce waits for its turn.
func (r *Replica) discardOnce(ctx context.Context, out storage.Output, completed bool) error {
	select {
	case r.discarding <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.discarding }()
	return r.cfg.Storage.Discard(ctx, out, completed)
}

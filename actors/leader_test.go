package actors

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// TestATermBeginsUntilItIsOver tries to begin a term against what may be in its way.
func TestATermBeginsUntilItIsOver(t *testing.T) {
	for name, test := range map[string]struct {
		// first is what comes of the first try, and over says that the term is.
		first error
		over  bool
		want  uint64
	}{
		"nothing":                               {want: 1},
		"a majority that does not answer":       {first: raftstore.ErrOutcomeUnknown, want: 2},
		"leadership that was to be handed over": {first: &raftstore.NotLeaderError{LeaderID: "r1"}, want: 2},
		"a store that is closed":                {first: raftstore.ErrClosed},
		"another leader":                        {first: &raftstore.NotLeaderError{LeaderID: "r2"}, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tries := uint64(0)
				index, begun := untilBegun(ctx, time.Second, slog.New(slog.DiscardHandler), func(context.Context) (uint64, error) {
					if tries++; tries > 1 || test.first == nil {
						return tries, nil
					}
					if test.over {
						time.AfterFunc(time.Millisecond, cancel)
					}
					return 0, test.first
				})
				if index != test.want && begun || begun != (test.want > 0) {
					t.Errorf("begun %t, as of try %d, want try %d", begun, index, test.want)
				}
			})
		})
	}
}

// TestAnOperationHasOneActor though it is accepted while the actors are spawned, and told of
// once more after it.
func TestAnOperationHasOneActor(t *testing.T) {
	its := actor.NewPID("here", "its actor")
	a := &leaderActor{operations: map[scheduling.OperationID]*actor.PID{"op": its}, trees: newLedTrees()}
	done := false
	a.batch(nil, batch{raftstore.Batch{Events: []state.Event{state.OperationAccepted{ID: "op"}}}, func() { done = true }})
	if a.operations["op"] != its || !done {
		t.Errorf("the actor is %v, want %v; the entry is dealt with: %t", a.operations["op"], its, done)
	}
}

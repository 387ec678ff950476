package actors

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"weir/cluster/storage"
	"weir/cluster/vault"
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
		if op.GetSpec().GetType() != lifecycle.Map || now.Sub(op.GetFinishTime().AsTime()) > stagedFor {
			continue
		}
		if at, err := lifecycle.ParseState(op.GetState()); err == nil && at.Terminal() {
			op, _ = s.Operation(scheduling.OperationID(op.GetId()))
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
	return through(r.cfg.Storage, storesOf(r).whoever).Discard(ctx, out, completed)
}

// through returns a storage that reaches each object as find says. Storages of tests have no objects.
func through(s Storage, find func(path string) (*storage.S3Config, error)) Storage {
	if objects, ok := s.(*storage.Storage); ok {
		return objects.By(find)
	}
	return s
}

// namedStores finds the settings of objects in named stores.
type namedStores struct {
	state interface{ View(func(*state.State)) }
	vault *vault.Vault
}

func storesOf(r *Replica) namedStores { return namedStores{r.store, r.cfg.Vault} }

// of returns a function that finds the settings of the named store of an object, for an
// operation, which must be allowed to use it; nil settings if the object is in no named store.
func (n namedStores) of(operation string) func(path string) (*storage.S3Config, error) {
	return func(path string) (cfg *storage.S3Config, err error) {
		var store *statepb.Store
		n.state.View(func(s *state.State) {
			if op, ok := s.Operation(scheduling.OperationID(operation)); ok {
				store, err = state.StoresIn(s).For(op, path)
			} else {
				store, err = state.StoresIn(s).Of(path)
			}
		})
		if err != nil {
			return nil, err
		}
		return n.settings(store)
	}
}

// whoever finds the settings of the named store of an object, whoever may use it.
func (n namedStores) whoever(path string) (cfg *storage.S3Config, err error) {
	var store *statepb.Store
	n.state.View(func(s *state.State) { store, err = state.StoresIn(s).Of(path) })
	if err != nil {
		return nil, err
	}
	return n.settings(store)
}

// settings opens the credentials of a named store; nil for nil.
func (n namedStores) settings(store *statepb.Store) (*storage.S3Config, error) {
	if store == nil {
		return nil, nil
	}
	opened, err := n.vault.Open(vault.OfStore(store.GetName()), store.GetSealed())
	if err != nil {
		// Another replica may have the key, or this one when it has restarted.
		return nil, fmt.Errorf("%w: store %q: %w", storage.ErrUnavailable, store.GetName(), err)
	}
	return &storage.S3Config{
		Endpoint: store.GetEndpoint(), Region: cmp.Or(store.GetRegion(), "us-east-1"), AccessKey: store.GetAccessKey(), SecretKey: opened[vault.SecretKey],
	}, nil
}

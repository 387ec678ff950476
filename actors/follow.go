package actors

import (
	"context"
	"errors"

	"weir/raftstore"
)

// batch brings a committed log entry to an actor.
type batch struct{ raftstore.Batch }

// broken says that an actor's view of the log has a gap, or could not begin.
type broken struct{ err error }

// follow sends an actor every committed entry from an index on, as batch, in order
// and without gaps, until ctx is done; or broken, when entries are no longer kept.
func follow(ctx context.Context, store *raftstore.Store, from uint64, send func(any)) {
	watch, err := store.Watch(from)
	if err != nil {
		send(broken{err})
		return
	}
	defer watch.Close()
	for {
		entry, err := watch.Next(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, raftstore.ErrClosed):
			return
		case err != nil:
			send(broken{err})
			return
		}
		send(batch{entry})
	}
}

package actors

import (
	"context"
	"errors"

	"weir/raftstore"
)

// maxAhead bounds the log entries that an actor was sent and has not dealt with.
// While there are so many, no more are read; when the store does not keep the next
// one any longer, the actor starts again from the state. A leader deals with
// thousands a second.
const maxAhead = 1024

// batch brings a committed log entry to an actor. done is called once it has been
// dealt with, and lets another one come.
type batch struct {
	raftstore.Batch
	done func()
}

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
	feed(ctx, watch.Next, send)
}

// feed sends what next returns, up to maxAhead entries ahead of the actor.
func feed(ctx context.Context, next func(context.Context) (raftstore.Batch, error), send func(any)) {
	ahead := make(chan struct{}, maxAhead)
	done := func() { <-ahead }
	for {
		select {
		case ahead <- struct{}{}:
		case <-ctx.Done():
			return
		}
		entry, err := next(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, raftstore.ErrClosed):
			return
		case err != nil:
			send(broken{err})
			return
		}
		send(batch{entry, done})
	}
}

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

// follow hands an actor every committed entry from an index on, in order and without
// gaps, until ctx is done. It returns an error when entries are no longer kept.
func follow(ctx context.Context, store *raftstore.Store, from uint64, take func(batch)) error {
	watch, err := store.Watch(from)
	if err != nil {
		return err
	}
	return feed(ctx, watch.Next, take)
}

// feed hands on what next returns, up to maxAhead entries ahead of the actor.
func feed(ctx context.Context, next func(context.Context) (raftstore.Batch, error), take func(batch)) error {
	ahead := make(chan struct{}, maxAhead)
	done := func() { <-ahead }
	for {
		select {
		case ahead <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		entry, err := next(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, raftstore.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		take(batch{entry, done})
	}
}

package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"weir/actors/reconcile"
	"weir/raftstore"
)

// maxAhead bounds the log entries that an actor has been sent but has not handled. At the bound,
// reading pauses; if the store drops the next entry meanwhile, the actor restarts from the state. A
// leader handles thousands a second.
const maxAhead = 1024

// batch carries a committed log entry to an actor. The actor calls done when it has handled the
// entry, which makes room for another one.
type batch struct {
	raftstore.Batch
	done func()
}

// follow passes the committed entries from the index `from` on to an actor, in order and without
// gaps, until ctx is done. If the store no longer has the next entry, the actor fails, and its
// supervisor restarts it from the current state.
func follow(ctx context.Context, store *raftstore.Store, who string, from uint64, life *reconcile.Life, take func(batch)) {
	watch, err := store.Watch(from)
	if err == nil {
		err = feed(ctx, watch.Next, func(m batch) { life.Do(func() { take(m) }) })
	}
	if err != nil {
		life.Do(func() { panic(fmt.Sprintf("%s: %v", who, err)) })
	}
}

// feed passes the batches that `next` returns to `take`, up to maxAhead entries ahead of the actor.
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

// progress is how far an actor has followed the log.
type progress struct {
	mu    sync.Mutex
	index uint64
	// moved is closed when index grows.
	moved chan struct{}
}

func newProgress() *progress { return &progress{moved: make(chan struct{})} }

// reach records that the actor has handled the entries up to an index.
func (p *progress) reach(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index > p.index {
		p.index = index
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// wait returns when the actor has handled the entry at an index, which has events, or when ctx is done.
func (p *progress) wait(ctx context.Context, index uint64) error {
	for {
		p.mu.Lock()
		reached, moved := p.index, p.moved
		p.mu.Unlock()
		if reached >= index {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for index %d, handled up to %d: %w", index, reached, context.Cause(ctx))
		}
	}
}

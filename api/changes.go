package api

import (
	"context"
	"errors"
	"sync"

	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// changes wakes those that wait for an operation when something becomes of just that
// one. However many wait, the replica's log has one reader.
type changes struct {
	mu       sync.Mutex
	followed map[scheduling.OperationID]*followed
	// over is closed when there is no more to come, because of err.
	over chan struct{}
	err  error
}

// followed is an operation that somebody waits for.
type followed struct {
	of *changes
	id scheduling.OperationID
	// waiting is how many do. changed is closed at the next change; ended is closed
	// once the operation has ended.
	waiting        int
	changed, ended chan struct{}
	hasEnded       bool
}

func newChanges() *changes {
	return &changes{followed: map[scheduling.OperationID]*followed{}, over: make(chan struct{})}
}

// read passes on what the store's log says from an index on, until ctx is done or the
// store closed. Where entries are missing, all who wait are to look.
func (c *changes) read(ctx context.Context, store Store, from uint64) {
	err := context.Cause(ctx)
	for ctx.Err() == nil {
		err = store.Follow(ctx, from, c.take)
		var gap *raftstore.CompactedError
		if !errors.As(err, &gap) {
			break
		}
		from = store.Applied() + 1
		c.wakeAll()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.over)
}

// take passes on the events of a log entry.
func (c *changes) take(batch raftstore.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followed) == 0 {
		return
	}
	for _, event := range batch.Events {
		switch e := event.(type) {
		case state.OperationChanged:
			c.touch(e.ID, e.To.Terminal())
		case state.OperationArchived:
			c.touch(e.ID, true)
		case state.OperationAccepted:
			c.touch(e.ID, false)
		case state.ControllerAssigned:
			c.touch(e.ID, false)
		case state.TasksDefined:
			c.touch(e.ID, false)
		case state.DemandChanged:
			c.touch(e.ID, false)
		case state.StopsOrdered:
			c.touch(e.Operation, false)
		case state.AllocationsEnded:
			c.touch(e.Operation, false)
		case state.AllocationsStarted:
			for _, a := range e.Allocations {
				c.touch(scheduling.OperationID(a.GetOperationId()), false)
			}
		}
	}
}

// touch wakes who waits for an operation. c.mu is held.
func (c *changes) touch(id scheduling.OperationID, ended bool) {
	f := c.followed[id]
	if f == nil {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
	if ended && !f.hasEnded {
		f.hasEnded = true
		close(f.ended)
	}
}

func (c *changes) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.followed {
		c.touch(id, false)
	}
}

// follow begins to wait for an operation, until leave.
func (c *changes) follow(id scheduling.OperationID) *followed {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followed[id]
	if f == nil {
		f = &followed{of: c, id: id, changed: make(chan struct{}), ended: make(chan struct{})}
		c.followed[id] = f
	}
	f.waiting++
	return f
}

// leave ends a follow.
func (f *followed) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		delete(f.of.followed, f.id)
	}
}

// next returns what is closed at the next change. A state that is looked at afterwards
// shows all changes before.
func (f *followed) next() <-chan struct{} {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.changed
}

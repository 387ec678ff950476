package api

import (
	"context"
	"errors"
	"sync"

	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// changes wakes the calls that wait for an operation when that operation changes. All
// of the calls share one reader of the replica's log.
type changes struct {
	mu       sync.Mutex
	followed map[scheduling.OperationID]*followed
	// over is closed when no more changes will be reported; err is the reason.
	over chan struct{}
	err  error
}

// followed is an operation that calls wait for.
type followed struct {
	of *changes
	id scheduling.OperationID
	// waiting counts the calls. changed is closed at the next change. ended is closed once the
	// operation has ended.
	waiting        int
	changed, ended chan struct{}
	hasEnded       bool
}

func newChanges() *changes {
	return &changes{followed: map[scheduling.OperationID]*followed{}, over: make(chan struct{})}
}

// read reports changes from the store's log, starting at an index, until ctx is done or
// the store is closed. If log entries are missing, it wakes all waiting calls, so that the
// calls look at the state themselves.
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

// take wakes the calls that wait for the operations in the events of a log entry.
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

// touch wakes the calls that wait for an operation. The caller holds c.mu.
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

// follow registers a call that waits for an operation; it ends with leave.
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

// leave ends follow. The operation is dropped when no call waits for it.
func (f *followed) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		delete(f.of.followed, f.id)
	}
}

// next returns a channel that is closed at the next change. Get the channel before reading the
// state, so that it signals every change that the state does not show yet.
func (f *followed) next() <-chan struct{} {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return f.changed
}

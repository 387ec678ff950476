package fleet

import (
	"context"
	"fmt"
	"sync"
)

// tally counts, and signals when numbers are reached.
type tally struct {
	mu    sync.Mutex
	count int
	// reached holds a channel for each number that is awaited, closed when the count is that.
	reached map[int]chan struct{}
	// grown, if set, is called with the count.
	grown func(int)
}

func newTally(grown func(int)) *tally { return &tally{reached: map[int]chan struct{}{}, grown: grown} }

// add adds one.
func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if t.grown != nil {
		t.grown(t.count)
	}
	if reached := t.reached[t.count]; reached != nil {
		close(reached)
		delete(t.reached, t.count)
	}
}

// await waits until n have been counted.
func (t *tally) await(ctx context.Context, n int) error {
	t.mu.Lock()
	if t.count >= n {
		t.mu.Unlock()
		return nil
	}
	reached := t.reached[n]
	if reached == nil {
		reached = make(chan struct{})
		t.reached[n] = reached
	}
	t.mu.Unlock()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("%d of %d: %w", t.count, n, ctx.Err())
	}
}

package fleet

import (
	"context"
	"fmt"
	"sync"
)

// tally counts, and signals when a number is reached.
type tally struct {
	mu     sync.Mutex
	count  int
	target int
	// reached is closed when count is target.
	reached chan struct{}
	// grown, if set, is called with the count.
	grown func(int)
}

func newTally(grown func(int)) *tally { return &tally{grown: grown} }

// add adds one.
func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if t.grown != nil {
		t.grown(t.count)
	}
	if t.reached != nil && t.count >= t.target {
		close(t.reached)
		t.reached = nil
	}
}

// await waits until n have been counted. Only one call at a time is allowed.
func (t *tally) await(ctx context.Context, n int) error {
	reached := make(chan struct{})
	t.mu.Lock()
	if t.count >= n {
		close(reached)
	} else {
		t.target, t.reached = n, reached
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

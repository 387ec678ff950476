package fleet

import (
	"context"
	"testing"
)

func TestTallyTellsWhenItIsReached(t *testing.T) {
	last := 0
	counted := newTally(func(n int) { last = n })
	counted.add()
	if err := counted.await(t.Context(), 1); err != nil {
		t.Errorf("what was reached before: %v", err)
	}
	go func() {
		for range 2 {
			counted.add()
		}
	}()
	if err := counted.await(t.Context(), 3); err != nil {
		t.Errorf("what is reached later: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := counted.await(over, 4); err == nil || err.Error() != "3 of 4: context canceled" {
		t.Errorf("what is not reached: %v", err)
	}
	if last != 3 {
		t.Errorf("told of %d, want 3", last)
	}
}

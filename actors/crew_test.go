package actors

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestCrewRunsFewAtOnce has two workers take all of 100 turns, also after they had nothing to do. A turn ends once
// both have had one at the same time, or the other one has nothing to do any more.
func TestCrewRunsFewAtOnce(t *testing.T) {
	c := &crew{most: 2}
	for range 2 {
		var running, most atomic.Int64
		var turns sync.WaitGroup
		turns.Add(100)
		both := make(chan struct{})
		for i := range 100 {
			c.Schedule(func() {
				defer turns.Done()
				now := running.Add(1)
				for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
				}
				switch i {
				case 0:
					<-both
				case 1:
					close(both)
				}
				running.Add(-1)
			})
		}
		turns.Wait()
		if got := most.Load(); got != 2 {
			t.Errorf("%d at once, want 2", got)
		}
	}
}

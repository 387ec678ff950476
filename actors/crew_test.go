package actors

import (
	"sync"
	"testing"
)

// TestCrewRunsFewAtOnce gives two workers three turns, of which two take long, and then more, also after they had
// nothing to do.
func TestCrewRunsFewAtOnce(t *testing.T) {
	c := &crew{most: 2}
	for range 2 {
		var begun, done sync.WaitGroup
		let := make(chan struct{})
		begun.Add(2)
		for range 2 {
			done.Add(1)
			c.Schedule(func() {
				begun.Done()
				<-let
				done.Done()
			})
		}
		begun.Wait()
		for range 100 {
			done.Add(1)
			c.Schedule(done.Done)
		}
		c.mu.Lock()
		if c.workers != 2 || len(c.queue) != 100 {
			t.Errorf("%d workers and %d turns that wait, want 2 and 100", c.workers, len(c.queue))
		}
		c.mu.Unlock()
		close(let)
		done.Wait()
	}
}

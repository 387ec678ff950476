package actors

import (
	"runtime"
	"sync"
)

// crew runs many actors in few goroutines. When thousands of agents speak at once, as they do to a new leader, other
// actors do not wait until each of theirs has had its turn. It implements actor.Dispatcher.
type crew struct {
	most int

	mu sync.Mutex
	// queue are actors with messages, oldest first. workers is how many goroutines run them.
	queue   []func()
	workers int
}

// newCrew returns a crew of as many as there are processors, but at least four: some wait for others' locks.
func newCrew() *crew { return &crew{most: max(4, runtime.GOMAXPROCS(0))} }

// Throughput implements actor.Dispatcher: it is how many messages an actor handles before it lets others have a turn.
func (c *crew) Throughput() int { return 300 }

// Schedule implements actor.Dispatcher. It does not wait.
func (c *crew) Schedule(run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, run)
	if c.workers < c.most {
		c.workers++
		go c.work()
	}
}

func (c *crew) work() {
	for run := c.next(); run != nil; run = c.next() {
		run()
	}
}

// next takes an actor from the queue; nil: there is none, and the worker ends.
func (c *crew) next() (run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.workers, c.queue = c.workers-1, nil
		return nil
	}
	run, c.queue = c.queue[0], c.queue[1:]
	return run
}

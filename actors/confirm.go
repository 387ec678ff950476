package actors

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// confirmer checks whether this replica is still the leader, for many callers at once.
//
// A leader that was paused may have been replaced without noticing. If it then renewed an agent's
// lease, the agent would keep running its jobs while the new leader counts it as lost.
type confirmer struct {
	ctx context.Context
	// leads returns nil when this replica led at a moment after the call.
	leads func(context.Context) error

	mu      sync.Mutex
	waiting []func(leads bool)
	// asking means that a goroutine is serving the callers in `waiting`.
	asking bool
}

// confirmPause is the least time from one check to the next. A check costs a message to and from each follower, and
// an agent does not care when within this time it is answered.
const confirmPause = 10 * time.Millisecond

// Confirm reports through `done` whether this replica led at a moment after the call. It calls
// `done` once, from any goroutine. Concurrent callers share the next check.
func (c *confirmer) Confirm(done func(leads bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, done)
	if !c.asking {
		c.asking = true
		go c.ask()
	}
}

func (c *confirmer) ask() {
	for {
		c.mu.Lock()
		askers := c.waiting
		c.waiting = nil
		c.asking = len(askers) > 0
		c.mu.Unlock()
		if len(askers) == 0 {
			return
		}
		next := time.After(confirmPause)
		leads := c.leads(c.ctx) == nil
		for _, done := range askers {
			done(leads)
		}
		select {
		case <-next:
		case <-c.ctx.Done():
		}
	}
}

// lead replies to agents on behalf of the leader of a term.
type lead struct {
	confirmer *confirmer
	redirect  func() proto.Message
}

// Reply implements the Lead of nodes.
func (l lead) Reply(reply func(proto.Message), answer proto.Message) {
	l.confirmer.Confirm(func(leads bool) {
		if !leads {
			answer = l.redirect()
		}
		reply(answer)
	})
}

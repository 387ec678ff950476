package actors

import (
	"context"
	"sync"
	"time"

	"weir/actors/signal"
	"weir/messages/actorpb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// instancesTogether is how long changes of an operation's instances gather before
// those who wait for them are told.
const instancesTogether = 5 * time.Millisecond

// newsdesk wakes those who wait for news of the jobs of one operation.
type newsdesk struct {
	mu      sync.Mutex
	waiting map[string]*awaited
}

// awaited is an operation of which somebody waits for news; changed is closed when
// there are some.
type awaited struct {
	readers int
	changed chan struct{}
}

func newNewsdesk() *newsdesk { return &newsdesk{waiting: map[string]*awaited{}} }

// follow begins to wait for an operation, until leave. What next returns is closed
// with the next news: a state that is looked at after the call of next shows all
// that was news before.
func (n *newsdesk) follow(operation string) (next func() <-chan struct{}, leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.waiting[operation]
	if of == nil {
		of = &awaited{changed: make(chan struct{})}
		n.waiting[operation] = of
	}
	of.readers++
	next = func() <-chan struct{} {
		n.mu.Lock()
		defer n.mu.Unlock()
		return of.changed
	}
	leave = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if of.readers--; of.readers == 0 {
			delete(n.waiting, operation)
		}
	}
	return next, leave
}

// tell wakes those who wait for an operation.
func (n *newsdesk) tell(operation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if of := n.waiting[operation]; of != nil {
		close(of.changed)
		of.changed = make(chan struct{})
	}
}

// tellAll wakes all who wait.
func (n *newsdesk) tellAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, of := range n.waiting {
		close(of.changed)
		of.changed = make(chan struct{})
	}
}

// take tells the news of a committed event.
func (n *newsdesk) take(event state.Event) {
	switch e := event.(type) {
	case state.AllocationsStarted:
		for _, a := range e.Allocations {
			n.tell(a.GetOperationId())
		}
	case state.StopsOrdered:
		n.tell(string(e.Operation))
	case state.AllocationsEnded:
		n.tell(string(e.Operation))
	case state.OperationChanged:
		n.tell(string(e.ID))
	case state.OperationArchived:
		n.tell(string(e.ID))
	}
}

// Instances returns the instances of an operation, as they are seen here: once they
// differ from those of a version that was returned before, or as they are when ctx is
// done. It asks nobody.
func (r *Replica) Instances(ctx context.Context, operation, version string) *actorpb.Instances {
	next, leave := r.news.follow(operation)
	defer leave()
	for {
		changed := next()
		now := r.instancesOf(operation)
		if now.GetVersion() != version || now.GetOver() {
			return now
		}
		select {
		case <-ctx.Done():
			return now
		case <-changed:
		}
		select {
		case <-ctx.Done():
		case <-time.After(instancesTogether):
		}
	}
}

func (r *Replica) instancesOf(operation string) *actorpb.Instances {
	id := scheduling.OperationID(operation)
	// What was heard is read first: a job that ends meanwhile has gone in either.
	heard := r.signals.Of(operation)
	over, hosts := true, map[string]string{}
	var placed []signal.Placed
	r.store.View(func(s *state.State) {
		host := func(node string) {
			record, _ := s.Node(scheduling.NodeID(node))
			hosts[node] = record.GetHost()
		}
		for _, h := range heard {
			host(h.GetNode())
		}
		op, ok := s.Operation(id)
		if !ok {
			return
		}
		now, err := lifecycle.ParseState(op.GetState())
		over = err != nil || now.Terminal()
		for _, a := range s.AllocationsOfOperation(id) {
			host(a.GetNode())
			// Records of allocations are replaced, not changed.
			placed = append(placed, signal.Placed{Allocation: a, Stop: op.StopOrderFor(a)})
		}
	})
	return signal.Instances(operation, over, placed, heard, func(node string) string { return hosts[node] })
}

package storm

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// moment is how many instances there are from a time on until the next moment.
type moment struct {
	at time.Time
	// ready take requests, present run.
	ready, present int
}

// happening is an event that happens, or has.
type happening struct {
	event
	// name is that of the node.
	name     string
	from, to time.Time
}

// trace is how a run goes.
type trace struct {
	mu      sync.Mutex
	moments []moment
	seen    []*apipb.Instance
	events  []happening
	// changed is closed when other instances are seen.
	changed chan struct{}
}

func newTrace() *trace { return &trace{changed: make(chan struct{})} }

// see takes what discovery says.
func (t *trace) see(instances []*apipb.Instance) {
	m := moment{at: time.Now()}
	for _, instance := range instances {
		if instance.GetState() != actorpb.InstanceGone {
			m.present++
		}
		if instance.GetReady() {
			m.ready++
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments, t.seen = append(t.moments, m), instances
	close(t.changed)
	t.changed = make(chan struct{})
}

// until waits until what is seen is as is says.
func (t *trace) until(ctx context.Context, is func(seen []*apipb.Instance) bool) error {
	for {
		t.mu.Lock()
		seen, changed := t.seen, t.changed
		t.mu.Unlock()
		if is(seen) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// happened notes an event.
func (t *trace) happened(e happening) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// all returns what was seen from a time on, the present last, and the events.
func (t *trace) all(from time.Time) (moments []moment, events []happening) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, m := range t.moments {
		if i+1 < len(t.moments) && !t.moments[i+1].at.After(from) {
			continue
		}
		if m.at.Before(from) {
			m.at = from
		}
		moments = append(moments, m)
	}
	if n := len(moments); n > 0 {
		last := moments[n-1]
		last.at = time.Now()
		moments = append(moments, last)
	}
	return moments, slices.Clone(t.events)
}

// readyOf counts the ready instances of those that are seen.
func readyOf(seen []*apipb.Instance) (count int) {
	for _, instance := range seen {
		if instance.GetReady() {
			count++
		}
	}
	return count
}

// none returns whether none of the instances that are seen is on a node, of those that count.
func none(seen []*apipb.Instance, node string, counts func(*apipb.Instance) bool) bool {
	return !slices.ContainsFunc(seen, func(i *apipb.Instance) bool { return i.GetNode() == node && counts(i) })
}

func present(i *apipb.Instance) bool { return i.GetState() != actorpb.InstanceGone }

func ready(i *apipb.Instance) bool { return i.GetReady() }

// preempted returns whether an instance leaves for another operation.
func preempted(i *apipb.Instance) bool {
	return i.GetState() == actorpb.InstanceDraining && i.GetReason() == lifecycle.AbortPreemption.String()
}

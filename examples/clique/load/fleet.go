package load

import (
	"context"
	"iter"
	"sync"

	"weir/messages/actorpb"
	"weir/messages/apipb"
)

// Fleet is the instances of a service, as discovery reports them.
type Fleet struct {
	mu   sync.Mutex
	seen []*apipb.Instance
	// running is the number of open requests, by job.
	running map[string]int
	// changed is closed when the instances change.
	changed chan struct{}
}

// NewFleet returns an empty fleet.
func NewFleet() *Fleet { return &Fleet{running: map[string]int{}, changed: make(chan struct{})} }

// Ready reports whether an instance may be sent requests.
func Ready(i *apipb.Instance) bool {
	return i.GetState() == actorpb.InstanceLive && i.GetReady() && len(i.GetPorts()) > 0
}

// CountIf counts the instances for which `is` returns true.
func CountIf(seen []*apipb.Instance, is func(*apipb.Instance) bool) (count int) {
	for _, i := range seen {
		if is(i) {
			count++
		}
	}
	return count
}

// Follow updates the fleet with the answers of discovery until they end. It passes each answer to
// `see`.
func (f *Fleet) Follow(answers iter.Seq2[*apipb.WatchInstancesResponse, error], see func([]*apipb.Instance)) error {
	defer f.take(nil)
	for answer, err := range answers {
		if err != nil {
			return err
		}
		f.take(answer.GetInstances())
		see(answer.GetInstances())
	}
	return nil
}

// take replaces the instances.
func (f *Fleet) take(seen []*apipb.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = seen
	close(f.changed)
	f.changed = make(chan struct{})
}

// Until waits until `is` returns true for the instances.
func (f *Fleet) Until(ctx context.Context, is func(seen []*apipb.Instance) bool) error {
	for {
		f.mu.Lock()
		changed, done := f.changed, is(f.seen)
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// pick returns the instance for the next request: the ready one with the fewest open requests.
// It waits until there is one. The caller calls done at the end of the request.
func (f *Fleet) pick(ctx context.Context) (to *apipb.Instance, err error) {
	err = f.Until(ctx, func(seen []*apipb.Instance) bool {
		for _, i := range seen {
			if Ready(i) && (to == nil || f.running[i.GetJobId()] < f.running[to.GetJobId()]) {
				to = i
			}
		}
		if to != nil {
			f.running[to.GetJobId()]++
		}
		return to != nil
	})
	return to, err
}

func (f *Fleet) done(with *apipb.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[with.GetJobId()]--
}

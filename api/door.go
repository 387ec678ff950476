package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/cluster/identity"
	"weir/messages/apipb/apipbconnect"
)

// door lets calls in by kind, each kind with places of its own.
type door struct {
	replica                       string
	calls, watches, outputs, join *entrance
	refused                       refusedSubjects
}

// joinPlaces is how many calls of replicas may be in flight: each makes one at a time.
const joinPlaces = 64

func newDoor(replica string, limits Limits) *door {
	return &door{
		replica: replica,
		calls:   newEntrance("calls", limits.Calls, limits.QueueTime),
		watches: newEntrance("calls waiting for operations", limits.Watches, limits.QueueTime),
		outputs: newEntrance("reads of output", limits.Outputs, limits.QueueTime),
		join:    newEntrance("calls", joinPlaces, limits.QueueTime),
	}
}

// entrance returns where a call comes in.
func (d *door) entrance(who identity.Identity, procedure string) *entrance {
	switch {
	case who.Role == identity.Replica:
		return d.join
	case procedure == apipbconnect.JobServiceOutputProcedure:
		return d.outputs
	case waits[procedure]:
		return d.watches
	default:
		return d.calls
	}
}

// enter waits for a place for a call, at most Limits.QueueTime. Call leave when the call has ended. Otherwise
// `crowded` says how many calls of the subject are in flight, and the limit.
func (d *door) enter(ctx context.Context, who identity.Identity, procedure string) (leave func(), crowded string) {
	e, of := d.entrance(who, procedure), subjectOf(who)
	t := e.enter(ctx, of)
	if t != nil {
		return func() { e.leave(t) }, ""
	}
	d.refused.add(of, time.Now())
	held, share, limit := e.holds(of)
	return nil, fmt.Sprintf("%d %s of %s in flight on replica %s, with a limit of %d for each of the present users (%d in all): retry later, or use another replica",
		held, e.kind, of, d.replica, share, limit)
}

func (d *door) stats(now time.Time) Stats {
	s := Stats{CallsLimit: d.calls.places.limit, WatchesLimit: d.watches.places.limit, OutputsLimit: d.outputs.places.limit}
	var calls, watches, outputs, join int
	s.Calls, calls = d.calls.count()
	s.Watches, watches = d.watches.count()
	s.Outputs, outputs = d.outputs.count()
	_, join = d.join.count()
	s.Queued = calls + watches + outputs + join
	s.Refused, s.RefusedSubjects = d.refused.count(now)
	return s
}

// entrance is where calls of one kind wait for places.
type entrance struct {
	kind     string
	patience time.Duration

	mu     sync.Mutex
	places *places
	// admitted has a channel for each ticket that waits; it is closed when the call has its place.
	admitted map[*ticket]chan struct{}
}

func newEntrance(kind string, limit int, patience time.Duration) *entrance {
	return &entrance{kind: kind, patience: patience, places: newPlaces(limit), admitted: map[*ticket]chan struct{}{}}
}

// enter returns the ticket of a call that has a place, or nil.
func (e *entrance) enter(ctx context.Context, of subject) *ticket {
	e.mu.Lock()
	t := e.places.enter(of)
	if t == nil {
		e.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	e.admitted[t] = mine
	e.settle()
	e.mu.Unlock()
	select {
	case <-mine:
		return t
	default:
	}
	timer := time.NewTimer(e.patience)
	defer timer.Stop()
	select {
	case <-mine:
		return t
	case <-timer.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, waits := e.admitted[t]; !waits {
		return t // The place came a moment ago.
	}
	delete(e.admitted, t)
	e.places.abandon(t)
	e.settle()
	return nil
}

func (e *entrance) leave(t *ticket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places.leave(t)
	e.settle()
}

// settle lets in whoever can have a place now. The caller holds the lock.
func (e *entrance) settle() {
	for t := e.places.admit(); t != nil; t = e.places.admit() {
		close(e.admitted[t])
		delete(e.admitted, t)
	}
}

// holds returns how many places a subject has, how many it may have now, and how many there are.
func (e *entrance) holds(of subject) (held, share, limit int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.places.subjects[of]; h != nil {
		held = h.held
	}
	return held, e.places.share(), e.places.limit
}

func (e *entrance) count() (taken, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.places.taken, e.places.waiting
}

// refusedSubjects counts refused calls, and the subjects that were refused in the last minute. The zero
// value is ready to use.
type refusedSubjects struct {
	mu    sync.Mutex
	calls uint64
	last  map[subject]time.Time
}

func (r *refusedSubjects) add(of subject, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[subject]time.Time{}
	}
	r.calls++
	r.last[of] = now
}

func (r *refusedSubjects) count(now time.Time) (calls uint64, subjects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, last := range r.last {
		if now.Sub(last) >= time.Minute {
			delete(r.last, of)
		}
	}
	return r.calls, len(r.last)
}

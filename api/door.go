package api

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"weir/cluster/identity"
	"weir/messages/apipb/apipbconnect"
)

// door lets calls in by kind, each kind with places of its own. A call that is inside has one place
// more for each thing that few may do at once: to send a large request, to wait for the leader, and
// to compute.
type door struct {
	replica                       string
	calls, watches, outputs, join *entrance
	probes, large, turns          *entrance
	// leader is for requests to the leader, and parts for those whose answer is a part of an output.
	leader, parts *entrance
	refused       refusedSubjects
}

const (
	// joinPlaces is how many calls of replicas may be in flight: each makes one at a time.
	joinPlaces = 64
	// probePlaces is how many requests for metrics and health may be in flight.
	probePlaces = 16
	// partPlaces is how many calls may wait for a part of an output: whatever a replica and the leader tell
	// each other waits behind the parts that are under way.
	partPlaces = 4
)

// partRate is how many bytes of output a second a subject has whose calls wait for parts: half a MiB a processor.
var partRate = 512 << 10 * int64(runtime.GOMAXPROCS(0))

func newDoor(replica string, limits Limits) *door {
	// Whoever waits further inside has a place already, so these queues need no bound of their own.
	inside := limits.Calls + limits.Watches + limits.Outputs + joinPlaces
	return &door{
		replica: replica,
		calls:   newEntrance("calls", limits.Calls, limits.Calls, limits.QueueTime),
		watches: newEntrance("calls waiting for operations", limits.Watches, limits.Watches, limits.QueueTime),
		outputs: newEntrance("reads of output", limits.Outputs, limits.Outputs, limits.QueueTime),
		join:    newEntrance("calls", joinPlaces, joinPlaces, limits.QueueTime),
		probes:  newEntrance("requests for metrics and health", probePlaces, probePlaces, limits.QueueTime),
		large:   newEntrance("large requests", limits.LargeRequests, inside, limits.Patience),
		leader:  newEntrance("requests to the leader", limits.AtLeader, inside, limits.Patience),
		parts:   newEntrance("reads of output at the leader", partPlaces, inside, limits.Patience),
		turns:   newEntrance("calls that compute", limits.Computing, inside, limits.Patience),
	}
}

// entrance returns where a call comes in.
func (d *door) entrance(who identity.Identity, procedure string) *entrance {
	switch {
	case who.Role == identity.Replica:
		return d.join
	case procedure == apipbconnect.JobServiceOutputProcedure, procedure == apipbconnect.JobServiceFileProcedure:
		return d.outputs
	case waits[procedure]:
		return d.watches
	default:
		return d.calls
	}
}

// enter waits for a place for a call, at most Limits.QueueTime. Call leave when the call has ended. Otherwise
// `crowded` says how many calls of the subject are in flight, and the limit, and `after` when to come again.
func (d *door) enter(ctx context.Context, who identity.Identity, procedure string) (leave func(), crowded string, after time.Duration) {
	e, of := d.entrance(who, procedure), subjectOf(who)
	t := e.enter(ctx, of)
	if t != nil {
		return func() { e.leave(t) }, "", 0
	}
	return nil, d.crowded(e, of), e.due(of, time.Now())
}

// crowded counts a refusal, and says how many places of an entrance the subject has.
func (d *door) crowded(e *entrance, of subject) string {
	d.refused.add(of, time.Now())
	held, share, limit := e.holds(of)
	return fmt.Sprintf("%d %s of %s in flight on replica %s, with a limit of %d for each of the present users (%d in all): retry later, or use another replica",
		held, e.kind, of, d.replica, share, limit)
}

func (d *door) stats(now time.Time) Stats {
	s := Stats{CallsLimit: d.calls.places.limit, WatchesLimit: d.watches.places.limit, OutputsLimit: d.outputs.places.limit}
	s.Calls, _ = d.calls.count()
	s.Watches, _ = d.watches.count()
	s.Outputs, _ = d.outputs.count()
	for _, e := range []*entrance{d.calls, d.watches, d.outputs, d.join, d.probes, d.large, d.leader, d.parts, d.turns} {
		_, waiting := e.count()
		s.Queued += waiting
	}
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

func newEntrance(kind string, limit, queue int, patience time.Duration) *entrance {
	return &entrance{kind: kind, patience: patience, places: newPlaces(limit, queue), admitted: map[*ticket]chan struct{}{}}
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
	// Half of it is random, so that calls that came together do not all go together.
	timer := time.NewTimer(e.patience/2 + rand.N(e.patience/2+1))
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

// spend is leave where a share of less than a place is a part of the time. The time is divided into `fewest` shares
// at least.
func (e *entrance) spend(t *ticket, fewest int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pause(t.of, e.places.pause(time.Since(t.began), fewest))
	e.places.leave(t)
	e.settle()
}

// pause gives a subject with more calls no place for some time, at most an eighth of its patience: one call that was
// slow, on a machine that is busy with other things, does not have the next ones refused. The caller holds the lock.
func (e *entrance) pause(of *holding, pause time.Duration) {
	pause = min(pause, e.patience/8)
	if pause <= 0 || of.pauses || len(of.waiting) == 0 {
		return
	}
	of.pauses = true
	time.AfterFunc(pause, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		of.pauses = false
		e.places.drop(of)
		e.settle()
	})
}

// maxDue is the longest time after which a call is asked to come again: clients wait no longer.
const maxDue = 10 * time.Second

// due returns after what time half of the calls of a subject that wait now will have had their places, as fast as its
// calls have ended so far: whoever comes again sooner only waits again. It is 0 if nothing is known.
func (e *entrance) due(of subject, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.places.subjects[of]
	if h == nil || h.ended == 0 {
		return 0
	}
	return min(maxDue, now.Sub(h.began)*time.Duration(len(h.waiting)+1)/time.Duration(2*h.ended))
}

// charge gives a subject with more calls, one of which has a place, no other place for some time.
func (e *entrance) charge(of subject, pause time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pause(e.places.subjects[of], pause)
}

// settle lets in whoever can have a place now. The caller holds the lock.
func (e *entrance) settle() {
	for t := e.places.admit(); t != nil; t = e.places.admit() {
		t.began = time.Now()
		switch h := t.of; {
		case h.began.IsZero():
			h.began = t.began
		case t.began.Sub(h.began) > maxDue:
			// What was long ago counts less.
			h.began, h.ended = h.began.Add(t.began.Sub(h.began)/2), h.ended/2
		}
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

// subject is who makes calls, and has a share of the places for them.
type subject struct {
	role identity.Role
	name string
}

func subjectOf(who identity.Identity) subject { return subject{who.Role, who.Name} }

// String names the subject in errors: user ann, operator oda.
func (s subject) String() string {
	if s.role == identity.User {
		return "user " + s.name
	}
	return s.role.String() + " " + s.name
}

// places shares places for calls among subjects. It knows no clock, and is not safe for concurrent use.
//
// The fair share of a subject is 1/(n+1) of the places when n subjects have calls: the last part is for the
// subject that comes next. A call of a subject that holds its fair share waits. A place that
// comes free goes to the subject that holds fewest of those with a call that waits; of equals, to the
// one that has waited longest since it got a place or came.
type places struct {
	limit int
	// queue bounds the calls of one subject that wait.
	queue    int
	taken    int
	waiting  int
	subjects map[subject]*holding
	// now grows with each subject that comes and each place that is given.
	now uint64
}

// holding is what a subject has. It is dropped when that is nothing.
type holding struct {
	of      subject
	held    int
	waiting []*ticket // oldest first
	// since is when the subject came or last got a place, as a number that grows.
	since uint64
	// pauses says that the subject gets no place for now.
	pauses bool
	// ended is how many of its calls had a place and have ended, since the first got its place at began.
	ended int
	began time.Time
}

// ticket is a call that waits.
type ticket struct {
	of *holding
	// began is when the call got its place.
	began time.Time
}

func newPlaces(limit, queue int) *places {
	return &places{limit: limit, queue: queue, subjects: map[subject]*holding{}}
}

// share returns the fair share of a subject, at least 1.
func (p *places) share() int { return max(1, p.limit/(len(p.subjects)+1)) }

// pause returns how long a subject that had a place for some time has to wait for the next one, so that it has
// its fair share of the time, which is divided into some shares at least. It is 0 if this share is a place or more.
func (p *places) pause(had time.Duration, fewest int) time.Duration {
	shares := max(len(p.subjects)+1, fewest)
	return had * time.Duration(max(0, shares-p.limit)) / time.Duration(p.limit)
}

// enter asks for a place. It returns the ticket of the call, which admit may return, or nil if
// too many calls of the subject wait already.
func (p *places) enter(of subject) *ticket {
	h := p.subjects[of]
	if h == nil {
		p.now++
		h = &holding{of: of, since: p.now}
		p.subjects[of] = h
	}
	if len(h.waiting) >= p.queue {
		return nil
	}
	t := &ticket{of: h}
	h.waiting = append(h.waiting, t)
	p.waiting++
	return t
}

// admit gives a place to the call that is next, and returns its ticket; nil if no call can have one. Call
// it after each change until it returns nil.
func (p *places) admit() *ticket {
	if p.taken >= p.limit || p.waiting == 0 {
		return nil
	}
	var next *holding
	for _, h := range p.subjects {
		if len(h.waiting) > 0 && !h.pauses && h.held < p.share() && (next == nil || h.before(next)) {
			next = h
		}
	}
	if next == nil {
		return nil
	}
	first := next.waiting[0]
	next.waiting = next.waiting[1:]
	p.waiting--
	p.now++
	next.held, next.since = next.held+1, p.now
	p.taken++
	return first
}

// before reports whether the next place is for h rather than for other.
func (h *holding) before(other *holding) bool {
	return cmp.Or(cmp.Compare(h.held, other.held), cmp.Compare(h.since, other.since)) < 0
}

// leave gives back the place of an admitted call.
func (p *places) leave(t *ticket) {
	t.of.held--
	t.of.ended++
	p.taken--
	p.drop(t.of)
}

// abandon takes back a ticket that admit has not returned.
func (p *places) abandon(t *ticket) {
	for i, waits := range t.of.waiting {
		if waits == t {
			t.of.waiting = append(t.of.waiting[:i:i], t.of.waiting[i+1:]...)
			p.waiting--
			break
		}
	}
	p.drop(t.of)
}

func (p *places) drop(h *holding) {
	if h.held == 0 && len(h.waiting) == 0 && !h.pauses {
		delete(p.subjects, h.of)
	}
}

package show

import (
	"slices"
	"sync"
	"time"

	"weir/messages/actorpb"
	"weir/messages/apipb"
)

// nearly is how far apart shares may be and count as the same.
const nearly = 1e-6

// moment is how things stand from a time on until the next moment.
type moment struct {
	at             time.Duration
	service, heavy holding
}

// holding is what an operation has: parts of the cluster.
type holding struct {
	// fair is its fair share, 0 while it is not known.
	fair float64
	// live is held by jobs that may stay, draining by those that were told to go.
	live, draining float64
}

// used is its usage share: jobs that leave have not left.
func (h holding) used() float64 { return h.live + h.draining }

// trace is how a run went.
type trace struct {
	// part is what one job holds of the cluster.
	part float64

	mu      sync.Mutex
	began   time.Time
	moments []moment
}

func newTrace(jobs int) *trace {
	return &trace{part: 1 / float64(jobs), began: time.Now(), moments: []moment{{}}}
}

// since returns the time since the beginning.
func (t *trace) since() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.began)
}

// restart begins anew with how things stand now.
func (t *trace) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.moments[len(t.moments)-1]
	now.at = 0
	t.began, t.moments = time.Now(), []moment{now}
}

// note adds a moment that differs from the one before by change, if it does.
func (t *trace) note(change func(*moment)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.moments[len(t.moments)-1]
	next := last
	change(&next)
	if next != last {
		next.at = time.Since(t.began)
		t.moments = append(t.moments, next)
	}
}

// hold notes the jobs of an operation, as discovery has them.
func (t *trace) hold(of func(*moment) *holding, instances []*apipb.Instance) {
	live, draining := 0, 0
	for _, instance := range instances {
		switch instance.GetState() {
		case actorpb.InstanceLive:
			live++
		case actorpb.InstanceDraining:
			draining++
		}
	}
	t.note(func(m *moment) {
		h := of(m)
		h.live, h.draining = float64(live)*t.part, float64(draining)*t.part
	})
}

func serviceOf(m *moment) *holding { return &m.service }
func heavyOf(m *moment) *holding   { return &m.heavy }

// all returns the moments so far, the present one last.
func (t *trace) all() []moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.moments[len(t.moments)-1]
	now.at = time.Since(t.began)
	return append(slices.Clone(t.moments), now)
}

// reached returns how long after from the service uses no more than its fair share, and
// the heavy operation no less than its own.
func reached(moments []moment, from time.Duration) (took time.Duration, ok bool) {
	for _, m := range moments {
		if m.at < from || m.heavy.fair == 0 {
			continue
		}
		if m.service.used() <= m.service.fair+nearly && m.heavy.used() >= m.heavy.fair-nearly {
			return m.at - from, true
		}
	}
	return 0, false
}

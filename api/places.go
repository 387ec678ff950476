package api

import (
	"cmp"

	"weir/cluster/identity"
)

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
// comes free goes to the subject that holds fewest of those with a call that waits.
type places struct {
	limit int
	// queue bounds the calls of one subject that wait.
	queue    int
	taken    int
	waiting  int
	subjects map[subject]*holding
	tickets  uint64
}

// holding is what a subject has. It is dropped when that is nothing.
type holding struct {
	of      subject
	held    int
	waiting []*ticket // oldest first
}

// ticket is a call that waits.
type ticket struct {
	of     *holding
	number uint64
}

func newPlaces(limit int) *places {
	return &places{limit: limit, queue: limit, subjects: map[subject]*holding{}}
}

// share returns the fair share of a subject, at least 1.
func (p *places) share() int { return max(1, p.limit/(len(p.subjects)+1)) }

// enter asks for a place. It returns the ticket of the call, which admit may return, or nil if
// too many calls of the subject wait already.
func (p *places) enter(of subject) *ticket {
	h := p.subjects[of]
	if h == nil {
		h = &holding{of: of}
		p.subjects[of] = h
	}
	if len(h.waiting) >= p.queue {
		return nil
	}
	p.tickets++
	t := &ticket{of: h, number: p.tickets}
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
		if len(h.waiting) > 0 && h.held < p.share() && (next == nil || h.before(next)) {
			next = h
		}
	}
	if next == nil {
		return nil
	}
	first := next.waiting[0]
	next.waiting = next.waiting[1:]
	p.waiting--
	next.held++
	p.taken++
	return first
}

// before reports whether the next place is for h rather than for other.
func (h *holding) before(other *holding) bool {
	return cmp.Or(cmp.Compare(h.held, other.held), cmp.Compare(h.waiting[0].number, other.waiting[0].number)) < 0
}

// leave gives back the place of an admitted call.
func (p *places) leave(t *ticket) {
	t.of.held--
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
	if h.held == 0 && len(h.waiting) == 0 {
		delete(p.subjects, h.of)
	}
}

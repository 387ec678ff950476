package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
)

// Inquiry is a question of somebody why an operation or a pool is as it is. It is answered
// in turns: what only the engine knows it notes in short steps, so that who asks does not
// hold up decisions, however many nodes, tasks and operations there are; what follows from
// that is found beside the engine.
//
//	q, err := e.Inquire(id, now)
//	for done := false; !done; done = q.Reason() {
//		for q.Wants() {
//			e.Attend(q)
//		}
//	}
//
// Inquire and Attend are for the goroutine of the engine. Reason is for any, but while it
// runs no other Inquiry of this engine may be attended to, or reason.
type Inquiry struct {
	now    time.Time
	survey *survey
	// asks are what is known of the operations in question: of the one, or of those below
	// a pool, as long as rest is not empty only some of these.
	asks []ask
	rest []*operation
	// unasked are those of a pool with too many of them.
	unasked int
	pool    scheduling.PoolName
	// search looks for those who could have to leave; nil: nobody asks for that.
	search *search
	// fares is how the operation does, tail are facts that come last.
	fares, tail []Fact
	x           Explanation
}

// inquiries notes what only the engine knows for those who ask.
type inquiries struct {
	*tree

	gangs    *gangs
	victims  *selector
	graceful *graceful
	stages   *stages

	// survey is what those see who ask, until the next update; nil: nobody has. surveys
	// numbers them.
	survey  *survey
	surveys uint64
}

const (
	// asksPerStep bounds for how many operations of a pool the engine is held up at once,
	// maxAsks how many are looked at in all.
	asksPerStep, maxAsks = 128, 1000
)

// Inquire begins to ask why the jobs of an operation do not start, and why its share is
// what it is.
func (e *Engine) Inquire(id scheduling.OperationID, now time.Time) (*Inquiry, error) {
	op := e.tree.operations[id]
	if op == nil {
		return nil, fmt.Errorf("explain operation %s: %w", id, ErrUnknown)
	}
	q := &Inquiry{now: now, asks: []ask{e.inquiries.ask(op, now)}, survey: e.inquiries.beginSurvey()}
	a := &q.asks[0]
	if len(a.tasks) > 0 {
		a.hopes, a.outrun = e.inquiries.hopes(op)
	}
	q.fares = e.inquiries.explainHunger(op, a.hopes)
	tail := &Explanation{}
	q.x.Share = e.inquiries.explainShare(tail, starver{operation: op})
	noted, err := e.Facts(id)
	q.tail = slices.Concat(tail.Facts, refusalFacts(noted))
	return q, err
}

// InquirePool begins to ask why the share of a pool is what it is, what keeps it from
// more, and what the operations below it wait for.
func (e *Engine) InquirePool(name scheduling.PoolName, now time.Time) (*Inquiry, error) {
	p := e.tree.pools[name]
	if p == nil {
		return nil, fmt.Errorf("explain pool %q: %w", name, ErrUnknown)
	}
	q := &Inquiry{now: now, pool: name, survey: e.inquiries.beginSurvey(), rest: p.below(nil)}
	q.x.Share = e.inquiries.explainShare(&q.x, starver{pool: p})
	if p.parent != nil {
		q.x.Facts = append(q.x.Facts, hungerFact(p.clock, p.timeouts(), "pool "+quote(p.name)))
	}
	for up := p; up != nil; up = up.parent {
		if k, reached := reached(up.order, up.effective.Limits); reached {
			q.x.Facts = append(q.x.Facts, limitFact(k, up.order, up.effective.Limits, up.name))
		}
	}
	refusals, err := e.PoolRefusals(name)
	for _, r := range refusals {
		q.tail = append(q.tail, refusalFact(r))
	}
	return q, err
}

// below appends the operations of a pool and of those below it.
func (p *pool) below(all []*operation) []*operation {
	all = append(all, p.operations...)
	for _, c := range p.pools {
		all = c.below(all)
	}
	return all
}

// Wants reports whether there is something that the engine has to say first.
func (q *Inquiry) Wants() bool {
	return !q.survey.taken() || q.pool == "" && !q.survey.contest.known() || len(q.rest) > 0 || q.search != nil && !q.search.over
}

// Attend takes one step of what an inquiry wants from the engine.
func (e *Engine) Attend(q *Inquiry) {
	switch {
	case !q.survey.taken():
		e.inquiries.proceed(q.survey)
	case q.pool == "" && !q.survey.contest.known():
		e.inquiries.compete(q.survey)
	case len(q.rest) > 0:
		e.inquiries.askMore(q)
	case q.search != nil && !q.search.over:
		e.inquiries.searchMore(q.search)
	}
}

// askMore takes note of some more of the operations of a pool. They may go by filters that
// have come since the nodes were looked at: then that begins anew.
func (iq *inquiries) askMore(q *Inquiry) {
	if q.survey.edits != iq.cluster.filters.edits {
		q.survey = iq.beginSurvey()
	}
	for range asksPerStep {
		if len(q.rest) == 0 || len(q.asks) == maxAsks {
			q.unasked, q.rest = len(q.rest), nil
			return
		}
		op := q.rest[0]
		q.rest = q.rest[1:]
		if iq.tree.operations[op.ID] == op && op.pool != nil {
			q.asks = append(q.asks, iq.ask(op, q.now))
		}
	}
}

// Reason finds what follows from what the engine has said. It reports whether that is all;
// if not, the engine is wanted again.
func (q *Inquiry) Reason() (done bool) {
	q.survey.classify()
	if q.pool != "" {
		q.explainPool()
		return true
	}
	a := &q.asks[0]
	v := q.judge(a)
	if q.search == nil && v.worthSearch(a) {
		if q.search = q.newSearch(a, v); q.search != nil {
			return false
		}
	}
	q.explainOperation(a, v)
	return true
}

// Explanation is the answer, once Reason has said that it is done.
func (q *Inquiry) Explanation() Explanation { return q.x }

// answer goes on with an inquiry to its end, of this moment.
func (e *Engine) answer(q *Inquiry, err error) (Explanation, error) {
	if err != nil {
		return Explanation{}, err
	}
	e.inquiries.survey = nil
	q.survey = e.inquiries.beginSurvey()
	for done := false; !done; done = q.Reason() {
		for q.Wants() {
			e.Attend(q)
		}
	}
	return q.x, nil
}

// Explain says of an operation why its jobs do not start, and why its share is what it
// is: all of an Inquiry at once.
func (e *Engine) Explain(id scheduling.OperationID, now time.Time) (Explanation, error) {
	return e.answer(e.Inquire(id, now))
}

// ExplainPool says of a pool why its share is what it is, what keeps it from more, and
// what its operations wait for: all of an Inquiry at once.
func (e *Engine) ExplainPool(name scheduling.PoolName, now time.Time) (Explanation, error) {
	return e.answer(e.InquirePool(name, now))
}

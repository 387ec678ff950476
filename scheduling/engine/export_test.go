package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

// Filters returns how many filters are in use.
func (e *Engine) Filters() int { return len(e.cluster.filters.all) - len(e.cluster.filters.free) }

// answer goes on with an inquiry to its end, of this moment.
func (e *Engine) answer(q *Inquiry, err error) (explain.Explanation, error) {
	if err != nil {
		return explain.Explanation{}, err
	}
	e.inquiries.survey = nil
	q.use(e.inquiries.beginSurvey())
	for done := false; !done; done = q.Reason() {
		for q.Wants() {
			e.Attend(q)
		}
	}
	return q.Explanation(), nil
}

// Explain says of an operation why its jobs do not start, and why its share is what it
// is: all of an Inquiry at once.
func (e *Engine) Explain(id scheduling.OperationID, now time.Time) (explain.Explanation, error) {
	return e.answer(e.Inquire(id, now))
}

// ExplainPool says of a pool why its share is what it is, what keeps it from more, and
// what its operations wait for: all of an Inquiry at once.
func (e *Engine) ExplainPool(name scheduling.PoolName, now time.Time) (explain.Explanation, error) {
	return e.answer(e.InquirePool(name, now))
}

package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
)

// Filters returns how many filters are in use.
func (e *Engine) Filters() int { return len(e.cluster.filters.all) - len(e.cluster.filters.free) }

// Whole lets the next Tick compute all fair shares, not only those that changes move.
func (e *Engine) Whole() { e.moment.stale = true }

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
	e.Conclude(q)
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

// Facts is what the engine has noted of an operation while it decided.
type Facts struct {
	Refusals []explain.Refusal
	Ended    EndedClaim
	Spared   [preemption.BlockedByRate + 1]uint64
}

// Facts returns what has been noted of an operation.
func (e *Engine) Facts(id scheduling.OperationID) (Facts, error) {
	op := e.tree.operations[id]
	if op == nil {
		return Facts{}, fmt.Errorf("facts of operation %s: %w", id, ErrUnknown)
	}
	return Facts{Refusals: op.refusals(), Ended: op.ended, Spared: op.spared}, nil
}

// Holding returns the allocation of a job.
func (e *Engine) Holding(job scheduling.JobID) (Holding, bool) {
	h := e.holdings.allocations[job]
	if h == nil {
		return Holding{}, false
	}
	return h.view(), true
}

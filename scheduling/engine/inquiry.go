package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Inquiry is a request to explain the state of an operation or a pool. The engine notes what only
// it knows, in short steps, so that inquiries do not delay decisions, however many nodes, tasks and
// operations there are. The conclusions are drawn outside the engine. Both alternate until the
// answer is complete.
//
//	q, err := e.Inquire(id, now)
//	for done := false; !done; done = q.Reason() {
//		for q.Wants() {
//			e.Attend(q)
//		}
//	}
//	e.Conclude(q)
//
// Inquire, Attend and Conclude are for the goroutine of the engine. Any goroutine may call Reason, but
// while it runs no other Inquiry of this engine may be attended to, or reason.
type Inquiry struct {
	known  explain.Case
	survey *survey
	// op is the operation in question. by holds, for each stage, the element whose starvation lets
	// op preempt others.
	op *operation
	by [preemption.StageCount]starver
	// rest are the operations below the pool in question that have not been noted yet.
	rest []*operation
}

// inquiries notes for inquiries what only the engine knows.
type inquiries struct {
	*gangs

	victims  *selector
	graceful *graceful
	stages   *stages

	// survey is shared by all inquiries until the next update; nil if none has begun. surveys is
	// the number of the last survey.
	survey  *survey
	surveys uint64
}

const (
	// asksPerStep is the maximum number of operations of a pool that the engine notes in one step.
	// maxAsks is the maximum number of them in all steps.
	asksPerStep, maxAsks = 128, 1000
)

// Inquire begins to explain why the jobs of an operation do not start, and why its share is what
// it is.
func (e *Engine) Inquire(id scheduling.OperationID, now time.Time) (*Inquiry, error) {
	op := e.tree.operations[id]
	if op == nil {
		return nil, fmt.Errorf("explain operation %s: %w", id, ErrUnknown)
	}
	q := e.inquiries.begin(now)
	q.op, q.known.Asks = op, []explain.Asked{e.inquiries.ask(op, now)}
	a := &q.known.Asks[0]
	if len(a.Tasks) > 0 {
		a.Hopes, q.by, a.Outrun = e.inquiries.hopes(op)
	}
	q.known.Widths = e.tree.history.widths(now)
	q.known.Fares = e.inquiries.fares(op, q.by)
	q.known.Answer.Share, q.known.Tail = explain.Share(op.level())
	q.known.Tail = append(q.known.Tail, op.explained()...)
	return q, nil
}

// InquirePool begins to explain why the share of a pool is what it is, what keeps it from being
// more, and what the operations below it wait for.
func (e *Engine) InquirePool(name scheduling.PoolName, now time.Time) (*Inquiry, error) {
	p := e.tree.pools[name]
	if p == nil {
		return nil, fmt.Errorf("explain pool %q: %w", name, ErrUnknown)
	}
	q := e.inquiries.begin(now)
	q.rest, q.known.Pool = p.below(nil), name
	x := &q.known.Answer
	x.Share, x.Facts = explain.Share(p.level())
	if p.parent != nil {
		x.Facts = append(x.Facts, explain.Fares(p.clock, p.timeouts(), explain.PoolTitle(name)))
	}
	x.Facts = append(x.Facts, explain.LimitsReached(p.allLimits())...)
	for _, r := range p.refusals() {
		q.known.Tail = append(q.known.Tail, r.Fact())
	}
	return q, nil
}

// begin returns an inquiry as of now.
func (iq *inquiries) begin(now time.Time) *Inquiry {
	q := &Inquiry{known: explain.Case{Now: now}}
	q.use(iq.beginSurvey())
	return q
}

// use sets the survey of an inquiry.
func (q *Inquiry) use(s *survey) { q.survey, q.known.Survey = s, &s.noted }

// below appends the operations of a pool and of the pools below it.
func (p *pool) below(all []*operation) []*operation {
	all = append(all, p.operations...)
	for _, c := range p.pools {
		all = c.below(all)
	}
	return all
}

// Wants reports whether the engine has to attend to the inquiry before Reason can continue.
func (q *Inquiry) Wants() bool {
	return !q.survey.taken() || q.competes() || len(q.rest) > 0 || q.searches()
}

// competes reports whether the inquiry is about an operation and the operations that compete
// with it are not all noted.
func (q *Inquiry) competes() bool { return q.op != nil && !q.survey.rivals.known() }

func (q *Inquiry) searches() bool { return q.known.Search != nil && !q.known.Search.Over }

// Attend takes one step in noting what an inquiry wants from the engine.
func (e *Engine) Attend(q *Inquiry) {
	switch {
	case !q.survey.taken():
		e.inquiries.proceed(q.survey)
	case q.competes():
		e.inquiries.compete(q.survey)
	case len(q.rest) > 0:
		e.inquiries.askMore(q)
	case q.searches():
		e.inquiries.searchMore(q)
	}
}

// askMore notes some more operations of a pool. If a filter is newer than the survey, a new survey
// begins.
func (iq *inquiries) askMore(q *Inquiry) {
	if q.survey.edits != iq.cluster.filters.edits {
		q.use(iq.beginSurvey())
	}
	for range asksPerStep {
		if len(q.rest) == 0 || len(q.known.Asks) == maxAsks {
			q.known.Unasked, q.rest = len(q.rest), nil
			return
		}
		op := q.rest[0]
		q.rest = q.rest[1:]
		if iq.tree.operations[op.ID] == op && op.pool != nil {
			q.known.Asks = append(q.known.Asks, iq.ask(op, q.known.Now))
		}
	}
}

// Reason draws conclusions from the engine's notes. It reports whether the explanation is
// complete; if not, the engine has to attend again.
func (q *Inquiry) Reason() (done bool) { return q.known.Reason() }

// Explanation is the answer, once Reason has reported that it is complete.
func (q *Inquiry) Explanation() explain.Explanation { return q.known.Answer }

// ClaimEnd says how a claim ended.
type ClaimEnd uint8

// The ends of claims.
const (
	// NotEnded: no claim of the operation has ended.
	NotEnded ClaimEnd = iota
	// ClaimStarted: its job was started.
	ClaimStarted
	// ClaimUnwanted: the operation wants no more jobs, or may not start any on the node.
	ClaimUnwanted
	// ClaimUnmet: all victims have left, but the job still does not fit.
	ClaimUnmet
	// ClaimExpired: the victims did not leave in time.
	ClaimExpired
	// ClaimNodeLost: the node was removed.
	ClaimNodeLost
	// ClaimRefused: the orders to the victims were not committed.
	ClaimRefused
	// ClaimOverLimits: with the claim, the operation or a pool above used more than its limits.
	ClaimOverLimits
)

// String returns the name of the end, such as "expired".
func (c ClaimEnd) String() string {
	return [...]string{"none", "started", "unwanted", "unmet", "expired", "node_lost", "refused", "over_limits"}[c]
}

// EndedClaim is a claim that has ended.
type EndedClaim struct {
	End  ClaimEnd
	At   time.Time
	Node scheduling.NodeID
}

// explained returns the facts about refusals of nodes: first of the operation, then of the pools
// above it. The last fact is how the operation's last claim ended, unless the job of that claim
// started.
func (op *operation) explained() (all []explain.Fact) {
	for _, r := range op.refusals() {
		all = append(all, r.Fact())
	}
	if c := op.ended; c.End != NotEnded && c.End != ClaimStarted {
		all = append(all, explain.GivenBack(c.Node, c.At, c.End))
	}
	return all
}

// ExplainJob explains how safe a job is from preemption, or why it has to leave.
func (e *Engine) ExplainJob(job scheduling.JobID) (explain.Explanation, error) {
	h := e.holdings.allocations[job]
	if h == nil {
		return explain.Explanation{}, fmt.Errorf("explain job %s: %w", job, ErrUnknown)
	}
	j, op := h.explained(), h.operation
	j.Resource = resource.Dominant(op.order.Usage(), e.cluster.total)
	j.Usage, j.Fair = resource.Share(op.order.Usage(), e.cluster.total)[j.Resource], op.groups.Bounds().Fair[j.Resource]
	j.Spared = op.spared
	return j.Explain(), nil
}

// explained describes h for an inquiry.
func (h *holding) explained() explain.Job {
	j := explain.Job{Job: h.Job, Operation: h.operation.ID, Node: h.node.id, Started: h.Started, Level: h.Level()}
	if l := h.leaving; l != nil {
		j.Leaving, j.Ordered, j.Deadline, j.Kind = true, l.ordered, l.deadline, l.kind
		if l.claim != nil {
			j.For = l.claim.operation.ID
		}
	}
	return j
}

// refusals returns the causes for which an element was passed over on nodes, followed by the causes
// for which a pool above it was passed over as a whole.
func (e *element) refusals() (all []explain.Refusal) {
	for ; e != nil; e = e.above {
		for cause, noted := range e.order.Facts {
			if noted.Count == 0 {
				continue
			}
			r := explain.Refusal{
				Cause: allocation.Cause(cause), Count: noted.Count, Of: e.name, At: noted.Last.At, Node: noted.Last.Node, Resource: noted.Last.Resource,
			}
			if by := noted.Last.By; by != nil {
				if p, ok := by.Owner().(*pool); ok {
					r.By = p.name
				}
			}
			all = append(all, r)
		}
	}
	return all
}

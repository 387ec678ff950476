package engine

import (
	"slices"

	"weir/scheduling/resource"
)

// taking says that an operation took resources from another one, for which that one takes
// none back (X8): fair shares depend on what is used, so that two that cannot both have
// theirs could take turns for ever. It is over when the demand of one of them has changed,
// or its fair share by a job, and holds for no more than the taker had then.
type taking struct {
	from *operation
	// own and theirs are the taker's and the other's at that time.
	own, theirs stake
	// usage is that of the taker, with what it took.
	usage resource.Amounts
}

// stake is what an operation asks for and ought to have.
type stake struct {
	jobs int64
	fair resource.Amounts
}

func (e *Engine) stake(op *operation) stake {
	s := stake{jobs: int64(op.held), fair: op.share.FairShare.Amounts(e.total)}
	for _, t := range op.tasks {
		s.jobs += t.pending - t.inFlight
	}
	return s
}

// took notes that an operation has taken from another.
func (e *Engine) took(op, from *operation) {
	op.takings = slices.DeleteFunc(op.takings, func(t taking) bool { return t.from == from || t.from.removed })
	op.takings = append(op.takings, taking{from: from, own: e.stake(op), theirs: e.stake(from), usage: op.order.Usage()})
}

// barred reports whether an operation must not take h for a job that needs so much: its
// operation has taken from it, or from one that has, and so on.
func (e *Engine) barred(op *operation, h *holding, needs resource.Amounts) bool {
	from := h.operation
	if len(from.takings) == 0 {
		return false
	}
	left := from.order.Usage().Sub(h.Resources)
	if from.loss.trial == e.trial {
		left = left.Sub(from.loss.amount)
	}
	e.walk++
	from.walk = e.walk
	for _, t := range from.takings {
		if !t.usage.Fits(left) && e.owes(t, from, op, needs) {
			return true
		}
	}
	return false
}

// owes reports whether a taking, or one of who lost by it, and so on, was from op.
func (e *Engine) owes(t taking, taker, op *operation, needs resource.Amounts) bool {
	from := t.from
	if from.walk == e.walk || !e.holds(t, taker, needs) {
		return false
	}
	if from == op {
		return true
	}
	from.walk = e.walk
	for _, further := range from.takings {
		if e.owes(further, from, op, needs) {
			return true
		}
	}
	return false
}

// holds reports whether nothing has changed since a taking that would make a job of the
// other one more rightful.
func (e *Engine) holds(t taking, taker *operation, needs resource.Amounts) bool {
	own, theirs := e.stake(taker), e.stake(t.from)
	if own.jobs != t.own.jobs || theirs.jobs != t.theirs.jobs {
		return false
	}
	less, more := t.own.fair.Sub(own.fair), theirs.fair.Sub(t.theirs.fair)
	for k := range resource.Kind(resource.Count) {
		if n := needs.Of(k); n > 0 && max(less.Of(k), more.Of(k)) >= n {
			return false
		}
	}
	return true
}

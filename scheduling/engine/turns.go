package engine

import (
	"slices"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// taking says that an operation took resources from another one, for which that one takes
// none back in the same age (X8). Fair shares depend on what is used, so that two that
// cannot both have theirs would take turns for ever.
type taking struct {
	from *operation
	age  uint64
	// usage is that of the taker, with what it took: what it has above that is not spared.
	usage resource.Amounts
}

// took notes that an operation has taken from another.
func (e *Engine) took(op, from *operation) {
	op.takings = slices.DeleteFunc(op.takings, func(t taking) bool { return t.from == from || t.age != e.age })
	op.takings = append(op.takings, taking{from: from, age: e.age, usage: op.order.Usage()})
}

// barred reports whether an operation must not take h: the operation of h has taken from
// it, or from one that has, and so on.
func (e *Engine) barred(op *operation, h *holding) bool {
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
		if !t.usage.Fits(left) && e.owes(t, op) {
			return true
		}
	}
	return false
}

// owes reports whether a taking, or one of who lost by it, and so on, was from op.
func (e *Engine) owes(t taking, op *operation) bool {
	from := t.from
	if from.walk == e.walk || t.age != e.age {
		return false
	}
	if from == op {
		return true
	}
	from.walk = e.walk
	return slices.ContainsFunc(from.takings, func(further taking) bool { return e.owes(further, op) })
}

// grow begins an age where an operation asks for more jobs in all, or fewer, than at the
// last update, or what volumes pay for has changed: then shares move for another cause
// than who has what.
func (e *Engine) grow(p *pool) {
	for _, c := range p.pools {
		e.grow(c)
	}
	if i := p.share.IntegralShare; p.share.Pool.Integral.Type != fairshare.NoIntegral && !i.Near(p.paid, resource.LargeEpsilon) {
		p.paid = i
		e.age++
	}
	for _, op := range p.operations {
		wanted := int64(op.held)
		for _, t := range op.tasks {
			wanted += t.pending - t.inFlight
		}
		if wanted != op.wanted {
			op.wanted = wanted
			e.age++
		}
	}
}

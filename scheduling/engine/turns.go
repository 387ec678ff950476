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
func (sel *selector) took(op, from *operation) {
	op.takings = slices.DeleteFunc(op.takings, func(t taking) bool { return t.from == from || t.age != sel.moment.age })
	op.takings = append(op.takings, taking{from: from, age: sel.moment.age, usage: op.order.Usage()})
}

// barred reports whether an operation must not take h: the operation of h has taken from
// it, or from one that has, and so on.
func (sel *selector) barred(op *operation, h *holding) bool {
	from := h.operation
	if len(from.takings) == 0 {
		return false
	}
	left := from.order.Usage().Sub(h.Resources)
	if from.loss.selection == sel.selections {
		left = left.Sub(from.loss.amount)
	}
	sel.visits++
	from.visit = sel.visits
	for _, t := range from.takings {
		if !t.usage.Fits(left) && sel.owes(t, op) {
			return true
		}
	}
	return false
}

// owes reports whether a taking, or one of who lost by it, and so on, was from op.
func (sel *selector) owes(t taking, op *operation) bool {
	from := t.from
	if from.visit == sel.visits || t.age != sel.moment.age {
		return false
	}
	if from == op {
		return true
	}
	from.visit = sel.visits
	return slices.ContainsFunc(from.takings, func(further taking) bool { return sel.owes(further, op) })
}

// grow begins an age where an operation asks for more jobs in all, or fewer, than at the
// last update, or what volumes pay for has changed: then shares move for another cause
// than who has what.
func (u *update) grow(p *pool) {
	for _, c := range p.pools {
		u.grow(c)
	}
	if i := p.share.IntegralShare; p.share.Pool.Integral.Type != fairshare.NoIntegral && !i.Near(p.paid, resource.LargeEpsilon) {
		p.paid = i
		u.moment.age++
	}
	for _, op := range p.operations {
		wanted := int64(op.held)
		for _, t := range op.tasks {
			wanted += t.pending - t.inFlight
		}
		if wanted != op.wanted {
			op.wanted = wanted
			u.moment.age++
		}
	}
}

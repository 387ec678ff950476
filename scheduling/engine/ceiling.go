package engine

import (
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// ceiling is what max_share_ratio lets an element use: that part of what its parent may
// have, whose limits share of the last update is given (L2). Usage is held to it as fair
// shares are.
func ceiling(e *fairshare.Element, parent resource.Vector, total resource.Amounts) resource.Amounts {
	if !hasCeiling(e) {
		return resource.Infinite
	}
	return parent.Scale(e.MaxShareRatio).Amounts(total)
}

func hasCeiling(e *fairshare.Element) bool { return e.MaxShareRatio >= 0 && e.MaxShareRatio < 1 }

// keptCeiling is the ceiling from an edit on until the next update: the one that it
// was, or nothing where there was none.
func keptCeiling(e *fairshare.Element, was resource.Amounts) resource.Amounts {
	switch {
	case !hasCeiling(e):
		return resource.Infinite
	case was == resource.Infinite:
		return resource.Amounts{}
	}
	return was
}

// bound tells the order of scheduling what p may use.
func (p *pool) bound(ceiling resource.Amounts) {
	if ceiling == resource.Infinite {
		p.beyond = time.Time{}
	}
	p.ceiling = ceiling
	p.order.SetLimits(p.effective.Limits.Min(ceiling))
}

// bound tells the order of scheduling what op may use.
func (op *operation) bound(ceiling resource.Amounts) {
	if ceiling == resource.Infinite {
		op.beyond = time.Time{}
	}
	op.ceiling = ceiling
	op.order.SetLimits(op.effective.Limits.Min(ceiling))
}

package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// element is what pools and operations have in common.
type element struct {
	share *fairshare.Element
	order *allocation.Element
	// name is that of a pool, and empty for an operation.
	name scheduling.PoolName
	// above is the pool that it is in; nil: it is the root, or nowhere.
	above *element
	// fifo pools are in FIFO order.
	fifo bool
	// filter is the place of its own filter.
	filter int
	// limits are those that were set.
	limits resource.Amounts
	// ceiling is what max_share_ratio allows; it has used more since beyond.
	ceiling resource.Amounts
	beyond  time.Time
	clock   preemption.Clock
	loss    loss
	debt    debt
	// lengths is how long its jobs ran.
	lengths explain.Lengths
}

func newElement(share *fairshare.Element, order *allocation.Element) element {
	return element{share: share, order: order, filter: allocation.NoFilter, limits: resource.Infinite, ceiling: resource.Infinite}
}

// attach puts an element into a pool.
func (e *element) attach(to *element) {
	e.above = to
	to.share.Children = append(to.share.Children, e.share)
	e.order.Attach(to.order)
}

// detach takes an element out of its pool.
func (e *element) detach() {
	e.above.share.Children = without(e.above.share.Children, e.share)
	e.order.Detach()
	e.above = nil
}

// shares are those of now, with more usage.
func (e *element) shares(more, total resource.Amounts) preemption.Shares {
	return preemption.Shares{Usage: resource.Share(e.order.Usage().Add(more), total), Fair: e.share.FairShare, Min: e.share.MinShare, Demand: e.share.DemandShare}
}

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

// bound tells the order of scheduling what an element of these limits may use.
func (e *element) bound(limits, ceiling resource.Amounts) {
	if ceiling == resource.Infinite {
		e.beyond = time.Time{}
	}
	e.limits, e.ceiling = limits, ceiling
	e.order.SetLimits(limits.Min(ceiling))
}

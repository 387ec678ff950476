package allocation

import "weir/scheduling/resource"

// bounds are where jobs of an element may start, and how many.
type bounds struct {
	// limits are never exceeded by a start, where limited; by those that preempt others
	// no more than by tolerance.
	limits, tolerance resource.Amounts
	limited           bool
	// filter is the place in Node.Takes, or NoFilter.
	filter int
	// guarded operations start jobs only where Node.Admit lets them.
	guarded bool
}

// SetLimits sets what no start may make e exceed, resource.Infinite for nothing.
func (b *bounds) SetLimits(limits resource.Amounts) {
	b.limits, b.limited = limits, limits != resource.Infinite
}

// SetTolerance sets by how much a job that preempts others may make e exceed its limits.
func (b *bounds) SetTolerance(tolerance resource.Amounts) { b.tolerance = tolerance }

// SetGuarded says whether jobs of an operation start only where Node.Admit lets them.
func (b *bounds) SetGuarded(guarded bool) { b.guarded = guarded }

// SetFilter sets which nodes e may use: those whose Takes has true at this place.
func (b *bounds) SetFilter(filter int) { b.filter = filter }

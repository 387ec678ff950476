package fairshare

import (
	"slices"

	"weir/scheduling/resource"
)

// operationBySuggestion appends the function of an operation by suggestion.
//
// Its share by fit factor (F.7.2) grows over [0, 1] up to its usage: all resources grow equally
// until each reaches its usage. Over [1, 2] the share grows in a straight line to the demand. An
// operation has no guarantee, so over [0, 1] the suggestion is the share that the resources have in
// common, and no search is needed.
//
// A gang that steps has no share over [0, 1], and all of its demand beyond.
func operationBySuggestion(out []point, usage, demand, limits resource.Vector, step bool) []point {
	w := rise{out: append(out, point{}), from: len(out)}
	demand = demand.Max(usage)
	w.limit = limits.Min(demand)
	if step {
		if demand.Within(w.limit, rounding) && !demand.IsZero() {
			w.jump(&point{}, &point{share: demand})
		}
		return w.out
	}
	if !w.use(&usage) {
		return w.out
	}
	w.line(&point{x: 1, share: usage}, &point{x: 2, share: demand}, 0)
	return w.out
}

// use goes up to the usage of an operation. It returns false if it met a limit
// on the way.
func (w *rise) use(usage *resource.Vector) bool {
	most := usage.MaxComponent()
	if most <= 0 {
		return true
	}
	stop := most
	for r := range usage {
		if usage[r] > w.limit[r] {
			stop = min(stop, w.limit[r])
		}
	}
	levels := *usage
	slices.Sort(levels[:])
	for _, level := range levels {
		if level > w.suggestion && level < stop {
			w.suggestion = level
			share := usage.Min(resource.Uniform(level))
			w.corner(0, &share)
		}
	}
	w.suggestion = stop
	share := usage.Min(resource.Uniform(stop))
	w.corner(0, &share)
	return usage.Within(w.limit, rounding)
}

package fairshare

import "math"

// greatest returns the greatest number in [low, high] for which the function `holds` is true. If
// that is not high, it bisects the bit pattern and is exact to the last bit (F.1.5). The function
// `holds` must be true at low. Above a number for which it is false, it must be false.
//
// Invariant: 0 <= low <= high.
func greatest(low, high float64, holds func(float64) bool) float64 {
	if holds(high) {
		return high
	}
	// Numbers that are not negative are ordered as their bit patterns are.
	from, to := math.Float64bits(low), math.Float64bits(high)
	for to-from > 1 {
		middle := from + (to-from)/2
		if holds(math.Float64frombits(middle)) {
			from = middle
		} else {
			to = middle
		}
	}
	return math.Float64frombits(from)
}

// greatestNear is like `greatest` over [0, 1], for a result that is known up to rounding. That saves
// most of the bisection.
func greatestNear(guess float64, holds func(float64) bool) float64 {
	const margin = 1e-14
	if guess == 0 {
		return 0
	}
	low, high := guess*(1-margin), min(guess*(1+margin), 1)
	if !holds(low) {
		low = 0
	}
	if high < 1 && holds(high) {
		high = 1
	}
	return greatest(low, high, holds)
}

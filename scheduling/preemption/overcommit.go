package preemption

import (
	"slices"

	"weir/scheduling/resource"
)

// Overcommit returns those of the candidates that have to leave a node so that the rest fits
// into limits. The least preemptible, and of these the longest running, are kept
// greedily: one that does not fit goes and others that still fit stay. Jobs that
// started at the same time are taken in the order of their ids. Victims come in the
// reverse of this order.
//
// candidates is sorted in place.
func Overcommit[C Candidate](limits resource.Amounts, candidates []C) (victims []C) {
	slices.SortFunc(candidates, compare)
	free := limits
	for _, c := range slices.Backward(candidates) {
		if needs := c.Standing().Resources; needs.Fits(free) {
			free = free.Sub(needs)
			continue
		}
		victims = append(victims, c)
	}
	slices.Reverse(victims)
	return victims
}

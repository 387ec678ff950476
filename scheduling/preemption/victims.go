package preemption

import (
	"slices"

	"weir/scheduling/resource"
)

// Candidate is an allocation that may have to leave its node: what embeds a Member.
type Candidate interface{ Standing() *Member }

// Victims chooses which of the candidates have to leave so that needs fit into free
// and what they leave. The most preemptible ones go first, and of those the latest
// started; as many as it takes, and none of them could stay: without any one of the
// victims it would not fit. ok is false when all candidates together do not do.
//
// candidates is sorted in place: victims are its first part, in that order, and the
// others, in the same order, the rest. Nothing is chosen when needs fit as it is.
func Victims[C Candidate](needs, free resource.Amounts, candidates []C) (victims []C, ok bool) {
	slices.SortFunc(candidates, compare)
	n := 0
	for ; n < len(candidates) && !needs.Fits(free); n++ {
		free = free.Add(candidates[n].Standing().Resources)
	}
	if !needs.Fits(free) {
		return nil, false
	}
	end := n
	for i := end - 1; i >= 0; i-- {
		// What is not needed after all stays: the earlier it started, the rather.
		less := free.Sub(candidates[i].Standing().Resources)
		if !needs.Fits(less) {
			continue
		}
		free = less
		spared := candidates[i]
		copy(candidates[i:], candidates[i+1:n])
		n--
		candidates[n] = spared
	}
	slices.SortFunc(candidates[n:end], compare)
	return candidates[:n], true
}

// compare orders candidates: who has to go first is first.
func compare[C Candidate](a, b C) int {
	return a.Standing().Easier(b.Standing())
}

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

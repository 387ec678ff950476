package preemption

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Level says how easily an allocation is preempted: the group of F.12.1 that it is in.
type Level uint8

// The levels, from the most protected one.
const (
	// NonPreemptible allocations are never victims of other operations.
	NonPreemptible Level = iota
	// AggressivelyPreemptible allocations are victims of operations that starve aggressively.
	AggressivelyPreemptible
	// Preemptible allocations are victims of all operations that starve.
	Preemptible
)

// String returns the name of the level, such as "aggressively_preemptible".
func (l Level) String() string {
	if l > Preemptible {
		return fmt.Sprintf("preemption.Level(%d)", uint8(l))
	}
	return [...]string{"non_preemptible", "aggressively_preemptible", "preemptible"}[l]
}

// Member is an allocation among the allocations of its operation. Embed it in the caller's
// allocation. It holds list links: it must not be copied, and Job, Started and Resources must not
// change, while it is in Groups.
type Member struct {
	Job       scheduling.JobID
	Started   time.Time
	Resources resource.Amounts

	groups     *Groups
	prev, next *Member
	// within says for each cut whether the member is on the protected side.
	within [cutCount]bool
}

// Standing returns the member itself; it gives access to the Member of an embedding type.
func (m *Member) Standing() *Member { return m }

// Grouped reports whether the member is in Groups. A member that is leaving its node is in none.
func (m *Member) Grouped() bool { return m.groups != nil }

// Level returns how easily the allocation is preempted. A member that is in no Groups, because it
// is leaving or not added yet, is NonPreemptible.
func (m *Member) Level() Level {
	switch {
	case m.groups == nil || m.within[aggressiveCut]:
		return NonPreemptible
	case !m.within[normalCut]:
		return Preemptible
	case m.groups.bounds.Aggressive:
		return AggressivelyPreemptible
	default:
		return NonPreemptible
	}
}

// Gracefully reports whether the allocation may be told to leave although no other operation needs
// its resources: without the allocation, the operation still has its fair share times the threshold
// (J.3.1). The allocation that crosses the bound stays even if Bounds.OnBoundPreemptible is set.
// Otherwise it would leave, be started again, and leave again.
func (m *Member) Gracefully() bool {
	return m.Level() == Preemptible && !m.groups.bounds.Below(m.groups.usage.Sub(m.Resources))
}

// before reports whether m comes before n in the order of start; ids break ties.
func (m *Member) before(n *Member) bool {
	if !m.Started.Equal(n.Started) {
		return m.Started.Before(n.Started)
	}
	return m.Job < n.Job
}

// Candidate is an allocation that may have to leave its node: a type that embeds a Member.
type Candidate interface{ Standing() *Member }

// Victims chooses which of the candidates have to leave so that needs fit into free plus what the
// victims release. The most preemptible go first and, of equally preemptible ones, the latest
// started. The set is minimal: without any one of the victims, needs would not fit. The result ok
// is false if all candidates together are not enough.
//
// candidates is sorted in place: the victims come first, then the others, both in the order of
// preemption. Nothing is chosen when needs already fit.
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
		// Spare the ones that are not needed after all, the earliest started first.
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

// compare orders candidates: the first to go is first.
func compare[C Candidate](a, b C) int {
	return a.Standing().Easier(b.Standing())
}

// Overcommit returns the candidates that have to leave a node so that the rest fits into limits. It
// decides on the candidates one by one, the least preemptible first and, of equally preemptible
// ones, the longest running first, ties by id. A candidate that fits with those already kept is
// kept, and any other has to leave. Victims are returned in the reverse of this order.
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

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
	// AggressivelyPreemptible allocations are victims of those that starve
	// aggressively.
	AggressivelyPreemptible
	// Preemptible allocations are victims of all that starve.
	Preemptible
)

// String returns the name of the level, such as "aggressively_preemptible".
func (l Level) String() string {
	if l > Preemptible {
		return fmt.Sprintf("preemption.Level(%d)", uint8(l))
	}
	return [...]string{"non_preemptible", "aggressively_preemptible", "preemptible"}[l]
}

// Member is an allocation among those of its operation. It is meant to be embedded
// in what holds an allocation, and has links of its own: it must not be copied while
// it is in Groups. Job, Started and Resources must not change while it is.
type Member struct {
	Job       scheduling.JobID
	Started   time.Time
	Resources resource.Amounts

	groups     *Groups
	prev, next *Member
	// within says of each cut whether the member is on the protected side.
	within [cutCount]bool
}

// Standing returns the member itself, of whatever embeds it.
func (m *Member) Standing() *Member { return m }

// Grouped reports whether the member is in Groups. One that is leaving its node is
// not.
func (m *Member) Grouped() bool { return m.groups != nil }

// Level returns how easily the allocation is preempted. One that is in no Groups is
// NonPreemptible: it is leaving, or not there yet.
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

// Gracefully reports whether the allocation may be told to go although nobody needs
// its resources: without it the operation still has its fair share times the
// threshold (J.3.1). So the one that crosses the bound stays, whatever
// Bounds.OnBoundPreemptible says: it would go, come again and go again.
func (m *Member) Gracefully() bool {
	return m.Level() == Preemptible && !m.groups.bounds.Below(m.groups.usage.Sub(m.Resources))
}

// before reports whether m comes before n in the order of start; ids decide among
// equal times.
func (m *Member) before(n *Member) bool {
	if !m.Started.Equal(n.Started) {
		return m.Started.Before(n.Started)
	}
	return m.Job < n.Job
}

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

package preemption

import "weir/scheduling/resource"

// Status says whether an element has what it ought to have (F.11).
type Status uint8

const (
	// Normal elements have their fair share, or as much of it as is tolerated.
	Normal Status = iota
	// BelowFairShare elements have less and could use more.
	BelowFairShare
)

// String returns the name of the status, such as "below_fair_share".
func (s Status) String() string { return [...]string{"normal", "below_fair_share"}[s] }

// Shares is what an element uses, ought to have, can insist on and demands, as parts of
// the cluster.
type Shares struct {
	Usage, Fair, Min, Demand resource.Vector
}

// OperationStatus returns the status of an operation. Below the part tolerance of
// its fair share it is below it; where the fair share covers all that it demands,
// no part is tolerated to be missing. An operation with no jobs to start, and one
// that may start none, is normal.
//
// least is the share of the smallest job that waits, when what is missing must
// make up at least such a job to count, and nil otherwise.
func OperationStatus(s Shares, tolerance float64, schedulable bool, least *resource.Vector) Status {
	switch {
	case !schedulable:
		return Normal
	case s.Demand.Within(s.Fair, resource.LargeEpsilon):
		tolerance = 1
	case least != nil && !s.NonBlockedDominates(s.Fair.Sub(s.Usage), *least):
		return Normal
	}
	return PoolStatus(s, tolerance)
}

// PoolStatus returns the status of a pool other than the root, which is always
// normal.
func PoolStatus(s Shares, tolerance float64) Status {
	if s.NonBlockedDominates(s.Fair.Scale(tolerance).Min(s.Demand), s.Usage) {
		return BelowFairShare
	}
	return Normal
}

// BelowMinShare reports whether an element has less than its min share, by any amount:
// what it can insist on is not tolerated to be missing (R5b). It counts as far as the fair
// share has it, which limits, or the order of a FIFO pool, may keep from more.
func BelowMinShare(s Shares) bool {
	s.Fair = s.Min.Min(s.Fair)
	for r := range s.Usage {
		s.Usage[r] += resource.Epsilon
	}
	return PoolStatus(s, 1) == BelowFairShare
}

// NonBlockedDominates reports whether a exceeds b in every resource that is not
// blocked; a resource is blocked when the fair share covers the demand. When all
// are, it is enough to exceed b in one (F.10).
//
// It is no order: neither reflexive nor irreflexive.
func (s Shares) NonBlockedDominates(a, b resource.Vector) bool {
	allBlocked, some, all := true, false, true
	for r := range a {
		more := a[r] > b[r]
		some = some || more
		if s.Fair[r] < s.Demand[r] {
			allBlocked = false
			all = all && more
		}
	}
	if allBlocked {
		return some
	}
	return all
}

// BelowPromised reports whether an operation has less than what guarantees alone
// promise it (F.5.6). Such operations come before all others (F.12.2).
func (s Shares) BelowPromised(promised resource.Vector) bool {
	return s.NonBlockedDominates(promised, s.Usage)
}

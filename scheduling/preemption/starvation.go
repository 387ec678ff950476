package preemption

import (
	"fmt"
	"math"
	"time"

	"weir/scheduling/resource"
)

// Starvation says whether an element has been below its fair share, or its min share, for
// so long that others have to give way (F.11).
type Starvation uint8

const (
	// NonStarving elements have what they ought to, or have not waited long.
	NonStarving Starvation = iota
	// Starving elements have waited for a timeout.
	Starving
	// AggressivelyStarving elements have waited for the longest one.
	AggressivelyStarving
)

// String returns the name of the status, such as "aggressively_starving".
func (s Starvation) String() string {
	return [...]string{"non_starving", "starving", "aggressively_starving"}[s]
}

// Acts reports whether who starves so may preempt others in a stage.
func (s Starvation) Acts(stage Stage) bool {
	return s == AggressivelyStarving || stage == NormalStage && s == Starving
}

// ParseStarvation returns the status of a name that String has returned.
func ParseStarvation(name string) (Starvation, error) {
	for s := NonStarving; s <= AggressivelyStarving; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return NonStarving, fmt.Errorf("starvation status %q: there is none of this name", name)
}

// Timeouts say how long an element is below its shares before it starves.
type Timeouts struct {
	// CanStarve is false for pools of trees where only operations starve.
	CanStarve bool
	FairShare time.Duration
	// MinShare is for elements that are below what they can insist on.
	MinShare time.Duration
	// CanStarveAggressively lets them do so after Aggressive.
	CanStarveAggressively bool
	Aggressive            time.Duration
}

// Shortened returns the timeouts of an operation with so many pending jobs: when they
// are fewer than count, they wait a part of each timeout.
func (t Timeouts) Shortened(pending int64, count float64) Timeouts {
	part := float64(pending) / count
	if part >= 1 {
		return t
	}
	shorter := func(timeout time.Duration) time.Duration { return time.Duration(float64(timeout) * part) }
	t.FairShare, t.MinShare, t.Aggressive = shorter(t.FairShare), shorter(t.MinShare), shorter(t.Aggressive)
	return t
}

// Lengthened returns the timeouts as so many times as long as to fair share, if times is more
// than 1.
func (t Timeouts) Lengthened(times float64) Timeouts {
	longer := func(timeout time.Duration) time.Duration {
		return time.Duration(min(float64(timeout)*max(times, 1), math.MaxInt64/2))
	}
	t.FairShare = longer(t.FairShare)
	t.Aggressive = longer(t.Aggressive)
	return t
}

// Clock is how an element has fared. The zero value is that of one that is well.
type Clock struct {
	Status     Status
	Starvation Starvation
	// Since is when the element came to be below its fair share, and MinSince below its
	// min share, whatever is tolerated of the fair share; zero while it is not.
	Since, MinSince time.Time
}

// Judge takes the status of this moment, whether the element is below its fair share, be it
// by less than is tolerated, and whether it is below its min share. A clock that starts does
// not end in the same moment, and who starves goes on to while it is below its fair share.
func (c *Clock) Judge(now time.Time, status Status, below, belowMin bool, t Timeouts) {
	if !below || c.Since.IsZero() {
		c.Starvation = NonStarving
	}
	c.Status = status
	fair := passed(&c.Since, now, below)
	least := passed(&c.MinSince, now, belowMin)
	switch {
	case !t.CanStarve:
		c.Starvation = NonStarving
	case t.CanStarveAggressively && fair > t.Aggressive:
		c.Starvation = AggressivelyStarving
	case fair > t.FairShare, least > t.MinShare:
		c.Starvation = Starving
	}
}

// From is since when the element has been below what it starves for, or may come to; zero
// when it is well.
func (c *Clock) From() time.Time {
	if c.Since.IsZero() {
		return c.MinSince
	}
	return c.Since
}

// Starves returns from when on the element starves, and from when on aggressively, if it
// goes on to be below its share: times of the past where it does already, zero for never.
// It is what Judge will find, to which an update has to come after these times.
func (c *Clock) Starves(t Timeouts) (starving, aggressively time.Time) {
	if !t.CanStarve {
		return starving, aggressively
	}
	if !c.Since.IsZero() {
		starving = c.Since.Add(t.FairShare)
		if t.CanStarveAggressively {
			aggressively = c.Since.Add(t.Aggressive)
		}
	}
	if least := c.MinSince.Add(t.MinShare); !c.MinSince.IsZero() && (starving.IsZero() || least.Before(starving)) {
		starving = least
	}
	if !aggressively.IsZero() && aggressively.Before(starving) {
		starving = aggressively
	}
	if c.Starvation != NonStarving {
		starving = c.From()
	}
	if c.Starvation == AggressivelyStarving {
		aggressively = c.Since
	}
	return starving, aggressively
}

// passed is the time since a state began, which it keeps; less than any timeout where
// it has just begun or does not hold. Nothing begins later than now, whatever another
// leader's clock has said.
func passed(since *time.Time, now time.Time, holds bool) time.Duration {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero(), since.After(now):
		*since = now
	default:
		return now.Sub(*since)
	}
	return -1
}

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

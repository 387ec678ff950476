package preemption

import (
	"fmt"
	"math"
	"time"

	"weir/scheduling/resource"
)

// Starvation says whether an element has been below its fair share, or its min share, long enough
// that jobs of others may be preempted for it (F.11).
type Starvation uint8

const (
	// NonStarving elements have their share, or have not waited long enough.
	NonStarving Starvation = iota
	// Starving elements have waited for the fair share or min share timeout.
	Starving
	// AggressivelyStarving elements have waited for the aggressive timeout.
	AggressivelyStarving
)

// String returns the name of the status, such as "aggressively_starving".
func (s Starvation) String() string {
	return [...]string{"non_starving", "starving", "aggressively_starving"}[s]
}

// Acts reports whether operations with this status may preempt others in a stage.
func (s Starvation) Acts(stage Stage) bool {
	return s == AggressivelyStarving || stage == NormalStage && s == Starving
}

// ParseStarvation is the inverse of String.
func ParseStarvation(name string) (Starvation, error) {
	for s := NonStarving; s <= AggressivelyStarving; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return NonStarving, fmt.Errorf("unknown starvation status %q", name)
}

// Timeouts say how long an element has to be below its shares before it starves.
type Timeouts struct {
	// CanStarve is false for pools of trees where only operations starve.
	CanStarve bool
	FairShare time.Duration
	// MinShare is for elements that are below their min share.
	MinShare time.Duration
	// CanStarveAggressively allows aggressive starvation, after Aggressive.
	CanStarveAggressively bool
	Aggressive            time.Duration
}

// Shortened multiplies the timeouts by pending/count if an operation has fewer than `count` pending
// jobs.
func (t Timeouts) Shortened(pending int64, count float64) Timeouts {
	part := float64(pending) / count
	if part >= 1 {
		return t
	}
	shorter := func(timeout time.Duration) time.Duration { return time.Duration(float64(timeout) * part) }
	t.FairShare, t.MinShare, t.Aggressive = shorter(t.FairShare), shorter(t.MinShare), shorter(t.Aggressive)
	return t
}

// Lengthened multiplies the fair share and aggressive timeouts by the factor `times`, if the factor
// is more than 1.
func (t Timeouts) Lengthened(times float64) Timeouts {
	longer := func(timeout time.Duration) time.Duration {
		return time.Duration(min(float64(timeout)*max(times, 1), math.MaxInt64/2))
	}
	t.FairShare = longer(t.FairShare)
	t.Aggressive = longer(t.Aggressive)
	return t
}

// Clock records how long an element has been below its shares. The zero value is for an element
// that is below no share.
type Clock struct {
	Status     Status
	Starvation Starvation
	// Since is when the element fell below its fair share, even within the tolerance. MinSince is
	// when it fell below its min share. Each is zero while the element is not below that share.
	Since, MinSince time.Time
}

// Judge decides whether the element starves (F.11). The parameter status is the element's current
// status. below says whether it is below its fair share at all, even within the tolerance. belowMin
// says whether it is below its min share. No timeout expires in the call that starts its clock. A
// starving element keeps starving while it is below its fair share.
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

// From returns the time since which the element has been below its fair share. If it is not below
// its fair share, From returns the time for its min share; zero if it is below neither.
func (c *Clock) From() time.Time {
	if c.Since.IsZero() {
		return c.MinSince
	}
	return c.Since
}

// Starves returns when the element begins to starve, and to starve aggressively, if it stays below
// its share. A result is in the past if that state has already begun, and zero if it never will.
// The element starves only after a call of Judge after that time.
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

// passed returns the time since a state began. The variable that `since` points to keeps the
// beginning. The result is negative, and so less than any timeout, if the state has just begun or
// does not hold. A beginning later than now, set by another leader's clock, is moved to now.
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

// Status says whether an element has its fair share (F.11).
type Status uint8

const (
	// Normal elements have their fair share, within the tolerance.
	Normal Status = iota
	// BelowFairShare elements have less than their fair share, and could use more.
	BelowFairShare
)

// String returns the name of the status, such as "below_fair_share".
func (s Status) String() string { return [...]string{"normal", "below_fair_share"}[s] }

// Shares are the usage, fair share, min share and demand of an element, as parts of the cluster.
type Shares struct {
	Usage, Fair, Min, Demand resource.Vector
}

// OperationStatus returns the status of an operation: BelowFairShare if its usage is less than
// tolerance times its fair share. If the fair share covers the whole demand, tolerance counts as
// 1. An operation without jobs that may start is normal.
//
// The parameter least is the share of the smallest waiting job, if a deficit counts only when such
// a job fits in it. Otherwise least is nil.
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

// PoolStatus returns the status of a pool other than the root, whose status is always normal.
func PoolStatus(s Shares, tolerance float64) Status {
	if s.NonBlockedDominates(s.Fair.Scale(tolerance).Min(s.Demand), s.Usage) {
		return BelowFairShare
	}
	return Normal
}

// BelowMinShare reports whether an element has less than its min share, without tolerance (R5b).
// The min share is capped at the fair share, which can be lower because of limits or of the order
// of a FIFO pool.
func BelowMinShare(s Shares) bool {
	s.Fair = s.Min.Min(s.Fair)
	for r := range s.Usage {
		s.Usage[r] += resource.Epsilon
	}
	return PoolStatus(s, 1) == BelowFairShare
}

// NonBlockedDominates reports whether `a` exceeds `b` in every resource that is not blocked. A
// resource is blocked if the fair share covers the demand. If all are blocked, it is enough that
// `a` exceeds `b` in one resource (F.10).
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

package preemption

import (
	"slices"
	"sort"
	"time"
)

// Stage is a step of a heartbeat in which operations may preempt others (F.12.3).
type Stage uint8

// The stages.
const (
	// AggressiveStage is for operations that starve aggressively.
	AggressiveStage Stage = iota
	// NormalStage is for operations that starve.
	NormalStage

	// StageCount is the number of stages.
	StageCount
)

// String returns the name of the stage: "aggressive" or "normal".
func (s Stage) String() string { return [...]string{"aggressive", "normal"}[s] }

// Takes reports whether allocations of this level are victims in the stage.
func (s Stage) Takes(l Level) bool {
	return l == Preemptible || l == AggressivelyPreemptible && s == AggressiveStage
}

// Block is the reason why an allocation cannot be preempted for others.
type Block uint8

// The blocks.
const (
	// NotBlocked allocations can be preempted.
	NotBlocked Block = iota
	// BlockedByMode: the operation is preempted only gracefully.
	BlockedByMode
	// BlockedByPool: a pool has allow_normal_preemption off.
	BlockedByPool
	// BlockedByStarvation: the operation itself starves.
	BlockedByStarvation
	// BlockedByRunTime: the job has run less than min_run_time.
	BlockedByRunTime
	// BlockedByRate: the jobs of a pool preempted in the last minute have reached
	// preemption_rate_limit.
	BlockedByRate
)

// String returns the name of the block, such as "min_run_time".
func (b Block) String() string {
	return [...]string{"none", "preemption_mode", "allow_normal_preemption", "starving", "min_run_time", "preemption_rate_limit"}[b]
}

// Owner holds the settings and state of an operation that decide whether its allocations may be
// preempted.
type Owner struct {
	// Graceful operations are not preempted for others.
	Graceful bool
	// AllowNormal is false if a pool forbids all preemption that is not aggressive.
	AllowNormal bool
	// Starvation is the operation's own starvation. A starving operation is spared unless
	// FromStarving is set.
	Starvation   Starvation
	FromStarving bool
	// MinRunTime is how long a job must have run before it can be preempted.
	MinRunTime time.Duration
}

// Blocks returns what keeps an allocation with this start time from being preempted in a stage
// (F.12.3): the first reason that holds. Rate limits are checked separately.
func (o Owner) Blocks(s Stage, now, started time.Time) Block {
	switch {
	case o.Graceful:
		return BlockedByMode
	case s == NormalStage && !o.AllowNormal:
		return BlockedByPool
	case o.Starvation != NonStarving && !o.FromStarving:
		return BlockedByStarvation
	case now.Sub(started) < o.MinRunTime:
		return BlockedByRunTime
	default:
		return NotBlocked
	}
}

// RatePeriod is the period that rate limits apply to.
const RatePeriod = time.Minute

// Rate remembers the preemptions of the last minute. The zero value remembers none. A Rate
// allocates no memory in steady state.
type Rate struct {
	// times is in ascending order.
	times []time.Time
}

// Left returns how many more jobs may be preempted at this time. The parameter limit is how many
// are allowed in any minute. A negative limit means unlimited, and is returned unchanged.
func (r *Rate) Left(at time.Time, limit int64) int64 {
	if limit < 0 {
		return limit
	}
	return max(limit-int64(len(r.times)-r.past(at)), 0)
}

// past returns how many of the times no longer count at the given time.
func (r *Rate) past(at time.Time) int {
	return sort.Search(len(r.times), func(i int) bool { return at.Sub(r.times[i]) < RatePeriod })
}

// Take remembers a preemption. Times are added in ascending order, except past times that a new
// leader reads from the log.
func (r *Rate) Take(at time.Time) {
	i := len(r.times)
	for i > 0 && at.Before(r.times[i-1]) {
		i--
	}
	r.times = slices.Insert(r.times, i, at)
}

// Undo forgets one preemption at this time, because it did not happen.
func (r *Rate) Undo(at time.Time) {
	for i := len(r.times) - 1; i >= 0; i-- {
		if r.times[i].Equal(at) {
			r.times = slices.Delete(r.times, i, i+1)
			return
		}
	}
}

// Forget drops the preemptions that no longer count.
func (r *Rate) Forget(now time.Time) { r.times = slices.Delete(r.times, 0, r.past(now)) }

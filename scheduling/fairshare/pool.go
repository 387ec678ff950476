package fairshare

import (
	"math"
	"time"

	"weir/scheduling/resource"
)

// Mode is how the children of a pool share its resources.
type Mode uint8

const (
	// FairShare divides among all children at once, by weight.
	FairShare Mode = iota
	// FIFO serves one child after another.
	FIFO
)

// SortKey is what a FIFO pool sorts its children by.
type SortKey uint8

const (
	// ByWeight puts the greater weight first.
	ByWeight SortKey = iota
	// ByStartTime puts the lower rank first. A pool has the lowest rank of the operations below it.
	ByStartTime
	// ByPendingJobs puts fewer pending jobs first.
	ByPendingJobs
)

// or returns the configured value, or the inherited one if no value was configured.
func or(set *bool, inherited bool) bool {
	if set == nil {
		return inherited
	}
	return *set
}

// Guarantee holds the amounts of the resources that were named. The others are inferred from the
// main resource (F.5.1).
type Guarantee struct {
	Amounts resource.Amounts
	Named   [resource.Count]bool
}

// GuaranteeType says how a pool's volume is spent.
type GuaranteeType uint8

const (
	// NoIntegral pools have no volume. Their flow and burst are ignored.
	NoIntegral GuaranteeType = iota
	// Burst pools get their burst guarantee at once while volume lasts.
	Burst
	// Relaxed pools spend their volume at up to a multiple of their flow.
	Relaxed
)

// Integral is a pool's guarantees over time (F.6).
type Integral struct {
	Type GuaranteeType
	// Flow fills the volume continuously.
	Flow resource.Amounts
	// Burst is both the guarantee and the upper bound of what a burst pool gets by volume.
	Burst resource.Amounts
	// RelaxedMultiplier is the upper bound of what a relaxed pool gets by volume, as a multiple of
	// its flow. 0 means the tree's multiplier.
	RelaxedMultiplier float64
	// AcceptsFreeVolume means that the pool may receive volume that overflows elsewhere.
	AcceptsFreeVolume bool
	// DistributesFreeVolume means that volume that overflows from one child goes to other children.
	// Nil means the tree's default.
	DistributesFreeVolume *bool
}

// Pool is the part of an element that only pools have. Update reads the first group of fields,
// carries the second from one update to the next, and writes the third.
type Pool struct {
	Mode Mode
	// SortBy orders the children of a FIFO pool. Empty means by weight, then by start time (F.7.3).
	SortBy []SortKey
	// StrongGuarantee is the configured strong guarantee.
	StrongGuarantee Guarantee
	Integral        Integral
	// GangStep makes gangs of this pool all or nothing, if the tree does too.
	GangStep bool
	// FIFOReordering moves gangs that do not fit the guarantee behind others, if the tree allows
	// it (F.8.3). Nil inherits from the pool above.
	FIFOReordering *bool
	// ComputePromised requests PromisedFairShare for the elements below (F.5.6).
	ComputePromised bool
	// PriorityAdjustment and PriorityDonor select the tiers of F.5.4.
	PriorityAdjustment, PriorityDonor bool

	// Volume is the volume that has accumulated and is not spent (F.6.1).
	Volume resource.Volume
	// LastShareRatio is what the last update granted by volume. The next update charges it.
	LastShareRatio float64
	// Rest is the rounding error of Volume, in hundredths of cpu x seconds: positive if rounding
	// withheld some, negative if it gave too much. Later updates make up for it, so that errors do
	// not add up; set it to 0 when setting Volume.
	Rest float64

	// InferredGuarantee is the strong guarantee in all resources (F.5.1).
	InferredGuarantee resource.Amounts
	Ratios
	// BurstRatio is SpecifiedBurstRatio, reduced if bursts do not fit the cluster (F.5.3).
	BurstRatio float64
	// Capacity is the volume at which Volume stops growing.
	Capacity resource.Volume
	// Tiers are the parts of StrongGuaranteeShare by tier. The first is the one that is cut last
	// (F.5.4).
	Tiers [TierCount]resource.Vector

	// subpools are the children that are pools. branches are all children, in the order of this
	// update.
	subpools []*Element
	branches []branch
	// inputs counts the changes of the functions of children. own is what Element.bySuggestion was
	// built from, and trial is the function that volume is granted by.
	inputs     uint64
	own, trial built
	// index is the pool's place in Tree.pools.
	index int
	// place is the pool's index in the branches of its parent. started is, inside a FIFO pool, the
	// lowest rank of the operations below the pool.
	place   int
	started int64
	// rest is the part of the estimated guarantee that remains after the guarantees of the children,
	// per unit of weight. perWeight is what an operation of weight 1 gets of the share that the
	// operations of the pool divide.
	rest      resource.Vector
	perWeight float64
	// reordering is the effective value of FIFOReordering. reorders means that the field `effective`
	// holds the order of this update. deferred is scratch.
	reordering, reorders bool
	effective, deferred  []*Element
	// priority means that PriorityAdjustment has a donor to take from.
	priority bool
	// overflow is volume beyond the capacity. acceptable is how much volume of other pools fits.
	// accepted is the volume received from other pools.
	overflow, acceptable, accepted resource.Volume
	// configuredLimits saves LimitsShare while a relaxed pool has a lower one.
	configuredLimits resource.Vector
	relaxedWeight    float64
	// granted is the share that the pool's own volume pays for. round is how many levels of
	// relaxed pools are below the pool.
	granted resource.Vector
	round   int
}

// Ratios are a pool's burst and flow as parts of the cluster: the specified ones, and the totals
// including the pools below (F.5.2).
type Ratios struct {
	SpecifiedBurstRatio, SpecifiedFlowRatio float64
	TotalBurstRatio, TotalFlowRatio         float64
}

// branch is what a pool needs to know of a child to build its own function. Branches are stored next
// to each other because there may be very many children.
type branch struct {
	function span
	weight   float64
	// scale is how much faster the suggestion grows than for the lightest sibling.
	scale float64
}

// built is a function by suggestion of a pool, and what it depends on. It is valid while the pool
// has the same inputs; 0 is none.
type built struct {
	function          span
	inputs            uint64
	guarantee, limits resource.Vector
}

// isFor reports whether the function is that of e as it is now.
func (b *built) isFor(e *Element) bool {
	return b.inputs == e.Pool.inputs && b.guarantee == e.GuaranteeShare() && b.limits == e.LimitsShare
}

func (e *Element) branch() branch {
	return branch{function: e.bySuggestion, weight: e.Weight}
}

// seen returns the lens through which a fair-share pool sees the function of a child. For a child
// without weight, the function stays at its first point.
func (b *branch) seen() lens { return lens{scale: max(b.scale, math.SmallestNonzeroFloat64)} }

// BurstDuration returns how long the volume of a burst pool lasts at burst level while flow keeps
// refilling it. The result ok is false if it never runs out, and for pools that do not burst (G5).
func (p *Pool) BurstDuration(total resource.Amounts) (d time.Duration, ok bool) {
	spend := p.SpecifiedBurstRatio - p.SpecifiedFlowRatio
	if p.Integral.Type != Burst || spend <= resource.Epsilon {
		return 0, false
	}
	seconds := p.Volume.MinRatio(total) / spend
	if seconds > float64(1<<62)/float64(time.Second) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

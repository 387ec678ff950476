package fairshare

import (
	"math"
	"time"

	"weir/scheduling/resource"
)

// Mode is how the children of a pool share.
type Mode uint8

const (
	// FairShare divides among all children at once, by weight.
	FairShare Mode = iota
	// FIFO gives to one child after another.
	FIFO
)

// SortKey is what a FIFO pool sorts its children by.
type SortKey uint8

const (
	// ByWeight puts the greater weight first.
	ByWeight SortKey = iota
	// ByStartTime puts the lower rank first, of a pool the lowest one of the operations
	// below it.
	ByStartTime
	// ByPendingJobs puts fewer pending jobs first.
	ByPendingJobs
)

// or is what was set, or else what the pool above, or the tree, has.
func or(set *bool, inherited bool) bool {
	if set == nil {
		return inherited
	}
	return *set
}

// Guarantee is amounts of those resources that were named. The others are
// inferred from the main resource (F.5.1).
type Guarantee struct {
	Amounts resource.Amounts
	Named   [resource.Count]bool
}

// GuaranteeType says how a pool's volume is spent.
type GuaranteeType uint8

const (
	// NoIntegral pools have no volume; flow and burst are ignored.
	NoIntegral GuaranteeType = iota
	// Burst pools get their burst guarantee at once while volume lasts.
	Burst
	// Relaxed pools get their volume in time.
	Relaxed
)

// Integral is a pool's guarantees over time (F.6).
type Integral struct {
	Type GuaranteeType
	// Flow fills the volume, all the time.
	Flow resource.Amounts
	// Burst is both guarantee and cap of what a burst pool gets by volume.
	Burst resource.Amounts
	// RelaxedMultiplier is how many times its flow a relaxed pool gets at most; 0
	// for the tree's.
	RelaxedMultiplier float64
	// AcceptsFreeVolume says that what overflows elsewhere may come here.
	AcceptsFreeVolume bool
	// DistributesFreeVolume says that what overflows from a child goes to others; nil leaves it
	// to the tree.
	DistributesFreeVolume *bool
}

// Pool is what makes an element a pool. The first group of fields is read by
// Update, the second is kept by it from one update to the next, the third is
// written by it.
type Pool struct {
	Mode Mode
	// SortBy orders the children of a FIFO pool; by weight and then start time
	// when it is empty (F.7.3).
	SortBy []SortKey
	// StrongGuarantee is what was configured.
	StrongGuarantee Guarantee
	Integral        Integral
	// GangStep lets gangs of this pool be all or nothing, if the tree does.
	GangStep bool
	// FIFOReordering lets gangs that do not fit the guarantee step aside, if the
	// tree does (F.8.3); nil leaves it to the pool above.
	FIFOReordering *bool
	// ComputePromised asks for PromisedFairShare below (F.5.6).
	ComputePromised bool
	// PriorityAdjustment and PriorityDonor are the tiers of F.5.4.
	PriorityAdjustment, PriorityDonor bool

	// Volume is what has accumulated and was not spent (F.6.1).
	Volume resource.Volume
	// LastShareRatio is what the last update granted by volume, to be paid by the
	// next one.
	LastShareRatio float64
	// Rest is what rounding to whole hundredths of cpu x seconds has kept from Volume,
	// or given too much of, in hundredths. Later updates make up for it, so that it does
	// not add up; who sets Volume sets it to 0.
	Rest float64

	// InferredGuarantee is the strong guarantee in all resources (F.5.1).
	InferredGuarantee resource.Amounts
	Ratios
	// BurstRatio is SpecifiedBurstRatio when it fits the cluster (F.5.3).
	BurstRatio float64
	// Capacity is where Volume stops to grow.
	Capacity resource.Volume
	// Tiers are the parts of StrongGuaranteeShare that are cut last, and first
	// (F.5.4).
	Tiers [TierCount]resource.Vector

	// subpools are those of the children that are pools. branches are all children, in
	// the order of this update.
	subpools []*Element
	branches []branch
	// place is that of the pool in the branches of its parent, started the lowest rank of
	// the operations below it, where the parent is a FIFO pool.
	place   int
	started int64
	// rest is what the guarantees of the children leave of the estimated one, divided
	// by their weights; perWeight is the part of an operation of weight 1 in what the
	// operations of the pool divide.
	rest      resource.Vector
	perWeight float64
	// reordering is FIFOReordering as it holds, reorders says that effective is the
	// order of this update; deferred is scratch.
	reordering, reorders bool
	effective, deferred  []*Element
	// priority says that PriorityAdjustment has a donor to take from.
	priority bool
	// overflow is volume for which there is no room, acceptable the room for such
	// volume, accepted what came.
	overflow, acceptable, accepted resource.Volume
	// configuredLimits keeps LimitsShare while a relaxed pool has less.
	configuredLimits resource.Vector
	relaxedWeight    float64
	// granted is what the pool's own volume pays for. round is how many relaxed pools are
	// below it, one below the other.
	granted resource.Vector
	round   int
}

// Ratios are burst and flow of a pool as parts of the cluster: what was specified for it, and the
// total with those below (F.5.2).
type Ratios struct {
	SpecifiedBurstRatio, SpecifiedFlowRatio float64
	TotalBurstRatio, TotalFlowRatio         float64
}

// branch is what a pool needs of a child to make its own function: side by side,
// for there may be very many.
type branch struct {
	function span
	weight   float64
	// scale is how much faster than for the lightest sibling the suggestion grows.
	scale float64
}

func (e *Element) branch() branch {
	return branch{function: e.bySuggestion, weight: e.Weight}
}

// seen is how a fair-share pool sees the function of a child. That of a child
// without weight stays where it begins.
func (b *branch) seen() lens { return lens{scale: max(b.scale, math.SmallestNonzeroFloat64)} }

// BurstDuration returns for how long the volume of a burst pool lasts at burst
// level while it goes on flowing in; ok is false when it lasts for ever, and of
// pools that do not burst (G5).
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

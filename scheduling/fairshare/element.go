package fairshare

import "weir/scheduling/resource"

// Element is a pool or an operation. The first two groups of fields are read by
// Update, the others are written by it. Elements are made by NewPool and
// NewOperation and must not be copied.
type Element struct {
	// ID is unique among siblings of the same rank.
	ID string
	// Rank orders siblings, pools before operations; the lower one is first, and
	// equals go by ID. That of an operation is its start time. The order matters to
	// burst pools, which take limited room one after another, and to ties. In a FIFO
	// pool a pool goes by the lowest rank of the operations below it instead.
	Rank int64
	// Pool tells pools from operations, where it is nil.
	Pool *Pool
	// Children are the elements of a pool. Update sorts them.
	Children []*Element
	// Weight is the part of the element in what its siblings divide, relative to
	// theirs. Below resource.Epsilon the element gets its guarantee alone.
	Weight float64
	// InferWeight is set where no weight was given, see Options.
	InferWeight bool
	// Limits is what the element may use at most, resource.Infinite without limits:
	// the least of what was set and what the nodes have that it may use.
	Limits resource.Amounts
	// MaxShareRatio is the greatest part of the limits share of the parent that the
	// element may have (L2), or NoShareRatio.
	MaxShareRatio float64
	// BestAllocation is, of an operation, the part of the cluster that jobs of its
	// shape can use: see BestAllocationShare. It stays until it is set again.
	BestAllocation resource.Vector

	// Demand is what an operation uses and could use now, Usage what it uses.
	// Invariant: Usage <= Demand. Those of a pool are sums, written by Update.
	Demand, Usage resource.Amounts
	// Gang operations are of use only as a whole (F.7.2).
	Gang bool
	// PendingJobs is for FIFO pools that sort by it. That of a pool in one is the sum,
	// written by Update.
	PendingJobs int64

	// Result is what Update finds.
	Result

	// part is that of an operation in what the operations of its pool divide.
	part   float64
	parent *Element
	// usedStrong is, of the root, the strong part of what its children got (F.7.7).
	usedStrong resource.Vector
	// bySuggestion and, of pools in vector mode, byFit are functions in Tree.points
	// and Tree.fits. Those of a pool hold while ready.
	bySuggestion, byFit span
	ready               bool
	// schedulable elements have an operation that has jobs to start.
	schedulable bool
}

// Result is what an update finds of an element.
type Result struct {
	// DemandShare and UsageShare are the shares of Demand and Usage.
	DemandShare, UsageShare resource.Vector
	// LimitsShare is what the element cannot exceed (F.2).
	LimitsShare resource.Vector
	// StrongGuaranteeShare is what a pool gets whenever it demands it, after
	// adjustment (F.5.5).
	StrongGuaranteeShare resource.Vector
	// IntegralShare is what the pool, and those below it, may take by volume (F.6).
	IntegralShare resource.Vector
	// EstimatedGuaranteeShare is what the element would get if all demanded
	// everything (F.5.5).
	EstimatedGuaranteeShare resource.Vector
	// GuaranteedShare is what the element would get of each resource if all demanded it
	// without end (F.5.7). FindGuaranteed writes it.
	GuaranteedShare resource.Vector
	// MinShare is what of SpecifiedMinShare the element can insist on: no more than it
	// demands (R5b).
	MinShare resource.Vector
	// FairShare is what the element ought to have; see Parts.
	FairShare resource.Vector
	// FairShareRatio is one number for FairShare; those of all operations of a tree are
	// no more than 1 together (F.4.1).
	FairShareRatio float64
	// PromisedFairShare is what the guarantee alone gives, below pools that compute
	// it (F.5.6).
	PromisedFairShare resource.Vector
	// LimitedDemandShare is what the element would take if its siblings took
	// nothing.
	LimitedDemandShare resource.Vector
	// LocalSatisfaction is that of the usage, see Satisfaction. The one of a pool
	// in the order of scheduling is PoolSatisfaction.
	LocalSatisfaction float64
	// PoolSatisfaction is, of a pool, the least one of the operations below that
	// have jobs to start, and of others LocalSatisfaction (F.10).
	PoolSatisfaction float64
	// FIFOIndex is the place among the children of a FIFO pool, EffectiveFIFOIndex
	// the one after reordering when that changed the order (F.8.3); else -1.
	FIFOIndex, EffectiveFIFOIndex int32
}

// NoShareRatio is the MaxShareRatio of elements without one.
const NoShareRatio = -1

// NewPool returns a fair-share pool of weight 1, without guarantees and limits.
func NewPool(id string) *Element {
	e := newElement(id)
	e.Pool = &Pool{GangStep: true, Integral: Integral{AcceptsFreeVolume: true}}
	return e
}

// NewOperation returns an operation of weight 1, without demand.
func NewOperation(id string) *Element { return newElement(id) }

func newElement(id string) *Element {
	return &Element{
		ID: id, Weight: 1, Limits: resource.Infinite, MaxShareRatio: NoShareRatio, BestAllocation: resource.Ones,
		Result: Result{FIFOIndex: -1, EffectiveFIFOIndex: -1, LocalSatisfaction: resource.MaxSatisfaction, PoolSatisfaction: resource.MaxSatisfaction},
	}
}

// Parts says by what right an element has its share (F.4).
type Parts struct {
	// Total is the whole share.
	Total resource.Vector
	// Strong is the part within the strong guarantee, Integral what is paid from
	// volume, and Proportional the rest, got by weight.
	Strong, Integral, Proportional resource.Vector
}

// Parts returns the fair share by its parts.
func (e *Element) Parts() Parts {
	strong := e.StrongGuaranteeShare
	if e.parent == nil {
		strong = e.usedStrong
	}
	return split(e.FairShare, strong, e.IntegralShare)
}

// PromisedParts returns the promised fair share by its parts.
func (e *Element) PromisedParts() Parts {
	return split(e.PromisedFairShare, e.StrongGuaranteeShare, e.IntegralShare)
}

func split(total, strong, integral resource.Vector) Parts {
	p := Parts{Total: total, Strong: total.Min(strong)}
	p.Integral = total.Sub(p.Strong).Min(integral)
	p.Proportional = total.Sub(p.Strong).Sub(p.Integral)
	return p
}

// Schedulable reports whether e is, or holds, an operation that has jobs to start.
func (e *Element) Schedulable() bool { return e.schedulable }

// GuaranteeShare is the strong guarantee and what volume pays for (F.4).
func (e *Element) GuaranteeShare() resource.Vector {
	return e.StrongGuaranteeShare.Add(e.IntegralShare)
}

// SpecifiedMinShare is what follows from settings: of a pool its strong guarantee, of
// an operation its part of that of its pool, by weight.
func (e *Element) SpecifiedMinShare() resource.Vector {
	if e.Pool != nil || e.parent == nil {
		return e.StrongGuaranteeShare
	}
	return e.parent.StrongGuaranteeShare.Scale(e.part)
}

// subpools are the pools among the children, in the same order.
func (e *Element) subpools() []*Element { return e.Pool.subpools }

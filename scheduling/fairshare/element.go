package fairshare

import "weir/scheduling/resource"

// Element is a pool or an operation. Update reads the first two groups of fields and writes the
// others. Elements are made by NewPool and NewOperation and must not be copied.
type Element struct {
	// ID is unique among siblings of the same rank.
	ID string
	// Rank orders siblings: pools come before operations, then lower ranks come first, and equal ranks
	// are ordered by ID. The rank
	// of an operation is its start time. The order decides ties, and which burst pool gets limited
	// room first. In a FIFO pool a child pool is ordered by the lowest rank of the operations
	// below it instead.
	Rank int64
	// Pool is nil for operations.
	Pool *Pool
	// Children are the elements of a pool. Update sorts them.
	Children []*Element
	// Weight is relative to the weights of the siblings. Below resource.Epsilon the element gets
	// its guarantee alone.
	Weight float64
	// InferWeight means that no weight was given: see Options.InferWeight.
	InferWeight bool
	// Limits is the most that the element may use: the lesser of the configured limits and the
	// resources of the nodes that it may use. It is resource.Infinite if there is no limit.
	Limits resource.Amounts
	// MaxShareRatio is the upper bound of the element's share, as a part of its parent's limits
	// share (L2). NoShareRatio means that there is no bound.
	MaxShareRatio float64
	// BestAllocation is the part of the cluster that jobs of an operation's shape can use: see
	// BestAllocationShare. It is kept until it is set again.
	BestAllocation resource.Vector

	// Usage is what an operation uses. Demand is Usage plus what it could use now, so it is never
	// less. For a pool, Update writes the sums.
	Demand, Usage resource.Amounts
	// Gang operations are useful only as a whole (F.7.2).
	Gang bool
	// PendingJobs is the sort key of some FIFO pools. For a pool inside a FIFO pool Update
	// writes the sum.
	PendingJobs int64

	// Result is written by Update.
	Result

	// part is the operation's part of the share that the operations of its pool divide.
	part   float64
	parent *Element
	// usedStrong is, for the root, the strong part of its children's shares (F.7.7).
	usedStrong resource.Vector
	// bySuggestion is a function in Tree.points. byFit, for pools in vector mode, is a function in
	// Tree.fits. A pool's functions are valid while ready is set.
	bySuggestion, byFit span
	ready               bool
	// schedulable means that the element is, or contains, an operation that has jobs to start.
	schedulable bool
	// touched and assigned are the last updates in which the element had new input or a new
	// function, or contained such an element, and in which its share was assigned.
	touched, assigned uint64
	// fit is the fit factor that was assigned together with the fair share of a pool.
	fit float64
	// dominant is the greatest component of an operation's fair share; for a pool, the sum of those
	// of the operations below it.
	dominant float64
}

// Result is what an update computes for an element.
type Result struct {
	// DemandShare and UsageShare are the shares of Demand and Usage.
	DemandShare, UsageShare resource.Vector
	// LimitsShare is the upper bound of the element's share (F.2).
	LimitsShare resource.Vector
	// StrongGuaranteeShare is what a pool gets whenever it demands it, after
	// adjustment (F.5.5).
	StrongGuaranteeShare resource.Vector
	// IntegralShare is what the pool, and the pools below it, may take by volume (F.6).
	IntegralShare resource.Vector
	// EstimatedGuaranteeShare is the share that the element would get if the cluster had only what
	// is guaranteed (F.5.5).
	EstimatedGuaranteeShare resource.Vector
	// GuaranteedShare is the share of each resource the element would get if every element had
	// unlimited demand for it (F.5.7). FindGuaranteed writes it.
	GuaranteedShare resource.Vector
	// MinShare is the part of SpecifiedMinShare that the element is entitled to: at most its
	// demand (R5b).
	MinShare resource.Vector
	// FairShare is the share to which the element is entitled: see Parts.
	FairShare resource.Vector
	// FairShareRatio reduces FairShare to one number. The sum of these numbers over all operations
	// of a tree is at most 1 (F.4.1).
	FairShareRatio float64
	// PromisedFairShare is the share that guarantees alone would give. It is set below pools that
	// compute it (F.5.6).
	PromisedFairShare resource.Vector
	// LimitedDemandShare is the share the element would take if its siblings took nothing.
	LimitedDemandShare resource.Vector
	// LocalSatisfaction is the Satisfaction of the element's own usage.
	LocalSatisfaction float64
	// PoolSatisfaction is, for a pool, the least satisfaction of the operations below it that have
	// jobs to start. For an operation it equals LocalSatisfaction (F.10).
	PoolSatisfaction float64
	// FIFOIndex is the position among the children of a FIFO pool. It is -1 in other pools.
	// EffectiveFIFOIndex is the position after reordering (F.8.3). It is -1 if the order did not
	// change.
	FIFOIndex, EffectiveFIFOIndex int32
}

// NoShareRatio is the MaxShareRatio of elements without a cap.
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

// Parts splits a share by the right it is based on (F.4).
type Parts struct {
	// Total is the whole share.
	Total resource.Vector
	// Strong is the part within the strong guarantee. Integral is paid from volume. Proportional is
	// the rest, given by weight.
	Strong, Integral, Proportional resource.Vector
}

// Parts returns the fair share split into its parts.
func (e *Element) Parts() Parts {
	strong := e.StrongGuaranteeShare
	if e.parent == nil {
		strong = e.usedStrong
	}
	return split(e.FairShare, strong, e.IntegralShare)
}

// PromisedParts returns the promised fair share split into its parts.
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

// GuaranteeShare returns the strong guarantee plus what volume pays for (F.4).
func (e *Element) GuaranteeShare() resource.Vector {
	return e.StrongGuaranteeShare.Add(e.IntegralShare)
}

// SpecifiedMinShare is the min share that follows from settings. For a pool it is its strong
// guarantee. For an operation it is its part, by weight, of the strong guarantee of its pool.
func (e *Element) SpecifiedMinShare() resource.Vector {
	if e.Pool != nil || e.parent == nil {
		return e.StrongGuaranteeShare
	}
	return e.parent.StrongGuaranteeShare.Scale(e.part)
}

// subpools are the pools among the children, in the same order.
func (e *Element) subpools() []*Element { return e.Pool.subpools }

package fairshare

import (
	"cmp"
	"math"
	"slices"

	"weir/scheduling/resource"
)

// defaultSort is the sort order of a FIFO pool that sets none (F.7.3).
var defaultSort = []SortKey{ByWeight, ByStartTime}

// sortChildren sorts the children of a pool. In a FIFO pool, the order is that in which they are
// served. In a fair-share pool, pools come first, and then the order is by rank.
func (e *Element) sortChildren() {
	p := e.Pool
	p.reorders = false
	if p.Mode == FIFO {
		e.queueChildren()
	}
	if !slices.IsSortedFunc(e.Children, p.compare) {
		slices.SortFunc(e.Children, p.compare)
	}
}

// queueChildren computes the keys by which the pools inside a FIFO pool are ordered.
func (e *Element) queueChildren() {
	for _, c := range e.Children {
		if c.Pool != nil {
			c.queue()
		}
	}
}

// queue computes the keys by which a pool is ordered inside a FIFO pool: the earliest start time
// of the operations below the pool (the maximum if there are none), and their pending jobs.
func (e *Element) queue() {
	e.Pool.started, e.PendingJobs = math.MaxInt64, 0
	for _, c := range e.Children {
		if c.Pool != nil {
			c.queue()
		}
		e.Pool.started = min(e.Pool.started, c.started())
		e.PendingJobs += c.PendingJobs
	}
}

// started is the start time by which a child of a FIFO pool is ordered.
func (e *Element) started() int64 {
	if e.Pool != nil {
		return e.Pool.started
	}
	return e.Rank
}

func (p *Pool) compare(a, b *Element) int {
	if p.Mode == FIFO {
		if order := p.fifoOrder(a, b); order != 0 {
			return order
		}
	}
	if aPool, bPool := a.Pool != nil, b.Pool != nil; aPool != bPool {
		if aPool {
			return -1
		}
		return 1
	}
	if order := cmp.Compare(a.Rank, b.Rank); order != 0 {
		return order
	}
	return cmp.Compare(a.ID, b.ID)
}

func (p *Pool) fifoOrder(a, b *Element) int {
	keys := p.SortBy
	if len(keys) == 0 {
		keys = defaultSort
	}
	for _, key := range keys {
		order := 0
		switch key {
		case ByWeight:
			order = cmp.Compare(b.Weight, a.Weight)
		case ByStartTime:
			order = cmp.Compare(a.started(), b.started())
		case ByPendingJobs:
			order = cmp.Compare(a.PendingJobs, b.PendingJobs)
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(a.started(), b.started())
}

// order returns the children in the order that applies to this update.
func (e *Element) order() []*Element {
	if e.Pool.reorders {
		return e.Pool.effective
	}
	return e.Children
}

// reorderFIFO moves gangs that do not fit the guarantees of their FIFO pools behind operations
// that do, where both tree and pool allow it (F.8.3).
func (t *Tree) reorderFIFO() {
	if !t.Options.GangStep || !t.Options.FIFOReordering {
		return
	}
	for _, e := range t.pools {
		p := e.Pool
		inherited := e.parent != nil && e.parent.Pool.reordering
		p.reordering = or(p.FIFOReordering, inherited)
		if p.reordering && p.Mode == FIFO && p.GangStep && !e.StrongGuaranteeShare.Near(resource.Vector{}, resource.Epsilon) {
			e.reorder()
		}
	}
}

func (e *Element) reorder() {
	p := e.Pool
	p.effective, p.deferred = p.effective[:0], p.deferred[:0]
	var accepted resource.Vector
	stopped := false
	for _, c := range e.Children {
		demand := c.DemandShare.Min(c.LimitsShare)
		if c.Gang && !c.LimitsShare.Dominates(c.DemandShare) {
			demand = resource.Vector{}
		}
		fits := accepted.Add(demand).Within(e.StrongGuaranteeShare, resource.Epsilon)
		if stopped || c.Gang && c.Usage.IsZero() && !fits {
			p.deferred = append(p.deferred, c)
			continue
		}
		p.effective = append(p.effective, c)
		accepted = accepted.Add(demand)
		stopped = !c.Gang && !fits
	}
	p.effective = append(p.effective, p.deferred...)
	if slices.Equal(p.effective, e.Children) {
		return
	}
	p.reorders = true
	for i, c := range p.effective {
		c.EffectiveFIFOIndex = int32(i)
		p.branches[i] = c.branch()
		if c.Pool != nil {
			c.Pool.place = i
		}
	}
}

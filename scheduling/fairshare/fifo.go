package fairshare

import (
	"cmp"
	"math"
	"slices"

	"weir/scheduling/resource"
)

// defaultSort is how a FIFO pool sorts that says nothing else (F.7.3).
var defaultSort = []SortKey{ByWeight, ByStartTime}

// sortChildren puts the children of a FIFO pool into the order in which they are served,
// those of a fair-share pool into that in which they are counted, pools first.
func (e *Element) sortChildren() {
	p := e.Pool
	p.reorders = false
	if p.Mode == FIFO {
		for _, c := range e.Children {
			if c.Pool != nil {
				c.queue()
			}
		}
	}
	if !slices.IsSortedFunc(e.Children, p.compare) {
		slices.SortFunc(e.Children, p.compare)
	}
}

// queue finds by what a pool is ordered in a FIFO pool: the first start of the operations
// below it, last where there is none, and their pending jobs.
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

// started is the start of a child of a FIFO pool.
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

// order is the children in the order that holds for this update.
func (e *Element) order() []*Element {
	if e.Pool.reorders {
		return e.Pool.effective
	}
	return e.Children
}

// reorderFIFO lets gangs that do not fit the guarantees of their FIFO pools step
// aside for operations that do, where tree and pool want that (F.8.3).
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

package fairshare

import (
	"cmp"
	"fmt"
	"slices"

	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Element is a pool or an operation. The first group of fields is read by
// Update, the second is written by it. An element must not be copied after its
// first update, which leaves memory in it for the next one.
type Element struct {
	// ID is unique among the children of a pool that are of one kind.
	ID string
	// Operation tells operations, which have demand, from pools, which have
	// children.
	Operation bool
	// Weight is the part of the element in what its siblings divide, relative to
	// theirs. Below resource.Epsilon the element has no fair share.
	Weight float64
	// Demand is what an operation uses and could use now.
	Demand resource.Amounts
	// Usage is what an operation uses. Invariant: Usage <= Demand.
	Usage resource.Amounts
	// Children are the elements of a pool. Update sorts them: pools first, then by
	// ID.
	Children []*Element

	// DemandShare and UsageShare are the shares of Demand and Usage; of a pool,
	// the sums of its children's.
	DemandShare, UsageShare resource.Vector
	// FairShare is what the element ought to have.
	FairShare resource.Vector
	// Satisfaction is that of UsageShare, see Satisfaction.
	Satisfaction float64

	// direction is the growth of an operation per unit of its level.
	direction resource.Vector
	// level is how far an operation has grown: its dominant fair share.
	level float64
	// room is by how much the level can grow until all demand below is satisfied
	// or stopped.
	room float64
	// segments describe the growth of a pool.
	segments []segment
	// scratch is used by the root alone.
	scratch scratch
}

// read takes over the input below e: order, shares, and growth from nothing.
func (e *Element) read(total resource.Amounts, r *Report) error {
	if err := pooltree.ValidateWeight(e.Weight); err != nil {
		return fmt.Errorf("update fair share of %q: %w", e.ID, err)
	}
	e.FairShare = resource.Vector{}
	if e.Operation {
		r.Operations++
		e.DemandShare = resource.Share(e.Demand, total)
		e.UsageShare = resource.Share(e.Usage, total)
		e.level = 0
		e.direction = resource.Vector{}
		if d := e.DemandShare.MaxComponent(); d > 0 {
			e.direction = e.DemandShare.Scale(1 / d)
		}
		return nil
	}
	r.Pools++
	if !slices.IsSortedFunc(e.Children, byKindAndID) {
		slices.SortFunc(e.Children, byKindAndID)
	}
	e.DemandShare, e.UsageShare = resource.Vector{}, resource.Vector{}
	for _, c := range e.Children {
		if err := c.read(total, r); err != nil {
			return err
		}
		e.DemandShare = e.DemandShare.Add(c.DemandShare)
		e.UsageShare = e.UsageShare.Add(c.UsageShare)
	}
	return nil
}

// write gives out the result below e.
func (e *Element) write() {
	if e.Operation {
		e.FairShare = e.direction.Scale(e.level)
		if e.level > 0 && e.level == e.DemandShare.MaxComponent() {
			e.FairShare = e.DemandShare
		}
	}
	for _, c := range e.Children {
		c.write()
		e.FairShare = e.FairShare.Add(c.FairShare)
	}
	e.Satisfaction = Satisfaction(e.UsageShare, e.FairShare, e.DemandShare)
}

func byKindAndID(a, b *Element) int {
	if a.Operation != b.Operation {
		if b.Operation {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.ID, b.ID)
}

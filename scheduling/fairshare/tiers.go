package fairshare

import "weir/scheduling/resource"

// The tiers of strong guarantees, in the order in which they are given (F.5.4).
const (
	// PriorityTier is what priority pools below a donor have.
	PriorityTier = iota
	// RegularTier is all else.
	RegularTier

	// TierCount is the number of tiers.
	TierCount
)

// splitTiers splits the guarantee of every pool into tiers, bottom-up.
func (t *Tree) splitTiers() {
	for _, e := range t.pools {
		e.Pool.priority = e.Pool.PriorityAdjustment && e.donorAbove()
		if e.Pool.PriorityAdjustment && !e.Pool.priority {
			t.alerts = append(t.alerts, Alert{AlertNoDonor, e.ID})
		}
	}
	for i := len(t.pools) - 1; i >= 0; i-- {
		t.pools[i].split()
	}
}

func (e *Element) split() {
	all := e.StrongGuaranteeShare
	var priority resource.Vector
	switch {
	case e.Pool.priority:
		priority = all
	case e.Pool.PriorityDonor:
	default:
		priority = e.sumOfTier(PriorityTier)
	}
	e.Pool.Tiers = [TierCount]resource.Vector{priority, all.Sub(priority).Max(resource.Vector{})}
}

// donorAbove reports whether the nearest pool above that is a donor or a priority
// pool is a donor.
func (e *Element) donorAbove() bool {
	for p := e.parent; p != nil; p = p.parent {
		if p.Pool.PriorityDonor {
			return true
		}
		if p.Pool.PriorityAdjustment {
			return false
		}
	}
	return false
}

// sumOfTier is what the children of e have in a tier.
func (e *Element) sumOfTier(tier int) resource.Vector {
	var sum resource.Vector
	for _, c := range e.subpools() {
		sum = sum.Add(c.Pool.Tiers[tier])
	}
	return sum
}

func (e *Element) scaleTier(tier int, factor float64) {
	for _, c := range e.subpools() {
		c.Pool.Tiers[tier] = c.Pool.Tiers[tier].Scale(factor)
	}
}

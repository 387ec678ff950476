package fairshare

import "weir/scheduling/resource"

// inferGuarantees computes the strong guarantees of the pools directly below e in all resources
// (F.5.1): a resource that was not configured follows from the child's part of e's main resource.
// Below the root, inferred guarantees do not exceed what remains after explicit ones.
func (t *Tree) inferGuarantees(e *Element) {
	main := t.Options.MainResource
	if e.parent == nil {
		e.Pool.InferredGuarantee = t.total
	}
	for _, c := range e.subpools() {
		c.Pool.InferredGuarantee = c.Pool.StrongGuarantee.explicit()
	}
	var sum resource.Vector
	for k := range resource.Kind(resource.Count) {
		if k != main {
			t.inferKind(e, k)
		}
	}
	for _, c := range e.subpools() {
		c.StrongGuaranteeShare = resource.Share(c.Pool.InferredGuarantee, t.total)
		sum = sum.Add(c.StrongGuaranteeShare)
	}
	if e.parent == nil {
		e.StrongGuaranteeShare = sum
	}
}

func (t *Tree) inferKind(e *Element, k resource.Kind) {
	explicit, implicit := int64(0), 0.0
	for _, c := range e.subpools() {
		if c.Pool.StrongGuarantee.Named[k] {
			explicit += c.Pool.InferredGuarantee.Of(k)
		} else {
			implicit += t.implied(e, c, k)
		}
	}
	factor := 1.0
	residual := float64(max(e.Pool.InferredGuarantee.Of(k)-explicit, 0))
	if e.parent != nil && implicit > residual {
		factor = residual / implicit
	}
	for _, c := range e.subpools() {
		if !c.Pool.StrongGuarantee.Named[k] {
			c.Pool.InferredGuarantee = c.Pool.InferredGuarantee.Truncated(k, t.implied(e, c, k)*factor)
		}
	}
}

// implied returns the amount of resource k that c's guarantee of the main resource implies, in the
// unit of k.
func (t *Tree) implied(e, c *Element, k resource.Kind) float64 {
	main := t.Options.MainResource
	of := e.Pool.InferredGuarantee.Of(main)
	if of == 0 {
		return 0
	}
	return float64(c.Pool.InferredGuarantee.Of(main)) / float64(of) * float64(e.Pool.InferredGuarantee.Of(k))
}

// explicit returns the amounts of the named resources. Other amounts are 0.
func (g *Guarantee) explicit() resource.Amounts {
	var a resource.Amounts
	for k := range resource.Kind(resource.Count) {
		if g.Named[k] {
			a = a.With(k, g.Amounts.Of(k))
		}
	}
	return a
}

// adjustGuarantees makes strong guarantees fit the cluster and each other, and estimates the shares
// that follow. This is step 2 of F.3.
func (t *Tree) adjustGuarantees() {
	t.checkOvercommit()
	t.splitTiers()
	for _, e := range t.pools {
		e.StrongGuaranteeShare = e.StrongGuaranteeShare.Min(e.LimitsShare)
		t.adjustChildren(e)
	}
	t.Root.EstimatedGuaranteeShare = t.Root.StrongGuaranteeShare
	for _, e := range t.pools {
		t.estimateChildren(e)
	}
}

// checkOvercommit compares the guarantees of the whole tree, including flows and bursts, with the
// cluster. The comparison is in amounts. If bursts are too large, they are cut in shares, together
// with the root's guarantee (F.5.3).
func (t *Tree) checkOvercommit() {
	root := t.Root.Pool
	var sum resource.Amounts
	for _, c := range t.Root.subpools() {
		sum = sum.Add(c.Pool.InferredGuarantee)
	}
	bursts := t.total.Dominates(sum.Add(t.total.Scale(root.TotalBurstRatio)))
	if !bursts || !t.total.Dominates(sum.Add(t.total.Scale(root.TotalFlowRatio))) {
		t.alerts = append(t.alerts, Alert{AlertOvercommit, t.Root.ID})
	}
	if bursts {
		return
	}
	all := t.Root.StrongGuaranteeShare.Add(resource.Uniform(root.TotalBurstRatio))
	factor := greatest(0, 1, func(f float64) bool { return resource.Ones.Dominates(all.Scale(f)) })
	t.Root.StrongGuaranteeShare = t.Root.StrongGuaranteeShare.Scale(factor)
	for _, e := range t.burst {
		e.Pool.BurstRatio *= factor
	}
}

// adjustChildren divides the guarantee of e among its children, tier by tier. The first tier that
// does not fit is cut by one factor in all resources, and lower tiers get nothing (F.5.5).
func (t *Tree) adjustChildren(e *Element) {
	if len(e.subpools()) == 0 {
		return
	}
	available := e.StrongGuaranteeShare
	cut := false
	for tier := range TierCount {
		if cut {
			e.scaleTier(tier, 0)
			continue
		}
		sum := e.sumOfTier(tier)
		if available.Dominates(sum) {
			available = available.Sub(sum).Max(resource.Vector{})
			continue
		}
		cut = true
		e.scaleTier(tier, t.tierFactor(e, tier, sum, available))
	}
	for _, c := range e.subpools() {
		c.StrongGuaranteeShare = c.Pool.Tiers[PriorityTier].Add(c.Pool.Tiers[RegularTier])
	}
}

// tierFactor is the greatest factor at which a tier with the given sum fits.
func (t *Tree) tierFactor(e *Element, tier int, sum, available resource.Vector) float64 {
	t.shares = t.shares[:0]
	for _, c := range e.subpools() {
		t.shares = append(t.shares, c.Pool.Tiers[tier])
	}
	var none resource.Vector
	return greatestNear(reach(&none, &sum, &available), func(f float64) bool {
		var sum resource.Vector
		for _, share := range t.shares {
			sum = sum.Add(share.Scale(f))
		}
		return available.Dominates(sum)
	})
}

// estimateChildren estimates what the child pools of e would get if the cluster had only what is
// guaranteed: their guarantees, and the rest by weight (F.5.5). The estimates of operations are
// computed together with their fair shares.
func (t *Tree) estimateChildren(e *Element) {
	p := e.Pool
	p.rest = e.EstimatedGuaranteeShare
	weights := 0.0
	for _, c := range e.subpools() {
		c.EstimatedGuaranteeShare = c.StrongGuaranteeShare.Min(p.rest)
		p.rest = p.rest.Sub(c.EstimatedGuaranteeShare)
		p.branches[c.Pool.place].weight = t.weight(c)
	}
	ofOperations, pools := 0.0, e.subpools()
	for i := range p.branches {
		weights += p.branches[i].weight
		if len(pools) > 0 && pools[0].Pool.place == i {
			pools = pools[1:]
		} else {
			ofOperations += p.branches[i].weight
		}
	}
	p.perWeight = 0
	e.MinShare = e.StrongGuaranteeShare.Min(e.DemandShare)
	if ofOperations > resource.Epsilon {
		p.perWeight = 1 / ofOperations
	}
	if weights <= resource.Epsilon {
		p.rest = resource.Vector{}
		return
	}
	p.rest = p.rest.Scale(1 / weights)
	for _, c := range e.subpools() {
		c.EstimatedGuaranteeShare = c.EstimatedGuaranteeShare.Add(p.rest.Scale(p.branches[c.Pool.place].weight))
	}
}

// The tiers of strong guarantees, in the order in which they are given (F.5.4).
const (
	// PriorityTier holds the guarantees of priority pools below a donor.
	PriorityTier = iota
	// RegularTier holds all other guarantees.
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

// donorAbove reports whether there is a donor above e, with no priority pool between them.
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

// sumOfTier returns the sum of the children's shares in a tier.
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

package fairshare

import "weir/scheduling/resource"

// inferGuarantees finds the strong guarantees of the pools right below e in all
// resources (F.5.1): what was not configured follows from the part that the child
// has of e's main resource. Below the root, what is inferred does not exceed what
// explicit guarantees leave.
func (t *Tree) inferGuarantees(e *Element) {
	main := t.Options.MainResource
	if e.parent == nil {
		e.Pool.InferredGuarantee = t.total
	}
	for _, c := range e.Children {
		if c.Pool != nil {
			c.Pool.InferredGuarantee = c.Pool.StrongGuarantee.explicit()
		}
	}
	var sum resource.Vector
	for k := range resource.Kind(resource.Count) {
		if k != main {
			t.inferKind(e, k)
		}
	}
	for _, c := range e.Children {
		if c.Pool != nil {
			c.StrongGuaranteeShare = resource.Share(c.Pool.InferredGuarantee, t.total)
			sum = sum.Add(c.StrongGuaranteeShare)
		}
	}
	if e.parent == nil {
		e.StrongGuaranteeShare = sum
	}
}

func (t *Tree) inferKind(e *Element, k resource.Kind) {
	explicit, implicit := int64(0), 0.0
	for _, c := range e.Children {
		switch {
		case c.Pool == nil:
		case c.Pool.StrongGuarantee.Named[k]:
			explicit += c.Pool.InferredGuarantee.Of(k)
		default:
			implicit += t.implied(e, c, k)
		}
	}
	factor := 1.0
	residual := float64(max(e.Pool.InferredGuarantee.Of(k)-explicit, 0))
	if e.parent != nil && implicit > residual {
		factor = residual / implicit
	}
	for _, c := range e.Children {
		if c.Pool != nil && !c.Pool.StrongGuarantee.Named[k] {
			c.Pool.InferredGuarantee = c.Pool.InferredGuarantee.Truncated(k, t.implied(e, c, k)*factor)
		}
	}
}

// implied is what the main resource of c says of another, in its own unit.
func (t *Tree) implied(e, c *Element, k resource.Kind) float64 {
	main := t.Options.MainResource
	of := e.Pool.InferredGuarantee.Of(main)
	if of == 0 {
		return 0
	}
	return float64(c.Pool.InferredGuarantee.Of(main)) / float64(of) * float64(e.Pool.InferredGuarantee.Of(k))
}

// explicit is the amounts that were named.
func (g *Guarantee) explicit() resource.Amounts {
	var a resource.Amounts
	for k := range resource.Kind(resource.Count) {
		if g.Named[k] {
			a = a.With(k, g.Amounts.Of(k))
		}
	}
	return a
}

// adjustGuarantees makes strong guarantees fit the cluster and each other, and
// estimates what follows: step 6 of F.3.
func (t *Tree) adjustGuarantees() {
	t.checkOvercommit()
	t.splitTiers()
	for _, e := range t.pools {
		e.StrongGuaranteeShare = e.StrongGuaranteeShare.Min(e.LimitsShare)
		e.adjustChildren()
	}
	t.Root.EstimatedGuaranteeShare = t.Root.StrongGuaranteeShare
	for _, e := range t.pools {
		t.estimateChildren(e)
	}
}

// checkOvercommit compares the guarantees of the whole tree with the cluster: in
// amounts, with flows and with bursts. Too much burst is cut, together with the
// root's guarantee, in shares (F.5.3).
func (t *Tree) checkOvercommit() {
	root := t.Root.Pool
	var sum resource.Amounts
	for _, c := range t.Root.Children {
		if c.Pool != nil {
			sum = sum.Add(c.Pool.InferredGuarantee)
		}
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

// adjustChildren gives the guarantee of e to its children, tier by tier. A tier
// that does not fit is cut by one factor in all resources, and the lower tiers get
// nothing (F.5.5).
func (e *Element) adjustChildren() {
	available := e.StrongGuaranteeShare
	cut := false
	for tier := range TierCount {
		if cut {
			e.scaleTier(tier, 0)
			continue
		}
		if available.Dominates(e.sumOfTier(tier, 1)) {
			available = available.Sub(e.sumOfTier(tier, 1)).Max(resource.Vector{})
			continue
		}
		cut = true
		e.scaleTier(tier, greatest(0, 1, func(f float64) bool { return available.Dominates(e.sumOfTier(tier, f)) }))
	}
	for _, c := range e.Children {
		if c.Pool != nil {
			c.StrongGuaranteeShare = c.Pool.Tiers[PriorityTier].Add(c.Pool.Tiers[RegularTier])
		}
	}
}

// estimateChildren says what the children of e would get if all demanded
// everything: their guarantees, and the rest by weight (F.5.5).
func (t *Tree) estimateChildren(e *Element) {
	rest := e.EstimatedGuaranteeShare
	weights := 0.0
	for _, c := range e.Children {
		c.EstimatedGuaranteeShare = c.StrongGuaranteeShare.Min(rest)
		rest = rest.Sub(c.EstimatedGuaranteeShare)
		weights += t.weight(c)
	}
	if weights <= resource.Epsilon {
		return
	}
	for _, c := range e.Children {
		c.EstimatedGuaranteeShare = c.EstimatedGuaranteeShare.Add(rest.Scale(t.weight(c) / weights))
	}
}

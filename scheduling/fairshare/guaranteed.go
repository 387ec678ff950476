package fairshare

import "weir/scheduling/resource"

// FindGuaranteed computes the share that every element gets even if all have unlimited demand
// (F.5.7), as of the last update: guarantees first, then the rest by weight, up to limits. Nothing
// else depends on the result, so it is computed only on request: once per update, and again if the
// parameter changed says that the tree is different now.
func (t *Tree) FindGuaranteed(changed bool) {
	if t.guaranteed && !changed {
		return
	}
	t.guaranteed = true
	t.Root.GuaranteedShare = t.Root.LimitsShare
	t.guaranteeBelow(t.Root)
}

// guaranteeBelow divides the guaranteed share of a pool among its children. Elements may have been
// added or removed since the update.
func (t *Tree) guaranteeBelow(e *Element) {
	if e.Pool.Mode == FIFO {
		e.guaranteeInTurn()
	} else {
		t.guaranteeByWeight(e)
	}
	for _, c := range e.Children {
		if c.Pool != nil {
			t.guaranteeBelow(c)
		}
	}
}

// guaranteeInTurn serves the children of a FIFO pool one after the other, after pools have got
// their strong guarantees.
func (e *Element) guaranteeInTurn() {
	rest := e.GuaranteedShare
	for _, c := range e.Children {
		c.GuaranteedShare = resource.Vector{}
		if c.Pool != nil {
			c.GuaranteedShare = c.StrongGuaranteeShare.Min(c.reachable()).Min(rest)
		}
		rest = rest.Sub(c.GuaranteedShare)
	}
	for _, c := range e.order() {
		more := c.reachable().Sub(c.GuaranteedShare).Max(resource.Vector{}).Min(rest)
		c.GuaranteedShare = c.GuaranteedShare.Add(more)
		rest = rest.Sub(more)
	}
}

// claimant is a child of a pool, for the division among its children.
type claimant struct {
	weight float64
	// `most` is the upper bound of the child's share. `base` is the part of the share that does not
	// come by weight.
	most, base resource.Vector
}

// guaranteeByWeight divides the guaranteed share of a fair-share pool. Strong guarantees come
// before flows, which are what volumes can pay for in the long run.
func (t *Tree) guaranteeByWeight(e *Element) {
	all := t.claimants[:0]
	var strong, flows resource.Vector
	for _, c := range e.Children {
		one := claimant{weight: t.weight(c), most: c.reachable()}
		if c.Pool != nil {
			one.base = c.StrongGuaranteeShare.Min(one.most)
			strong = strong.Add(one.base)
			flows = flows.Add(one.flow(c.Pool))
		}
		all = append(all, one)
	}
	t.claimants = all
	left := e.GuaranteedShare.Sub(strong).Max(resource.Vector{})
	for i, c := range e.Children {
		if c.Pool == nil {
			continue
		}
		flow := all[i].flow(c.Pool)
		for r := range flow {
			if flows[r] > left[r] {
				flow[r] *= left[r] / flows[r]
			}
		}
		all[i].base = all[i].base.Add(flow)
	}
	levels := levelsOf(all, e.GuaranteedShare)
	for i, c := range e.Children {
		c.GuaranteedShare = all[i].at(levels)
	}
}

// flow returns the part of the flows of p, and of the pools below it, that fits between c.base and
// c.most.
func (c *claimant) flow(p *Pool) resource.Vector {
	return resource.Uniform(p.TotalFlowRatio).Min(c.most.Sub(c.base))
}

// at returns the share of a child at the levels that levelsOf returns.
func (c *claimant) at(levels resource.Vector) resource.Vector {
	return c.base.Add(levels.Scale(c.weight)).Min(c.most)
}

// levelsOf divides `share` among the claimants. It returns, for each resource, what a weight of 1
// gets on top of its base. The sum over all children is concave in the level, so Newton steps along
// its slope approach the solution and never overshoot.
func levelsOf(all []claimant, share resource.Vector) (levels resource.Vector) {
	for range len(all) + 1 {
		var sum, slopes resource.Vector
		for i := range all {
			has := all[i].at(levels)
			sum = sum.Add(has)
			for r := range has {
				if has[r] < all[i].most[r] {
					slopes[r] += all[i].weight
				}
			}
		}
		grown := false
		for r := range levels {
			if left := share[r] - sum[r]; left > rounding && slopes[r] > resource.Epsilon {
				levels[r] += left / slopes[r]
				grown = true
			}
		}
		if !grown {
			break
		}
	}
	return levels
}

// reachable is the greatest share that the element can have. The element gets resources in the
// proportion in which it demands them, so the limit of one resource bounds all of them.
func (e *Element) reachable() resource.Vector {
	most, fits := e.LimitsShare, -1.0
	for r, demand := range e.DemandShare {
		if demand > 0 && (fits < 0 || most[r] < fits*demand) {
			fits = most[r] / demand
		}
	}
	for r, demand := range e.DemandShare {
		if demand > 0 {
			most[r] = min(most[r], fits*demand)
		}
	}
	return most
}

// GuaranteedRatio returns the guaranteed share of the resource that the element demands most. Without
// demand, it is that of the resource with the greatest strong guarantee. Without such a guarantee, it
// is that of the tree's main resource.
func (t *Tree) GuaranteedRatio(e *Element) float64 {
	for _, v := range []resource.Vector{e.DemandShare, e.StrongGuaranteeShare} {
		if k := v.MaxKind(t.Options.MainResource); v[k] > 0 {
			return e.GuaranteedShare[k]
		}
	}
	return e.GuaranteedShare[t.Options.MainResource]
}

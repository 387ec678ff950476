package fairshare

import (
	"math"

	"weir/scheduling/resource"
)

// grantRelaxed gives relaxed pools, all at once, of what the guaranteed leave,
// strong guarantees without demand included: in proportion to their volumes, up to
// what volume and flow allow (F.6.5). Those that are above others come after these.
func (t *Tree) grantRelaxed() {
	rounds := 0
	for _, e := range t.relaxed {
		own := e.Pool.round
		rounds = max(rounds, own+1)
		for up := e.parent; up != nil; up = up.parent {
			up.Pool.round = max(up.Pool.round, own+1)
		}
	}
	for round := range rounds {
		t.grantRound(round)
		t.takeBackBurst(round + 1)
	}
}

// grantRound is grantRelaxed of the pools that have so many below them.
func (t *Tree) grantRound(round int) {
	paying := t.takers[:0]
	least := math.MaxFloat64
	for _, e := range t.relaxed {
		if e.Pool.round != round {
			continue
		}
		e.Pool.relaxedWeight = t.ratioByVolume(e.Pool)
		if e.Pool.relaxedWeight <= 0 {
			e.Pool.LastShareRatio = 0
			continue
		}
		paying = append(paying, e)
		least = min(least, e.Pool.relaxedWeight)
	}
	t.takers = paying
	if len(paying) == 0 {
		return
	}
	for _, e := range paying {
		t.tighten(e)
		e.Pool.relaxedWeight /= least
	}
	available := t.unclaimed()
	fit := greatest(0, 1, func(fit float64) bool {
		var sum resource.Vector
		for _, e := range paying {
			sum = sum.Add(t.relaxedShare(e, fit))
		}
		return available.Dominates(sum)
	})
	for _, e := range paying {
		e.LimitsShare = e.Pool.configuredLimits
		t.grant(e, t.relaxedShare(e, fit).Min(e.room()))
	}
}

// tighten makes the functions of a relaxed pool that is limited to its guarantee
// and what it may take by volume.
func (t *Tree) tighten(e *Element) {
	p := e.Pool
	multiplier := p.Integral.RelaxedMultiplier
	if multiplier == 0 {
		multiplier = t.Options.RelaxedMultiplier
	}
	most := resource.Uniform(min(p.relaxedWeight, multiplier*p.SpecifiedFlowRatio))
	p.configuredLimits = e.LimitsShare
	e.LimitsShare = e.LimitsShare.Min(most.Add(e.GuaranteeShare()))
	e.forget()
	t.prepare(e)
}

// relaxedShare is what a relaxed pool takes beyond its guarantee at a fit factor.
func (t *Tree) relaxedShare(e *Element, fit float64) resource.Vector {
	return t.beyondGuarantee(e, min(1, fit*e.Pool.relaxedWeight))
}

// unclaimed is what guarantees that are demanded leave of the cluster.
func (t *Tree) unclaimed() resource.Vector {
	available := resource.Ones
	for _, c := range t.Root.Children {
		available = available.Sub(c.GuaranteeShare().Min(c.DemandShare))
	}
	return available.Max(resource.Vector{})
}

package fairshare

import (
	"math"

	"weir/scheduling/resource"
)

// grantBurst grants burst pools, one after another, what they demand within their burst guarantee,
// as far as volume and limits allow (F.6.4). A pool comes after the pools below it, and pays for
// what those do not pay for.
func (t *Tree) grantBurst() {
	for _, e := range t.burst {
		ratio := min(e.Pool.BurstRatio, t.ratioByVolume(e.Pool))
		proposed := resource.Uniform(ratio).Min(e.room())
		below := e.IntegralShare
		e.IntegralShare = withinLimits(e.LimitsShare, e.StrongGuaranteeShare, below.Add(proposed))
		t.try(e)
		e.IntegralShare = below
		t.grant(e, t.beyondGuarantee(e, 0))
	}
}

// grant gives a pool an integral share. The share also counts for all pools above. Their functions
// become invalid.
func (t *Tree) grant(e *Element, share resource.Vector) {
	for p := e; p != nil; p = p.parent {
		p.IntegralShare = p.IntegralShare.Add(share)
		if p.parent != nil {
			p.IntegralShare = withinLimits(p.LimitsShare, p.StrongGuaranteeShare, p.IntegralShare)
		}
	}
	e.forget()
	e.Pool.granted, e.Pool.LastShareRatio = share, share.MaxComponent()
}

// takeBackBurst reduces this round's grants to burst pools by the part that relaxed pools below
// them now pay for.
func (t *Tree) takeBackBurst(round int) {
	for _, e := range t.burst {
		p := e.Pool
		if p.round != round {
			continue
		}
		t.prepare(e)
		taken := e.bySuggestion.of(t.points)[0].share
		unused := e.GuaranteeShare().Sub(taken).Max(resource.Vector{}).Min(p.granted)
		for up := e; up != nil; up = up.parent {
			up.IntegralShare = up.IntegralShare.Sub(unused).Max(resource.Vector{})
		}
		e.forget()
		p.granted = p.granted.Sub(unused)
		p.LastShareRatio = p.granted.MaxComponent()
	}
}

// forget drops the functions of e and of all above it.
func (e *Element) forget() {
	for ; e != nil; e = e.parent {
		e.ready = false
	}
}

// room returns the gap between guarantees and limits: the least gap of e and all pools above it. The
// root does not count, because its guarantees may exceed the cluster.
func (e *Element) room() resource.Vector {
	room := resource.Uniform(math.MaxFloat64)
	for ; e.parent != nil; e = e.parent {
		room = room.Min(e.LimitsShare.Sub(e.GuaranteeShare()))
	}
	return room.Max(resource.Vector{})
}

// withinLimits reduces the integral share so that together with the strong one it is within the
// limits, to the last bit.
func withinLimits(limits, strong, integral resource.Vector) resource.Vector {
	for r := range limits {
		if strong[r]+integral[r] <= limits[r] {
			continue
		}
		integral[r] = max(limits[r]-strong[r], 0)
		for range 32 {
			if strong[r]+integral[r] <= limits[r] {
				break
			}
			integral[r] = math.Nextafter(integral[r], 0)
		}
	}
	return integral
}

// grantRelaxed divides what remains after guarantees, including strong guarantees without demand,
// among relaxed pools. All get their parts at once, in proportion to their volumes, up to what volume
// and flow allow (F.6.5). A pool comes after the relaxed pools below it.
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

// grantRound grants the shares of one round: those of the relaxed pools with `round` levels of
// relaxed pools below them.
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

// tighten builds the functions of a relaxed pool with its limits lowered to its guarantee plus
// what it may take by volume.
func (t *Tree) tighten(e *Element) {
	p := e.Pool
	multiplier := p.Integral.RelaxedMultiplier
	if multiplier == 0 {
		multiplier = t.Options.RelaxedMultiplier
	}
	most := resource.Uniform(min(p.relaxedWeight, multiplier*p.SpecifiedFlowRatio))
	p.configuredLimits = e.LimitsShare
	e.LimitsShare = e.LimitsShare.Min(most.Add(e.GuaranteeShare()))
	t.try(e)
}

// relaxedShare returns what a relaxed pool takes beyond its guarantee at the fit factor `fit`.
func (t *Tree) relaxedShare(e *Element, fit float64) resource.Vector {
	return t.beyondGuarantee(e, min(1, fit*e.Pool.relaxedWeight))
}

// unclaimed returns the part of the cluster that is left when all demanded guarantees are met.
func (t *Tree) unclaimed() resource.Vector {
	available := resource.Ones
	for _, c := range t.Root.Children {
		available = available.Sub(c.GuaranteeShare().Min(c.DemandShare))
	}
	return available.Max(resource.Vector{})
}

package fairshare

import (
	"math"

	"weir/scheduling/resource"
)

// grantBurst gives burst pools, one after another, what they take within their
// burst guarantee, as far as volume and limits go (F.6.4). A pool comes after those
// below it, and pays for what they do not.
func (t *Tree) grantBurst() {
	for _, e := range t.burst {
		ratio := min(e.Pool.BurstRatio, t.ratioByVolume(e.Pool))
		proposed := resource.Uniform(ratio).Min(e.room())
		below := e.IntegralShare
		e.IntegralShare = withinLimits(e.LimitsShare, e.StrongGuaranteeShare, below.Add(proposed))
		e.forget()
		t.prepare(e)
		e.IntegralShare = below
		t.grant(e, t.beyondGuarantee(e, 0))
	}
}

// grant gives a pool an integral share. It counts for all above, whose functions
// are to be made anew.
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

// takeBackBurst takes from burst pools what they were granted before the relaxed pools
// below them, so many one below the other, which pay for it now.
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

// room is what is left between guarantees and limits, of e and all above it but
// the root, where guarantees may exceed the cluster.
func (e *Element) room() resource.Vector {
	room := resource.Uniform(math.MaxFloat64)
	for ; e.parent != nil; e = e.parent {
		room = room.Min(e.LimitsShare.Sub(e.GuaranteeShare()))
	}
	return room.Max(resource.Vector{})
}

// withinLimits returns an integral share that together with the strong one is
// within the limits, to the last bit.
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

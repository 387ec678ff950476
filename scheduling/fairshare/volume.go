package fairshare

import (
	"cmp"
	"slices"
	"time"

	"weir/scheduling/resource"
)

// updateVolumes adds to the volumes of integral pools the flow of the time that passed, and
// charges what the last update granted. Volume beyond a pool's capacity goes to other pools (F.6.1,
// F.6.2). Nothing happens in the first update, or in an empty cluster.
func (t *Tree) updateVolumes(now time.Time) {
	before := t.Updated
	if now.Before(before) {
		now = before
	}
	t.Updated = now
	for _, e := range t.pools {
		p := e.Pool
		p.overflow, p.acceptable, p.accepted = resource.Volume{}, resource.Volume{}, resource.Volume{}
		if p.Integral.Type == NoIntegral {
			p.LastShareRatio = 0
		}
	}
	if before.IsZero() || t.total.IsZero() || len(t.burst)+len(t.relaxed) == 0 {
		return
	}
	dt := now.Sub(before)
	passed, cpu := resource.VolumeOf(t.total, dt), float64(t.total.CPU)*dt.Seconds()
	for _, e := range t.burst {
		e.Pool.refill(passed, cpu)
	}
	for _, e := range t.relaxed {
		e.Pool.refill(passed, cpu)
	}
	t.distributeOverflow()
}

// mostOwed bounds how negative Rest can get for a pool without volume.
const mostOwed = 2

// refill adds the flow of an integral guarantee, burst or relaxed, to the pool's volume, and
// charges the grant of the time that passed (F.6.1). The parameter passed is the volume of the whole
// cluster over that time, and cpu is the CPU of that volume before rounding. A lower capacity never
// cuts existing volume. The grant is charged, not the usage, and in every resource alike.
func (p *Pool) refill(passed resource.Volume, cpu float64) {
	old := p.Volume
	in, out := passed.Scale(p.SpecifiedFlowRatio), passed.Scale(p.LastShareRatio)
	v := old.Add(in).Sub(out)
	if v.CPU < 0 {
		p.Rest = 0
	}
	v = p.repay(v.Max(resource.Volume{}))
	p.Rest += cpu*(p.SpecifiedFlowRatio-p.LastShareRatio) - float64(in.CPU-out.CPU)
	if v.CPU == 0 {
		// A pool without volume cannot pay back.
		p.Rest = max(p.Rest, -mostOwed)
	}
	upper := old.Max(p.Capacity)
	p.overflow = v.Sub(upper).Max(resource.Volume{})
	if p.Integral.AcceptsFreeVolume {
		p.acceptable = p.Capacity.Sub(v).Max(resource.Volume{})
	}
	p.Volume = v.Min(upper)
}

// repay moves the whole hundredths of Rest into a volume.
func (p *Pool) repay(v resource.Volume) resource.Volume {
	whole := max(resource.Hundredths(p.Rest), -v.CPU)
	v.CPU += whole
	p.Rest -= float64(whole)
	return v
}

// distributeOverflow gives volume beyond capacity to pools that have room and are below a pool that
// distributes it. For this, an integral pool is a leaf.
func (t *Tree) distributeOverflow() {
	for i := len(t.pools) - 1; i >= 0; i-- {
		if e := t.pools[i]; e.Pool.Integral.Type == NoIntegral {
			e.balance()
		}
	}
	for _, e := range t.pools {
		p := e.Pool
		if p.Integral.Type != NoIntegral {
			p.Volume = p.Volume.Add(p.accepted)
			continue
		}
		free := p.accepted
		if or(p.Integral.DistributesFreeVolume, t.Options.DistributesFreeVolume && e.parent != nil) {
			for _, c := range e.subpools() {
				free = free.Add(c.Pool.overflow)
			}
		}
		free = p.repay(free)
		if free.IsZero() {
			continue
		}
		for k := range resource.Kind(resource.Count) {
			t.distribute(e, k, free.Of(k))
		}
	}
}

// balance offsets the overflow of the children of e against the room of their siblings. The
// difference is the overflow of e itself, or its room.
func (e *Element) balance() {
	p := e.Pool
	var overflow, acceptable resource.Volume
	for _, c := range e.subpools() {
		overflow = overflow.Add(c.Pool.overflow)
		acceptable = acceptable.Add(c.Pool.acceptable)
	}
	p.overflow = overflow.Sub(acceptable).Max(resource.Volume{})
	if p.Integral.AcceptsFreeVolume {
		p.acceptable = acceptable.Sub(overflow).Max(resource.Volume{})
	}
}

// distribute gives free volume of one kind to the children of e that have room, in
// proportion to their flows.
func (t *Tree) distribute(e *Element, k resource.Kind, free float64) {
	takers, weights := t.takers[:0], 0.0
	for _, c := range e.subpools() {
		if p := c.Pool; p.acceptable.Of(k) > resource.Epsilon && p.TotalFlowRatio > resource.Epsilon {
			takers = append(takers, c)
			weights += p.TotalFlowRatio
		}
	}
	t.takers = takers
	// Children that fill up first come first. The volume that they do not take goes to the others.
	slices.SortStableFunc(takers, func(a, b *Element) int {
		return cmp.Compare(a.Pool.acceptable.Of(k)/a.Pool.TotalFlowRatio, b.Pool.acceptable.Of(k)/b.Pool.TotalFlowRatio)
	})
	for i, c := range takers {
		p := c.Pool
		room := p.acceptable.Of(k)
		if offer := free * p.TotalFlowRatio / weights; offer < room {
			for _, c := range takers[i:] {
				c.Pool.accept(k, free*c.Pool.TotalFlowRatio/weights)
			}
			return
		}
		p.accept(k, room)
		free -= room
		weights -= p.TotalFlowRatio
	}
}

// accept adds free volume of one kind.
func (p *Pool) accept(k resource.Kind, volume float64) {
	p.accepted = p.accepted.With(k, volume)
	if k == resource.CPU {
		p.Rest += 100*volume - float64(p.accepted.CPU)
	}
}

// ratioByVolume returns the share of the cluster that the volume pays for now, if it is spent over
// the smooth period (F.6.3).
func (t *Tree) ratioByVolume(p *Pool) float64 {
	return p.Volume.MinRatio(t.total) / t.Options.SmoothPeriod.Seconds()
}

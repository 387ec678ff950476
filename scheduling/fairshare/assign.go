package fairshare

import "weir/scheduling/resource"

// assignAll assigns the root its share at suggestion 1 and passes it down the tree, then does the
// same with promised fair shares below the pools that compute them (F.7.6, F.5.6).
func (t *Tree) assignAll() {
	t.assign(t.Root, t.top.share, t.top.fit, fairShare)
	ratio := 1 / max(t.Root.dominant, 1)
	all := t.whole || ratio != t.ratio
	t.ratio = ratio
	t.Root.rate(ratio, t.updates, all)
	for _, e := range t.promisers {
		if t.whole || e.touched == t.updates {
			first := &e.bySuggestion.of(t.points)[0]
			t.assign(e, first.share, first.fit, promisedFairShare)
		}
	}
}

// attribute selects which share is being assigned.
type attribute uint8

const (
	fairShare attribute = iota
	promisedFairShare
)

// assign sets the share of e and derives the shares of its children. The parameter fit is the fit
// factor that gives this share. Vector mode ignores it and finds its own.
func (t *Tree) assign(e *Element, share resource.Vector, fit float64, to attribute) {
	if to == promisedFairShare {
		t.assignBelow(e, share, fit, to)
		e.PromisedFairShare = share
		return
	}
	touched := t.whole || e.touched == t.updates || e.parent == nil
	if !touched && share == e.FairShare && fit == e.fit {
		return
	}
	e.assigned, e.FairShare, e.fit = t.updates, share, fit
	if e.Pool != nil {
		t.assignBelow(e, share, fit, to)
		if e.parent == nil {
			e.sumChildren()
		}
		e.dominant = 0
		for _, c := range e.Children {
			e.dominant += c.dominant
		}
		e.judge()
		return
	}
	if touched {
		w := t.weight(e)
		e.EstimatedGuaranteeShare = e.parent.Pool.rest.Scale(w)
		e.part = w * e.parent.Pool.perWeight
		e.findMinShare()
	}
	e.dominant = share.MaxComponent()
	e.judge()
}

// findMinShare finds the min share of an operation, from that of its pool.
func (e *Element) findMinShare() {
	e.MinShare = e.parent.MinShare.Scale(e.part).Min(e.DemandShare)
}

func (t *Tree) assignBelow(e *Element, share resource.Vector, fit float64, to attribute) {
	if e.Pool == nil {
		return
	}
	children, branches := e.order(), e.Pool.branches
	switch {
	case len(children) == 0:
	case t.Options.VectorFitFactor:
		t.assignVector(e, share, to)
	case e.Pool.Mode == FIFO:
		for i, c := range children {
			share, fit := lens{scale: 1, shift: float64(i)}.left(branches[i].function.of(t.points), fit)
			t.assign(c, share, fit, to)
		}
	default:
		for i, c := range children {
			share, fit := branches[i].seen().left(branches[i].function.of(t.points), fit)
			t.assign(c, share, fit, to)
		}
	}
}

// assignVector gives the children of e as much as fits within the parameter share, all up to a common
// fit factor. Children that jump at that factor do so one after another, as long as the share allows
// (F.7.6).
func (t *Tree) assignVector(e *Element, share resource.Vector, to attribute) {
	f := e.byFit.of(t.fits)
	p := search(f, share, rounding)
	if t.Options.DistributionGap && !share.Within(p.share, resource.Epsilon) {
		p = search(f, share, resource.Epsilon)
	}
	for i, c := range e.order() {
		g := e.Pool.branches[i].function.of(t.points)
		l := e.Pool.branches[i].seen()
		if e.Pool.Mode == FIFO {
			l = lens{scale: 1, shift: float64(i)}
		}
		var own resource.Vector
		if p.after || p.jumping && int32(i) < p.child {
			own = l.right(g, p.x)
		} else {
			own, _ = l.left(g, p.x)
		}
		t.assign(c, own, 0, to)
	}
}

// place is a position on a function by fit factor.
type place struct {
	x     float64
	share resource.Vector
	// after selects the limit right of x instead of the value left of it.
	after bool
	// jumping means that only the children before the field child have jumped at x.
	jumping bool
	child   int32
}

// search returns the last place of f at which no resource exceeds its part of the parameter share by
// more than slack.
func search(f []point, share resource.Vector, slack float64) place {
	for r := range share {
		share[r] += slack
	}
	// i is the first corner that exceeds the share.
	i, end := 0, len(f)
	for i < end {
		if middle := int(uint(i+end) >> 1); share.Dominates(f[middle].share) {
			i = middle + 1
		} else {
			end = middle
		}
	}
	switch {
	case i == 0:
		return place{x: f[0].x, share: f[0].share}
	case i == len(f):
		return place{x: f[i-1].x, share: f[i-1].share, after: true}
	}
	a, b := &f[i-1], &f[i]
	if a.x == b.x {
		return place{x: a.x, share: a.share, jumping: true, child: b.child}
	}
	t := reach(&a.share, &b.share, &share)
	x := number(a.x, b.x, t)
	return place{x: x, share: between(&a.share, &b.share, t), after: x == a.x}
}

// sumChildren sets the share of the root to the sum of its children's shares (F.7.7).
func (e *Element) sumChildren() {
	e.FairShare, e.usedStrong = resource.Vector{}, resource.Vector{}
	for _, c := range e.Children {
		e.FairShare = e.FairShare.Add(c.FairShare)
		e.usedStrong = e.usedStrong.Add(c.FairShare.Min(c.StrongGuaranteeShare))
	}
}

// rate sets the FairShareRatio of all elements, or of those that were assigned a share in this update.
// That of an operation is the share of its dominant resource, times the ratio of the tree. That of a
// pool is the sum of those of its children, capped at the share of its own dominant resource (F.4.1).
func (e *Element) rate(ratio float64, update uint64, all bool) {
	switch {
	case !all && e.assigned != update:
	case e.Pool == nil:
		e.FairShareRatio = e.dominant * ratio
	default:
		e.FairShareRatio = 0
		for _, c := range e.Children {
			c.rate(ratio, update, all)
			e.FairShareRatio += c.FairShareRatio
		}
		e.FairShareRatio = min(e.FairShareRatio, e.FairShare.MaxComponent())
	}
}

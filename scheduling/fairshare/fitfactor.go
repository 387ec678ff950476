package fairshare

import (
	"slices"

	"weir/scheduling/resource"
)

// operationCorners is the most that the function of an operation has: nothing,
// five of usage, demand.
const operationCorners = resource.Count + 3

// operationByFit makes the share of an operation by fit factor (F.7.2): over
// [0, 1] up to its usage, all resources alike until each reaches what is used of
// it; over [1, 2] straight on to its demand. A gang steps from nothing to its
// demand at 1.
func operationByFit(f []point, usage, demand resource.Vector, step bool) []point {
	demand = demand.Max(usage)
	f = append(f[:0], point{})
	if step {
		return append(f, point{x: 1}, point{x: 1, share: demand}, point{x: 2, share: demand})
	}
	if most := usage.MaxComponent(); most > 0 {
		levels := usage
		slices.Sort(levels[:])
		for i, level := range levels {
			if level > 0 && (i == 0 || level > levels[i-1]) && level < most {
				f = append(f, point{x: level / most, share: usage.Min(resource.Uniform(level))})
			}
		}
	}
	return append(f, point{x: 1, share: usage}, point{x: 2, share: demand})
}

// poolByFit makes the share of a fair-share pool by fit factor in [0, 1] (F.7.4):
// the suggestion for a child is the fit factor times its weight, where that of
// the lightest is 1, and at most 1.
func (t *Tree) poolByFit(e *Element) []point {
	least := 0.0
	for _, c := range e.Children {
		if w := t.weight(c); w > resource.Epsilon && (least == 0 || w < least) {
			least = w
		}
	}
	t.summer.begin()
	for i, c := range e.Children {
		c.scale = 0
		if least > 0 {
			c.scale = t.weight(c) / least
		}
		t.summer.add(c.bySuggestion.of(t.points), c.scale, int32(i))
	}
	return t.summer.sum(t.Options.VectorFitFactor)
}

// fifoByFit makes the share of a FIFO pool by fit factor in [0, n] (F.7.3): the
// functions of its n children one after another. A child at suggestion 1 counts
// as satisfied, even if it demands more.
func (t *Tree) fifoByFit(e *Element) []point {
	t.summer.begin()
	f := t.summer.from
	f = append(f, point{})
	for i, c := range e.order() {
		before := f[len(f)-1].share
		g := c.bySuggestion.of(t.points)
		if g[len(g)-1].share.IsZero() {
			continue
		}
		l := lens{scale: 1, shift: float64(i)}
		for j := range g {
			p := point{x: l.x(&g[j]), share: before.Add(g[j].share), child: int32(i)}
			if last := &f[len(f)-1]; last.x != p.x || last.share != p.share {
				f = append(f, p)
			}
		}
	}
	last := f[len(f)-1]
	if n := float64(len(e.Children)); last.x < n {
		last.x, last.child = n, int32(len(e.Children)-1)
		f = append(f, last)
	}
	t.summer.from = f
	return f
}

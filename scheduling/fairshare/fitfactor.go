package fairshare

import "weir/scheduling/resource"

// poolByFit builds the share of a fair-share pool by fit factor in [0, 1] (F.7.4): the suggestion
// for a child is the fit factor times its weight, scaled so that the lightest child has weight 1,
// and at most 1.
func (t *Tree) poolByFit(branches []branch) []point {
	scaleBranches(branches)
	t.summer.begin()
	for i := range branches {
		t.summer.add(branches[i].function.of(t.points), branches[i].scale, int32(i), 0, 1)
	}
	return t.summer.sum(t.Options.VectorFitFactor)
}

// scaleBranches finds how much faster the suggestions of children grow than that of the lightest one.
func scaleBranches(branches []branch) {
	least := 0.0
	for i := range branches {
		if w := branches[i].weight; w > resource.Epsilon && (least == 0 || w < least) {
			least = w
		}
	}
	for i := range branches {
		b := &branches[i]
		b.scale = 0
		if least > 0 {
			b.scale = b.weight / least
		}
	}
}

// fifoByFit builds the share of a FIFO pool by fit factor in [0, n] (F.7.3): the functions of its
// n children one after another. A child at suggestion 1 counts as satisfied, even if it demands
// more. The share that a child pool has at suggestion 0, within its guarantees, is granted before
// its turn.
func (t *Tree) fifoByFit(e *Element) []point {
	branches := e.Pool.branches
	t.summer.begin()
	f := t.summer.from
	f = append(f, point{})
	for _, c := range e.subpools() {
		f[0].share = f[0].share.Add(branches[c.Pool.place].function.of(t.points)[0].share)
	}
	for i := range branches {
		before := f[len(f)-1].share
		g := branches[i].function.of(t.points)
		if g[len(g)-1].share.IsZero() {
			continue
		}
		l := lens{scale: 1, shift: float64(i)}
		for j := range g {
			p := point{x: l.x(&g[j]), share: before.Add(g[j].share.Sub(g[0].share)), child: int32(i)}
			if last := &f[len(f)-1]; last.x != p.x || last.share != p.share {
				f = append(f, p)
			}
		}
	}
	last := f[len(f)-1]
	if n := len(branches); last.x < float64(n) {
		last.x, last.child = float64(n), int32(n-1)
		f = append(f, last)
	}
	t.summer.from = f
	return f
}

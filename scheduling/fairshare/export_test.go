package fairshare

import "weir/scheduling/resource"

// Top returns the share of the root at suggestion 1 with its fit factor: as found by the last update,
// and by the whole function of the root.
func (t *Tree) Top() (share resource.Vector, fit float64, wantShare resource.Vector, wantFit float64) {
	t.build(t.Root, &t.Root.Pool.own)
	f := t.Root.Pool.own.function.of(t.points)
	last := f[len(f)-1]
	return t.top.share, t.top.fit, last.share, last.fit
}

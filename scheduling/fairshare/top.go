package fairshare

import (
	"math"

	"weir/scheduling/resource"
)

// margin is how far the share of the root is from its limits at places that are left out of its
// function: much more than rounding.
const margin = resource.Epsilon

// top finds the share of the root at suggestion 1. The function of the root would have as many
// corners as there are in the whole tree, and only one of its values counts. So the place where a
// limit is met is found first, nearly, and only the part of the function around it is built.
type top struct {
	share resource.Vector
	fit   float64
	// ways are for the functions of the children, scratch is for the part of the function.
	ways    []way
	scratch []point
}

// way says between which corners of a child's function the place is. at is the first corner at or
// beyond the last fit factor that was tried.
type way struct{ low, high, at int32 }

// prepareTop builds the functions of all pools below the root, and finds the share of the root.
func (t *Tree) prepareTop() {
	root := t.Root
	if p := root.Pool; t.Options.VectorFitFactor || p.Mode == FIFO || p.ComputePromised || p.Integral.Type != NoIntegral {
		t.prepare(root)
		f := root.bySuggestion.of(t.points)
		t.top.share, t.top.fit = f[len(f)-1].share, f[len(f)-1].fit
		return
	}
	t.prepareBelow(root)
	scaleBranches(root.Pool.branches)
	first := t.part(0, 0)[0].share
	all := t.part(1, 1)
	last := all[len(all)-1].share
	w := newRise(t.top.scratch[:0], &first, &last, root.GuaranteeShare(), root.LimitsShare)
	w.up(t.part(t.place()), &last)
	t.top.scratch = w.out
	end := w.out[len(w.out)-1]
	t.top.share, t.top.fit, root.LimitedDemandShare = end.share, end.fit, end.share
}

// part returns the function of the root by fit factor, at least where it is from low to high. It is
// valid until the summer is used again.
func (t *Tree) part(low, high float64) []point {
	t.summer.begin()
	for i := range t.Root.Pool.branches {
		b := &t.Root.Pool.branches[i]
		t.summer.add(b.function.of(t.points), b.scale, int32(i), low, high)
	}
	return t.summer.sum(false)
}

// place returns fit factors, near to each other, between which the root meets its first limit. Below
// low it is far from all of them. Both are 1 if it meets none.
func (t *Tree) place() (low, high float64) {
	branches := t.Root.Pool.branches
	t.top.ways = t.top.ways[:0]
	for i := range branches {
		f := branches[i].function
		t.top.ways = append(t.top.ways, way{high: f.to - f.from})
	}
	if t.beyond(1) <= -margin {
		return 1, 1
	}
	step := margin
	if t.beyond(0) <= -margin {
		high = 1
		for high-low > 1e-7*high {
			if middle := (low + high) / 2; t.beyond(middle) <= -margin {
				low = middle
				t.narrow(func(w *way) { w.low = w.at })
			} else {
				high = middle
				t.narrow(func(w *way) { w.high = w.at })
			}
		}
		step = high - low
	}
	for i := range t.top.ways {
		t.top.ways[i].high = branches[i].function.to - branches[i].function.from
	}
	for high < 1 && t.beyond(high) <= margin {
		high, step = min(high+step, 1), 2*step
	}
	return low, high
}

// narrow changes what is known of the place in all functions.
func (t *Tree) narrow(change func(*way)) {
	for i := range t.top.ways {
		change(&t.top.ways[i])
	}
}

// beyond returns by how much the root exceeds its limits at a fit factor; a negative number if it is
// below all of them.
func (t *Tree) beyond(x float64) float64 {
	var sum resource.Vector
	for i := range t.top.ways {
		b, w := &t.Root.Pool.branches[i], &t.top.ways[i]
		f := b.function.of(t.points)
		if b.scale <= 0 {
			sum = sum.Add(f[0].share)
			continue
		}
		l := lens{scale: b.scale}
		w.at = l.first(f, w.low, w.high, x)
		share, _ := l.at(f, int(w.at), x)
		sum = sum.Add(share)
	}
	most := math.Inf(-1)
	for r, limit := range t.Root.LimitsShare {
		most = max(most, sum[r]-limit)
	}
	return most
}

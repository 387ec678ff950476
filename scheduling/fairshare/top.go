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
	// branches, functions and limits are those of the root.
	branches  []branch
	functions []point
	limits    resource.Vector
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
	t.top.branches, t.top.functions, t.top.limits = root.Pool.branches, t.points, root.LimitsShare
	t.top.find(&t.summer, root.GuaranteeShare())
	root.LimitedDemandShare = t.top.share
}

// find finds the share at suggestion 1, and its fit factor.
func (t *top) find(s *summer, guarantee resource.Vector) {
	first := t.part(s, 0, 0)[0].share
	all := t.part(s, 1, 1)
	last := all[len(all)-1].share
	w := newRise(t.scratch[:0], &first, &last, guarantee, t.limits)
	low, high := t.place()
	w.up(t.part(s, low, high), &last)
	t.scratch = w.out
	end := w.out[len(w.out)-1]
	t.share, t.fit = end.share, end.fit
}

// part returns the function of the root by fit factor, at least where it is from low to high. It is
// valid until the summer is used again.
func (t *top) part(s *summer, low, high float64) []point {
	s.begin()
	for i := range t.branches {
		b := &t.branches[i]
		s.add(b.function.of(t.functions), b.scale, int32(i), low, high)
	}
	return s.sum(false)
}

// place returns fit factors, near to each other, between which the root meets its first limit. Below
// low it is far from all of them. Both are 1 if it meets none.
func (t *top) place() (low, high float64) {
	t.ways = t.ways[:0]
	for i := range t.branches {
		f := t.branches[i].function
		t.ways = append(t.ways, way{high: f.to - f.from})
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
	for i := range t.ways {
		t.ways[i].high = t.branches[i].function.to - t.branches[i].function.from
	}
	for high < 1 && t.beyond(high) <= margin {
		high, step = min(high+step, 1), 2*step
	}
	return low, high
}

// narrow changes what is known of the place in all functions.
func (t *top) narrow(change func(*way)) {
	for i := range t.ways {
		change(&t.ways[i])
	}
}

// beyond returns by how much the root exceeds its limits at a fit factor; a negative number if it is
// below all of them.
func (t *top) beyond(x float64) float64 {
	var sum resource.Vector
	for i := range t.ways {
		b, w := &t.branches[i], &t.ways[i]
		f := b.function.of(t.functions)
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
	for r, limit := range t.limits {
		most = max(most, sum[r]-limit)
	}
	return most
}

package fairshare

import "weir/scheduling/resource"

// point is a corner of a piecewise-linear function into shares (F.7.1).
//
// A function is a row of points whose x and shares never fall. The first x is 0, and right of the
// last point the function is constant. Two points with the same x are a jump. The value at that x
// is the share of the first point.
type point struct {
	// x is the fit factor or the suggestion.
	x float64
	// fit is, in functions by suggestion, the fit factor that gives this share.
	fit   float64
	share resource.Vector
	// child is, in functions by fit factor of vector mode, the index of the child that causes the
	// step to this point.
	child int32
}

// span is a function in an arena. A new function that ends at `end` or before may take its place.
type span struct{ from, to, end int32 }

// endOf returns the function of the last points.
func endOf(arena []point, from int) span {
	end := int32(len(arena))
	return span{int32(from), end, end}
}

func (s span) of(arena []point) []point { return arena[s.from:s.to] }

// between interpolates from a to b at t in [0, 1], starting from the nearer end: the result is
// exact at both ends and never outside them (F.7.1).
func between(a, b *resource.Vector, t float64) resource.Vector {
	var v resource.Vector
	if t < 0.5 {
		for r := range v {
			v[r] = a[r] + (b[r]-a[r])*t
		}
		return v
	}
	t = 1 - t
	for r := range v {
		v[r] = b[r] - (b[r]-a[r])*t
	}
	return v
}

func number(a, b, t float64) float64 {
	if t < 0.5 {
		return a + (b-a)*t
	}
	return b - (b-a)*(1-t)
}

// lens maps the function of a child to its pool's x: x / scale + shift. Looking up a corner through
// the lens that produced it finds exactly that corner.
type lens struct{ scale, shift float64 }

func (l lens) x(p *point) float64 { return p.x/l.scale + l.shift }

// left returns the value of f at x, and its fit factor. At a jump, both are those before the jump.
func (l lens) left(f []point, x float64) (resource.Vector, float64) {
	return l.at(f, int(l.first(f, 0, int32(len(f)), x)), x)
}

// first returns the first corner at x or beyond. It is one from `from` to end.
func (l lens) first(f []point, from, end int32, x float64) int32 {
	for from < end {
		if middle := int32(uint32(from+end) >> 1); l.x(&f[middle]) < x {
			from = middle + 1
		} else {
			end = middle
		}
	}
	return from
}

// right returns the limit of f right of x. At a jump, it is the value after the jump.
func (l lens) right(f []point, x float64) resource.Vector {
	// i is the first corner beyond x.
	i, end := 0, len(f)
	for i < end {
		if middle := int(uint(i+end) >> 1); l.x(&f[middle]) <= x {
			i = middle + 1
		} else {
			end = middle
		}
	}
	if i > 0 && l.x(&f[i-1]) == x {
		return f[i-1].share
	}
	share, _ := l.at(f, i, x)
	return share
}

// at returns the value at x, which lies at corner i or between corners i-1 and i.
func (l lens) at(f []point, i int, x float64) (resource.Vector, float64) {
	switch {
	case i == len(f):
		return f[i-1].share, f[i-1].fit
	case i == 0:
		return f[0].share, f[0].fit
	}
	a, b := &f[i-1], &f[i]
	from, to := l.x(a), l.x(b)
	if to == x {
		return b.share, b.fit
	}
	t := (x - from) / (to - from)
	return between(&a.share, &b.share, t), number(a.fit, b.fit, t)
}

package fairshare

import (
	"math"

	"weir/scheduling/resource"
)

// compression is how far a corner may be from the line between its neighbours and still be left
// out (F.1.4).
const compression = 1e-15

// rounding is how far equal shares may differ because they were added up in a different order.
const rounding = 1e-12

// rise goes up a function by fit factor and turns it into the function by suggestion (F.7.5).
//
// By the rule, each resource has its greatest fit factor by suggestion: the inverse of its
// component, from the guarantee up to the limit. The least of the five, composed with the function
// itself, is the share by suggestion. This is equivalent to going up by fit factor until a limit
// is met, with the greatest excess of any resource over its guarantee as the suggestion, so one
// pass computes both.
//
//   - Where no resource exceeds its guarantee the suggestion is 0: the function starts at the end
//     of that part (left-trimmed).
//   - Where the greatest excess stands still the share jumps.
//   - Where the share jumps the suggestion grows alone, and the share follows
//     after that (left-continuous). A jump at suggestion 1 is never taken
//     (right-trimmed).
type rise struct {
	out []point
	// `from` is where the function begins in out.
	from int
	// exact means that the corners of the fit factor are kept too. It is set for pools.
	exact            bool
	guarantee, limit resource.Vector
	// suggestion is the suggestion reached so far.
	suggestion float64
}

// bySuggestion appends to out the function by suggestion of a pool whose function by fit factor is
// f.
func bySuggestion(out, f []point, guarantee, limits resource.Vector) []point {
	last := &f[len(f)-1].share
	w := newRise(out, &f[0].share, last, guarantee, limits)
	w.up(f, last)
	return w.out
}

// newRise returns a rise of a pool from the share first to the share last.
func newRise(out []point, first, last *resource.Vector, guarantee, limits resource.Vector) rise {
	w := rise{out: out, from: len(out), exact: true}
	for r := range limits {
		w.limit[r] = min(max(limits[r], first[r]), last[r])
		w.guarantee[r] = min(max(guarantee[r], first[r]), w.limit[r])
	}
	return w
}

// up goes up the function f, whose last share is last.
func (w *rise) up(f []point, last *resource.Vector) {
	// All that is within the guarantee is granted at suggestion 0.
	i := 1
	for i < len(f) && f[i].share.Within(w.guarantee, rounding) {
		i++
	}
	if i == len(f) {
		w.out = append(w.out, point{fit: f[i-1].x, share: *last})
		return
	}
	start := 0.0
	if f[i].x > f[i-1].x {
		start = reach(&f[i-1].share, &f[i].share, &w.guarantee)
	}
	begin := point{
		fit:   number(f[i-1].x, f[i].x, start),
		share: between(&f[i-1].share, &f[i].share, start).Min(w.guarantee),
	}
	if start == 0 && i > 1 && f[i-2].x == f[i-1].x && w.blocked(f, i) {
		begin.share = f[i-2].share
	}
	w.out = append(w.out, begin)
	w.climb(f, i, start)
}

// climb continues up f until a limit is met. It begins between the corners i-1 and i. The parameter
// start is the fraction of the way from i-1 to i.
func (w *rise) climb(f []point, i int, start float64) {
	for ; i < len(f); i++ {
		a, b := &f[i-1], &f[i]
		switch {
		case a.x < b.x:
			if !w.line(a, b, start) {
				return
			}
		case !b.share.Within(w.limit, rounding) || w.blocked(f, i+1):
			return
		default:
			w.jump(a, b)
		}
		start = 0
	}
}

// blocked reports whether corner i ends a line that cannot be entered because a limit is met where
// it begins. A jump at that place is not taken then: the value at its fit factor is the one before
// it.
func (w *rise) blocked(f []point, i int) bool {
	if i == len(f) || f[i-1].x == f[i].x {
		return false
	}
	for r, limit := range w.limit {
		if f[i].share[r] > limit+rounding && f[i-1].share[r] >= limit-rounding {
			return true
		}
	}
	return false
}

// reach returns which part of the way from a to b stays within bound. A component that does not
// grow is beyond bound by rounding at most, and is ignored.
func reach(a, b, bound *resource.Vector) float64 {
	t := 1.0
	for r := range bound {
		if b[r] > bound[r] && b[r] > a[r] {
			t = min(t, max(bound[r]-a[r], 0)/(b[r]-a[r]))
		}
	}
	return t
}

// jump goes from a to b, which have the same fit factor.
func (w *rise) jump(a, b *point) {
	for r := range b.share {
		w.suggestion = max(w.suggestion, b.share[r]-w.guarantee[r])
	}
	w.corner(a.x, &a.share)
	w.corner(b.x, &b.share)
}

// line goes up the line from a to b. The parameter start is the fraction of the line that was covered
// before. It returns false if it met a limit.
//
// The excess of each resource is a line too. The greatest excess is a chain of ever steeper lines:
// there is a corner wherever another resource takes the lead.
func (w *rise) line(a, b *point, start float64) bool {
	before, after := a.share.Sub(w.guarantee), b.share.Sub(w.guarantee)
	last := 0
	for r := 1; r < resource.Count; r++ {
		if after[r] > after[last] {
			last = r
		}
	}
	leads := start == 0
	for r := range before {
		leads = leads && before[r] <= before[last]
	}
	if leads && w.limit.Dominates(b.share) {
		// A resource that leads at both ends leads all the way.
		w.suggestion = max(w.suggestion, after[last])
		w.corner(b.x, &b.share)
		return true
	}
	return w.chain(a, b, &before, &after, start)
}

// chain handles the lines on which the lead changes, or only part of the way is within the limit.
func (w *rise) chain(a, b *point, before, after *resource.Vector, start float64) bool {
	end := max(reach(&a.share, &b.share, &w.limit), start)
	excess := func(r int, t float64) float64 { return number(before[r], after[r], t) }
	slope := func(r int) float64 { return after[r] - before[r] }
	leader := 0
	for r := 1; r < resource.Count; r++ {
		if d := excess(r, start) - excess(leader, start); d > 0 || d == 0 && slope(r) > slope(leader) {
			leader = r
		}
	}
	for t := start; ; {
		next, follower := end, -1
		for r := range resource.Count {
			faster := slope(r) - slope(leader)
			if faster <= 0 {
				continue
			}
			meets := max(t+(excess(leader, t)-excess(r, t))/faster, t)
			if meets < next || meets == next && follower >= 0 && slope(r) > slope(follower) {
				next, follower = meets, r
			}
		}
		w.suggestion = max(w.suggestion, excess(leader, next))
		share := between(&a.share, &b.share, next).Min(w.limit)
		if follower >= 0 {
			share[follower] = w.guarantee[follower] + w.suggestion
		}
		w.corner(number(a.x, b.x, next), &share)
		if follower < 0 {
			return b.share.Within(w.limit, rounding)
		}
		t, leader = next, follower
	}
}

// corner adds a corner at the current suggestion, and drops the one before it when that lies on
// the line.
func (w *rise) corner(fit float64, share *resource.Vector) {
	x := min(w.suggestion, 1)
	n := len(w.out)
	last := &w.out[n-1]
	switch {
	case last.x >= 1-rounding:
		// Rounding may leave a jump at the right end; trim it.
		return
	case last.x == x:
		if n-1 > w.from && w.out[n-2].x != x {
			if last.share == *share && (!w.exact || last.fit == fit) {
				return
			}
			break
		}
		last.fit, last.share = fit, *share
		return
	case n-1 > w.from && w.out[n-2].x < last.x && w.onTheWay(&w.out[n-2], last, x, fit, share):
		last.x, last.fit, last.share = x, fit, *share
		return
	}
	w.out = append(w.out, point{x: x, fit: fit, share: *share})
}

// onTheWay reports whether b is on the line from a to the new corner.
func (w *rise) onTheWay(a, b *point, x, fit float64, share *resource.Vector) bool {
	t := (b.x - a.x) / (x - a.x)
	for r := range share {
		if math.Abs(number(a.share[r], share[r], t)-b.share[r]) > compression {
			return false
		}
	}
	return !w.exact || math.Abs(number(a.fit, fit, t)-b.fit) <= compression*max(1, fit)
}

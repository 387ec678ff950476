package fairshare

import "slices"

// summer adds functions of children, and owns the memory for the sums.
type summer struct {
	// `from` and `to` hold functions one after the other. ends holds the end of each function in
	// `from`.
	from, to []point
	ends     []int32
}

// begin removes all functions.
func (s *summer) begin() {
	s.from, s.ends = s.from[:0], s.ends[:0]
}

// add copies the function of a child as its pool sees it, on [0, 1]. The copy grows faster by the
// factor `scale`. It begins with the last corner at low or before, and ends with the first one beyond
// high.
func (s *summer) add(f []point, scale float64, child int32, low, high float64) {
	if scale <= 0 {
		f = f[:1]
		scale = 1
	}
	start := len(s.from)
	l := lens{scale: scale}
	begin := 0
	if low > 0 {
		begin = l.before(f, low)
	}
	for i := begin; i < len(f); i++ {
		x := l.x(&f[i])
		if x >= 1 && i > 0 {
			if s.from[len(s.from)-1].x < 1 {
				share, _ := l.left(f, 1)
				s.from = append(s.from, point{x: 1, share: share, child: child})
			}
			break
		}
		s.from = append(s.from, point{x: x, share: f[i].share, child: child})
		if x > high {
			break
		}
	}
	if len(f) == 1 && s.from[start].share.IsZero() {
		s.from = s.from[:start]
		return
	}
	s.ends = append(s.ends, int32(len(s.from)))
}

// before returns the first of the corners with the greatest number that is at most x, and less than 1.
func (l lens) before(f []point, x float64) int {
	i := int(l.first(f, 0, int32(len(f)), x))
	if i < len(f) && l.x(&f[i]) == x && x < 1 {
		return i
	}
	i = max(i-1, 0)
	return int(l.first(f, 0, int32(i), l.x(&f[i])))
}

// sum returns the sum of all functions on [0, 1]. It is valid until the next call of `begin`.
//
// Children that jump at the same x jump together. If the parameter apart is set, they jump one after
// another in the order in which they were added (F.7.6).
//
// Neighbours are merged until one function is left. So a point is copied, and a value rounded, only
// once for every halving of the number of functions.
func (s *summer) sum(apart bool) []point {
	if len(s.ends) == 0 {
		s.from = append(s.from, point{})
		s.ends = append(s.ends, 1)
	}
	for len(s.ends) > 1 {
		s.to = s.to[:0]
		begin, n := int32(0), 0
		for i := 0; i < len(s.ends); i += 2 {
			a := s.from[begin:s.ends[i]]
			if i+1 < len(s.ends) {
				s.to = merge(s.to, a, s.from[s.ends[i]:s.ends[i+1]], apart)
				begin = s.ends[i+1]
			} else {
				s.to = append(s.to, a...)
				begin = s.ends[i]
			}
			s.ends[n] = int32(len(s.to))
			n++
		}
		s.ends = s.ends[:n]
		s.from, s.to = s.to, s.from
	}
	if last := s.from[len(s.from)-1]; last.x < 1 {
		last.x = 1
		s.from = append(s.from, last)
	}
	return s.from
}

// merge appends the sum of a and b to out, from where both have begun.
func merge(out, a, b []point, apart bool) []point {
	out = slices.Grow(out, len(a)+len(b))
	// Parts of functions begin at different numbers: the sum begins where both do.
	unscaled := lens{scale: 1}
	i := int(unscaled.first(a, 0, int32(len(a)), b[0].x))
	j := int(unscaled.first(b, 0, int32(len(b)), a[0].x))
	for i < len(a) && j < len(b) {
		n := len(out)
		switch p, q := &a[i], &b[j]; {
		case p.x < q.x:
			out = out[:n+1]
			addBetween(&out[n], p, &b[j-1], q)
			i++
		case q.x < p.x:
			out = out[:n+1]
			addBetween(&out[n], q, &a[i-1], p)
			j++
		default:
			out, i, j = meet(out, a, b, i, j, apart)
		}
	}
	for ; i < len(a); i++ {
		out = append(out, a[i])
		plus(&out[len(out)-1], &b[len(b)-1])
	}
	for ; j < len(b); j++ {
		out = append(out, b[j])
		plus(&out[len(out)-1], &a[len(a)-1])
	}
	return out
}

// meet handles an x at which both functions have corners: it appends the result, and returns the
// corners after x.
func meet(out, a, b []point, i, j int, apart bool) (grown []point, nextI, nextJ int) {
	x := a[i].x
	out = append(out, a[i])
	plus(&out[len(out)-1], &b[j])
	first, second := i, j
	for i++; i < len(a) && a[i].x == x; i++ {
		if apart {
			out = append(out, a[i])
			plus(&out[len(out)-1], &b[second])
		}
	}
	for j++; j < len(b) && b[j].x == x; j++ {
		if apart {
			out = append(out, b[j])
			plus(&out[len(out)-1], &a[i-1])
		}
	}
	if !apart && (i > first+1 || j > second+1) {
		out = append(out, a[i-1])
		plus(&out[len(out)-1], &b[j-1])
	}
	return out, i, j
}

// plus adds the share of q to p.
func plus(p, q *point) {
	for r := range p.share {
		p.share[r] += q.share[r]
	}
}

// addBetween sets the parameter sum to p plus the line from a to b at p.x, which lies strictly
// between them.
func addBetween(sum, p, a, b *point) {
	sum.x, sum.child = p.x, p.child
	t := (p.x - a.x) / (b.x - a.x)
	s, v, from, to := &sum.share, &p.share, &a.share, &b.share
	if t < 0.5 {
		s[0] = v[0] + (from[0] + (to[0]-from[0])*t)
		s[1] = v[1] + (from[1] + (to[1]-from[1])*t)
		s[2] = v[2] + (from[2] + (to[2]-from[2])*t)
		s[3] = v[3] + (from[3] + (to[3]-from[3])*t)
		s[4] = v[4] + (from[4] + (to[4]-from[4])*t)
		return
	}
	t = 1 - t
	s[0] = v[0] + (to[0] - (to[0]-from[0])*t)
	s[1] = v[1] + (to[1] - (to[1]-from[1])*t)
	s[2] = v[2] + (to[2] - (to[2]-from[2])*t)
	s[3] = v[3] + (to[3] - (to[3]-from[3])*t)
	s[4] = v[4] + (to[4] - (to[4]-from[4])*t)
}

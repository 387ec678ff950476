package preemption

import (
	"cmp"
	"container/heap"
	"slices"

	"weir/scheduling/resource"
)

// Excess is how much more an operation or a pool uses than it may.
type Excess struct {
	// Amounts is the excess per resource; 0 or less means no excess.
	Amounts resource.Amounts
	// Above is the excess of the nearest pool above that has an excess; nil if there is none.
	Above *Excess

	// candidates are the last members of the operations at or below the element.
	candidates easiest
}

// ExcessiveOperation is an operation with its nearest excess: its own or that of a pool above.
type ExcessiveOperation struct {
	Groups *Groups
	Excess *Excess
}

// RelievedBy reports whether taking away an allocation that holds the amounts in `a` would reduce x
// or an excess above it: whether the allocation holds a resource of which too much is used.
func (x *Excess) RelievedBy(a resource.Amounts) bool {
	for up := x; up != nil; up = up.Above {
		if up.relievedBy(a) {
			return true
		}
	}
	return false
}

// Sub subtracts usage from x and all excesses above.
func (x *Excess) Sub(a resource.Amounts) {
	for up := x; up != nil; up = up.Above {
		up.Amounts = up.Amounts.Sub(a)
	}
}

func (x *Excess) relievedBy(a resource.Amounts) bool {
	for k := range resource.Kind(resource.Count) {
		if x.Amounts.Of(k) > 0 && a.Of(k) > 0 {
			return true
		}
	}
	return false
}

// Repair returns the allocations that have to leave so that no element uses more than it may
// (F.12.3). They are ordered from the most preemptible and, of equally preemptible ones, from the
// latest started. The set is minimal: if any one allocation stayed, some element would use too
// much.
//
// The excesses list holds each element before the pools above it. Repair reduces the excesses to
// what remains.
func Repair(excesses []*Excess, operations []ExcessiveOperation) []*Member {
	for _, op := range operations {
		if last := op.Groups.Last(); last != nil {
			for x := op.Excess; x != nil; x = x.Above {
				x.candidates = append(x.candidates, candidate{last, op.Excess})
			}
		}
	}
	var chosen []candidate
	taken := map[*Member]bool{}
	for _, x := range excesses {
		heap.Init(&x.candidates)
		for x.exceeded() && len(x.candidates) > 0 {
			c := x.candidates.next()
			if !taken[c.Member] && x.relievedBy(c.Resources) {
				taken[c.Member] = true
				c.excess.Sub(c.Resources)
				chosen = append(chosen, c)
			}
		}
	}
	return needed(chosen)
}

// needed drops the allocations that need not leave after all, the least preemptible first.
func needed(chosen []candidate) []*Member {
	slices.SortFunc(chosen, func(a, b candidate) int { return a.Easier(b.Member) })
	var kept []*Member
	for _, c := range slices.Backward(chosen) {
		if c.excess.fits(c.Resources) {
			c.excess.Sub(resource.Amounts{}.Sub(c.Resources))
			continue
		}
		kept = append(kept, c.Member)
	}
	slices.Reverse(kept)
	return kept
}

func (x *Excess) exceeded() bool { return !x.Amounts.Fits(resource.Amounts{}) }

// fits reports whether the amounts in `a` can be added without an excess in any resource that they
// contain.
func (x *Excess) fits(a resource.Amounts) bool {
	for up := x; up != nil; up = up.Above {
		for k := range resource.Kind(resource.Count) {
			if a.Of(k) > 0 && up.Amounts.Of(k)+a.Of(k) > 0 {
				return false
			}
		}
	}
	return true
}

// Easier orders members of any operations: the most preemptible come first and, of equally
// preemptible ones, the latest started.
func (m *Member) Easier(n *Member) int {
	return cmp.Or(cmp.Compare(n.Level(), m.Level()), n.Started.Compare(m.Started), cmp.Compare(n.Job, m.Job))
}

// candidate is an allocation with the nearest excess at or above its operation.
type candidate struct {
	*Member
	excess *Excess
}

// easiest is a heap with the next member of each operation, the easiest first. Within an operation
// a later start is always easier.
type easiest []candidate

// next removes the easiest member, and replaces it with the member of its operation that started
// before it.
func (h *easiest) next() candidate {
	c := (*h)[0]
	if before := c.Prev(); before != nil {
		(*h)[0].Member = before
		heap.Fix(h, 0)
	} else {
		heap.Pop(h)
	}
	return c
}

func (h easiest) Len() int           { return len(h) }
func (h easiest) Less(i, j int) bool { return h[i].Easier(h[j].Member) < 0 }
func (h easiest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *easiest) Push(c any) { *h = append(*h, c.(candidate)) }

// Pop implements heap.Interface.
func (h *easiest) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

package preemption

import (
	"cmp"
	"container/heap"
	"slices"

	"weir/scheduling/resource"
)

// Excess is by how much an operation or a pool uses more than it may.
type Excess struct {
	// Amounts are 0 or less of a resource of which no more is used.
	Amounts resource.Amounts
	// Above is that of the nearest pool above that uses more than it may; nil: none does.
	Above *Excess

	// candidates are the last members of the operations at or below it.
	candidates easiest
}

// ExcessiveOperation is an operation with the nearest excess, its own or that of a pool
// above.
type ExcessiveOperation struct {
	Groups *Groups
	Excess *Excess
}

// RelievedBy reports whether what holds so much, at or below x, holds a resource of which
// x, or one above, uses too much.
func (x *Excess) RelievedBy(a resource.Amounts) bool {
	for up := x; up != nil; up = up.Above {
		if up.relievedBy(a) {
			return true
		}
	}
	return false
}

// Sub takes back usage of x, and of all above.
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

// Repair returns the allocations that have to leave so that none uses more than it may
// (F.12.3): the most preemptible first, and of those the latest started. Each of them is
// needed: with any one of them back, too much would be used.
//
// excesses have those below before those above. They are changed to what is left.
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

// needed gives those back, the least preemptible first, without which it is enough.
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

// fits reports whether so much more, of each resource that it has, is not too much.
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

// Easier orders members of any operations: the most preemptible first, and of those the
// latest started.
func (m *Member) Easier(n *Member) int {
	return cmp.Or(cmp.Compare(n.Level(), m.Level()), n.Started.Compare(m.Started), cmp.Compare(n.Job, m.Job))
}

// candidate is an allocation with the nearest excess above it.
type candidate struct {
	*Member
	excess *Excess
}

// easiest is a heap with the next member of each operation, the easiest first: within an
// operation none is easier than one that started later.
type easiest []candidate

// next takes out the easiest, in whose place comes the one that started before it.
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

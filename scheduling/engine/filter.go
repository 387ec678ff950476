package engine

import (
	"slices"

	"weir/scheduling/allocation"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// filters are the node filters that pools and operations have, each once. A node
// knows by place which of them take it.
type filters struct {
	all []filter
	// free are the places that nobody has.
	free []int
	// edits grows when a place gets another filter.
	edits uint64
}

type filter struct {
	pooltree.Filter
	users int
	// total is the resources of the nodes that it takes and that may run jobs, awaited that
	// of those that are about to be heard again.
	total, awaited resource.Amounts
}

// use returns the place of a filter, which one more element has now.
func (e *Engine) use(f pooltree.Filter) int {
	if f.Empty() {
		return allocation.NoFilter
	}
	for i := range e.filters.all {
		if known := &e.filters.all[i]; known.users > 0 && known.String() == f.String() {
			known.users++
			return i
		}
	}
	at := len(e.filters.all)
	if n := len(e.filters.free); n > 0 {
		at, e.filters.free = e.filters.free[n-1], e.filters.free[:n-1]
	} else {
		e.filters.all = append(e.filters.all, filter{})
	}
	e.filters.all[at] = filter{Filter: f, users: 1}
	e.filters.edits++
	for _, n := range e.nodes {
		if n.matchOne(e.filters.all, at); n.takes[at] {
			e.filters.all[at].count(n, resource.Amounts.Add)
		}
	}
	return at
}

// drop takes back a use.
func (e *Engine) drop(at int) {
	if at == allocation.NoFilter {
		return
	}
	f := &e.filters.all[at]
	if f.users--; f.users == 0 {
		*f = filter{}
		e.filters.free = append(e.filters.free, at)
	}
}

// change is use of a filter in place of another one.
func (e *Engine) change(at int, to pooltree.Filter) int {
	changed := e.use(to)
	e.drop(at)
	return changed
}

// matchOne finds whether the filter at a place, which may be a new one, takes the node.
func (n *node) matchOne(all []filter, at int) {
	takes := all[at].Match(n.tags)
	switch more := len(all) - len(n.takes); {
	case more > 0:
		n.takes = append(n.takes, make([]bool, more)...)
	case n.takes[at] != takes:
		n.takes = slices.Clone(n.takes)
	default:
		return
	}
	n.takes[at] = takes
}

// match finds which filters take the node.
func (n *node) match(all []filter) {
	n.takes = make([]bool, len(all))
	for i := range all {
		n.takes[i] = all[i].users > 0 && all[i].Match(n.tags)
	}
}

// count adds what a node offers, or is about to, to the cluster and to the filters that
// take it, or takes it away.
func (e *Engine) count(n *node, add func(resource.Amounts, resource.Amounts) resource.Amounts) {
	e.total, e.awaited = add(e.total, n.offer()), add(e.awaited, n.expected())
	for i := range e.filters.all {
		if f := &e.filters.all[i]; f.users > 0 && n.takes[i] {
			f.count(n, add)
		}
	}
}

func (f *filter) count(n *node, add func(resource.Amounts, resource.Amounts) resource.Amounts) {
	f.total, f.awaited = add(f.total, n.offer()), add(f.awaited, n.expected())
}

// limits is what fair shares take for the limits of an element: what was set, and
// what the nodes have that its own filter takes (F.2). While nodes have the time to come
// back to a new leader, it is no less than that part of the nodes that are there which
// the filter takes of all that are, or will be.
func (e *Engine) limits(set resource.Amounts, at int) resource.Amounts {
	if at == allocation.NoFilter {
		return set
	}
	f := &e.filters.all[at]
	if e.connected || e.awaited.IsZero() {
		return set.Min(f.total)
	}
	part := resource.Share(f.total.Add(f.awaited), e.total.Add(e.awaited))
	return set.Min(f.total.Max(part.Amounts(e.total)))
}

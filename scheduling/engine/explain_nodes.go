package engine

import (
	"cmp"
	"slices"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// NodeCounts says of the nodes of the tree, each once, what becomes of a job there now.
type NodeCounts struct {
	// All are the nodes that have registered: those below, together.
	All int
	// Closed nodes are drained or have not been heard of, Unmatched ones have other tags
	// than are asked for, TooSmall ones could not hold the job if they were empty, Full
	// ones have too little free, and what is free on Held ones is kept for others. The job
	// could start on those that Fit.
	Closed, Unmatched, TooSmall, Full, Held, Fit int
	// SmallBy and LackingBy count, by resource, those that are too small or too full in it.
	SmallBy, LackingBy [resource.Count]int
	// UnmatchedBy are the filters, that of the operation first, which the nodes fail.
	UnmatchedBy []FilterCount
}

// FilterCount says how many nodes a filter leaves out.
type FilterCount struct {
	// Pool has the filter; empty: the operation.
	Pool   scheduling.PoolName
	Filter string
	Nodes  int
}

// gate is a filter on the way from an operation to the root.
type gate struct {
	pool   scheduling.PoolName
	filter pooltree.Filter
	at     int
}

// gates are the filters of an operation and of the pools above.
func (op *operation) gates() (all []gate) {
	if op.filter != allocation.NoFilter {
		all = append(all, gate{filter: op.effective.TagFilter, at: op.filter})
	}
	for p := op.pool; p != nil; p = p.parent {
		if p.filter != allocation.NoFilter {
			all = append(all, gate{pool: p.name, filter: p.effective.TagFilter, at: p.filter})
		}
	}
	return all
}

// survey looks at all nodes for a job. visit is called with those that could hold it.
func (e *Engine) survey(op *operation, needs resource.Amounts, visit func(n *node)) NodeCounts {
	var c NodeCounts
	gates := op.gates()
	unmatched := make([]int, len(gates))
	for _, n := range e.nodes {
		if !n.known {
			continue
		}
		c.All++
		fails := slices.IndexFunc(gates, func(g gate) bool { return !n.takes[g.at] })
		free, spare := n.free(), n.spare()
		switch {
		case !n.schedulable:
			c.Closed++
			continue
		case fails >= 0:
			c.Unmatched++
			unmatched[fails]++
			continue
		case !needs.Fits(n.limits):
			c.TooSmall++
			lacking(&c.SmallBy, needs, n.limits)
			continue
		case !needs.Fits(free):
			c.Full++
			lacking(&c.LackingBy, needs, free)
		case !needs.Fits(spare):
			c.Held++
			lacking(&c.LackingBy, needs, spare)
		default:
			c.Fit++
		}
		visit(n)
	}
	for i, g := range gates {
		if unmatched[i] > 0 {
			c.UnmatchedBy = append(c.UnmatchedBy, FilterCount{Pool: g.pool, Filter: g.filter.String(), Nodes: unmatched[i]})
		}
	}
	return c
}

// lacking counts the resources of which there is too little.
func lacking(by *[resource.Count]int, needs, has resource.Amounts) {
	for i := range resource.Count {
		if k := resource.Kind(i); needs.Of(k) > has.Of(k) {
			by[k]++
		}
	}
}

// byID orders nodes.
func byID(a, b *node) int { return cmp.Compare(a.id, b.id) }

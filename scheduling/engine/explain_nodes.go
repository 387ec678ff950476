package engine

import (
	"fmt"
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

// question is what nodes are looked at for: what a job needs, and the filters.
type question struct {
	needs resource.Amounts
	gates string
}

// failing is the first of the filters that does not take a node; -1: all do.
func failing(gates []gate, takes []bool) int {
	return slices.IndexFunc(gates, func(g gate) bool { return !takes[g.at] })
}

// count says what becomes of a job on the nodes.
func (s *survey) count(gates []gate, needs resource.Amounts) NodeCounts {
	s.classify()
	q := question{needs: needs}
	for _, g := range gates {
		q.gates += fmt.Sprintf("%q %d ", g.pool, g.at)
	}
	c, known := s.counts[q]
	if !known {
		c = s.look(gates, needs)
		s.counts[q] = c
	}
	return c
}

// look is count without memory.
func (s *survey) look(gates []gate, needs resource.Amounts) NodeCounts {
	var c NodeCounts
	unmatched := make([]int, len(gates))
	for i := range s.classes {
		r := &s.classes[i]
		c.All += r.nodes
		fails := failing(gates, r.takes)
		switch {
		case !r.schedulable:
			c.Closed += r.nodes
		case fails >= 0:
			c.Unmatched += r.nodes
			unmatched[fails] += r.nodes
		case !needs.Fits(r.limits):
			c.TooSmall += r.nodes
			lacking(&c.SmallBy, needs, r.limits, r.nodes)
		case !needs.Fits(r.free):
			c.Full += r.nodes
			lacking(&c.LackingBy, needs, r.free, r.nodes)
		case !needs.Fits(r.spare):
			c.Held += r.nodes
			lacking(&c.LackingBy, needs, r.spare, r.nodes)
		default:
			c.Fit += r.nodes
		}
	}
	for i, g := range gates {
		if unmatched[i] > 0 {
			c.UnmatchedBy = append(c.UnmatchedBy, FilterCount{Pool: g.pool, Filter: g.filter.String(), Nodes: unmatched[i]})
		}
	}
	return c
}

// lacking counts nodes by the resources of which there is too little.
func lacking(by *[resource.Count]int, needs, has resource.Amounts, nodes int) {
	for i := range resource.Count {
		if k := resource.Kind(i); needs.Of(k) > has.Of(k) {
			by[k] += nodes
		}
	}
}

package allocation

import (
	"iter"
	"math"

	"weir/scheduling/resource"
)

// Hosts is a group of uniform nodes, each of which has Limits.
type Hosts struct {
	Limits resource.Amounts
	Nodes  int64
}

// Fit says how many of the jobs that start together fit on empty nodes. It is an upper bound.
type Fit struct {
	// Jobs is how many of the jobs fit. The field Of is how many jobs there are.
	Jobs, Of int64
	// needs is the total need of a set of jobs that do not all fit. one is what the smallest job of
	// the set needs.
	needs, one resource.Amounts
}

// Lack names the resource that is short when not all jobs fit.
type Lack struct {
	Resource resource.Kind
	// Needs, Each and Has are amounts of Resource. Needs is the total need of a set of jobs that do
	// not all fit. Each is what the smallest job of the set needs. Has is what all nodes have.
	// Nodes is the number of nodes.
	Needs, Each, Has, Nodes int64
}

// All reports whether all jobs may fit, that is, the upper bound does not exclude it.
func (f Fit) All() bool { return f.Jobs >= f.Of }

// Together returns an upper bound of how many pending jobs of the tasks fit on empty nodes at the
// same time. The bound is exact for uniform jobs. Where tasks differ, Together checks the first
// task, the first two, and so on, and takes each job to be as small as the smallest of the checked
// tasks. So it never underestimates, but may overestimate.
func Together(tasks []Task, on iter.Seq[Hosts]) Fit {
	var f Fit
	var needs resource.Amounts
	one, most := resource.Infinite, int64(0)
	for _, t := range tasks {
		if t.Pending == 0 {
			continue
		}
		f.Of += t.Pending
		needs, one = needs.Add(t.PerJob.Times(t.Pending)), one.Min(t.PerJob)
		fit := int64(0)
		for h := range on {
			if fit += min(Holds(h.Limits, one), f.Of) * h.Nodes; fit >= f.Of {
				break
			}
		}
		if lacks := f.Of - fit; lacks > most {
			most, f.needs, f.one = lacks, needs, one
		}
	}
	f.Jobs = f.Of - most
	return f
}

// Holds returns how many jobs with these needs fit on an empty node with these limits.
func Holds(limits, perJob resource.Amounts) int64 {
	n := int64(math.MaxInt64)
	for i := range resource.Count {
		if each := perJob.Of(resource.Kind(i)); each > 0 {
			n = min(n, max(limits.Of(resource.Kind(i)), 0)/each)
		}
	}
	return n
}

// Lacks finds the resource of which the nodes together lack most, relative to what they have. If
// the nodes have enough of all resources, it is the resource that is used up first on the most
// nodes.
func (f Fit) Lacks(on iter.Seq[Hosts]) (l Lack) {
	var has resource.Amounts
	var first [resource.Count]int64
	for h := range on {
		l.Nodes += h.Nodes
		has = has.Add(h.Limits.Times(h.Nodes))
		if k, lacks := f.one.Lacking(h.Limits.Sub(f.one.Times(Holds(h.Limits, f.one)))); lacks {
			first[k] += h.Nodes
		}
	}
	factor := 1.0
	for i := range resource.Count {
		k := resource.Kind(i)
		if first[k] > first[l.Resource] && factor == 1 {
			l.Resource = k
		}
		if by := float64(f.needs.Of(k)) / float64(max(has.Of(k), 1)); f.needs.Of(k) > has.Of(k) && by > factor {
			l.Resource, factor = k, by
		}
	}
	l.Needs, l.Each, l.Has = f.needs.Of(l.Resource), f.one.Of(l.Resource), has.Of(l.Resource)
	return l
}

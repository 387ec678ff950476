package allocation

import (
	"iter"
	"math"

	"weir/scheduling/resource"
)

// Hosts are so many alike nodes, each of which has Limits.
type Hosts struct {
	Limits resource.Amounts
	Nodes  int64
}

// Fit says how many of jobs that start together empty nodes could hold at most.
type Fit struct {
	// Jobs is how many, of Of.
	Jobs, Of int64
	// needs are those of the jobs that are too many, one what the least of them needs.
	needs, one resource.Amounts
}

// Lack says of what there is too little where not all jobs fit.
type Lack struct {
	Resource resource.Kind
	// Needs is what the jobs that are too many need together, Each the one that needs the
	// least, and Has what the Nodes have: all of the resource.
	Needs, Each, Has, Nodes int64
}

// All reports whether nothing says that not all of the jobs fit.
func (f Fit) All() bool { return f.Jobs >= f.Of }

// Together bounds how many of the pending jobs of tasks empty nodes hold at the same time.
// Of alike jobs it is just as many. Where tasks differ, those of the first one, of the
// first two, and so on have to fit, each as small as the smallest of them: more than that
// never fits, less may not either.
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

// Holds is how many such jobs an empty node holds.
func Holds(limits, perJob resource.Amounts) int64 {
	n := int64(math.MaxInt64)
	for i := range resource.Count {
		if each := perJob.Of(resource.Kind(i)); each > 0 {
			n = min(n, max(limits.Of(resource.Kind(i)), 0)/each)
		}
	}
	return n
}

// Lacks finds of what the nodes together have too little, by the greatest factor; or, where
// that is not so, what is used up first on most of them.
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

package allocation

import (
	"math"

	"weir/scheduling/resource"
)

// Kinds says which resources are dominant to some operation in a pool, or at least half as much,
// and which are to all: one bit each.
type Kinds struct{ some, all uint8 }

// Differs reports whether no resource is dominant to all operations of a pool.
func (s *standing) Differs() bool { return s.kinds.differ() }

// And returns the kinds of a pool that has others, too.
func (k Kinds) And(others Kinds) Kinds {
	switch {
	case k.some == 0:
		return others
	case others.some == 0:
		return k
	}
	return Kinds{k.some | others.some, k.all & others.all}
}

// differ reports whether no resource is dominant to all.
func (k Kinds) differ() bool { return k.some != 0 && k.all == 0 }

// has reports whether a resource is dominant to some operation.
func (k Kinds) has(r resource.Kind) bool { return k.some&(1<<r) != 0 }

// Kinds is what SetShares was told of a pool; an operation without a fair share has none.
func (e *Element) Kinds() Kinds {
	if e.pool || e.most <= resource.Epsilon {
		return e.kinds
	}
	var set uint8
	for k, share := range e.fair {
		if share >= e.most/2 {
			set |= 1 << k
		}
	}
	return Kinds{set, set}
}

// Next is what the least demanding pending job of e needs, in a pool whose operations
// differ the one of the child whose turn it is; resource.Infinite without one.
func (e *Element) Next() resource.Amounts {
	switch {
	case !e.hasPending():
		return resource.Infinite
	case e.kinds.differ():
		return e.first()
	}
	return e.least
}

// first is what the first job needs of the operation at or below e whose turn it is.
func (e *Element) first() resource.Amounts {
	for len(e.children.waiting) > 0 {
		e = e.children.waiting[0]
	}
	return e.head
}

// Binding is the resource by which it counts whether a guarantee holds a job: what e uses most of,
// in a pool whose operations differ the one by which the job counts.
func (s *standing) Binding(usage, job resource.Amounts) resource.Kind {
	if s.kinds.differ() {
		return s.decisive(resource.Share(usage, s.total), job)
	}
	return resource.Dominant(usage, s.total)
}

// Decisive is the resource by which a job counts: what is dominant in the fair share of e; of a
// pool whose operations differ, the one of their dominant resources that the job needs most of,
// or half as much at least, of whose fair share e uses most.
func (s *standing) Decisive(job resource.Amounts) resource.Kind {
	return s.decisive(resource.Share(s.usage, s.total), job)
}

func (s *standing) decisive(usage resource.Vector, job resource.Amounts) resource.Kind {
	decisive := s.fair.Largest()
	if !s.kinds.differ() || job == resource.Infinite {
		return decisive
	}
	needs, most, part := resource.Share(job, s.total), 0., math.Inf(-1)
	for k := range resource.Kind(resource.Count) {
		if s.kinds.has(k) {
			most = max(most, needs[k])
		}
	}
	for k := range resource.Kind(resource.Count) {
		if s.kinds.has(k) && s.fair[k] > resource.Epsilon && needs[k] >= most/2 && usage[k]/s.fair[k] > part {
			decisive, part = k, usage[k]/s.fair[k]
		}
	}
	return decisive
}

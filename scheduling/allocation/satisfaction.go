package allocation

import (
	"math"

	"weir/scheduling/resource"
)

// Debt is what follows from what an element lacked, or had too much, of its fair share over
// time. Jobs are whole, and fair shares are not.
type Debt struct {
	// Rounding is which part of its next job counts as used where it is decided whose turn is
	// next, from 0 to 1. 0, the one that an element has first, favours those whose fair share is
	// small, a half nobody, and 1 the others.
	Rounding float64
	// Crowding is that part where smaller jobs of others are to leave for a job.
	Crowding float64
	// Lag is for how long the element has lacked all of its fair share, on balance: seconds. Of
	// those that are equally satisfied, and use as much of their fair share, the one of the
	// greatest lag comes first.
	Lag float64
}

// standing is what an element has, and what it ought to have, up to the last SetShares.
type standing struct {
	debt         Debt
	fair, demand resource.Vector
	usage        resource.Amounts
	// leaving is what is no longer usage and not free yet: it counts in limits.
	leaving resource.Amounts
	total   resource.Amounts
	// most is the dominant share of the fair share.
	most float64
	// kinds are those of the operations in a pool.
	kinds Kinds
	// promised is what guarantees alone would give.
	promised resource.Vector
}

// Usage returns what the element uses: starts not yet committed count.
func (s *standing) Usage() resource.Amounts { return s.usage }

// Leaving returns what allocations hold that have been told to go: it is no usage, and
// counts in limits until it is free.
func (s *standing) Leaving() resource.Amounts { return s.leaving }

// SetDebt tells e its debt.
func (e *Element) SetDebt(debt Debt) {
	e.debt, e.ahead = debt, resource.Vector{}
	if next := e.Next(); next != resource.Infinite {
		e.ahead = resource.Share(next, e.total).Scale(debt.Rounding)
	}
	e.move()
}

// Lag is that of the debt.
func (s *standing) Lag() float64 { return s.debt.Lag }

// Satisfaction is the dominant share of what e uses as a part of the dominant share of its fair
// share, of the last SetShares (F.13), as far as its next job counts. That of a pool says nothing
// of its children.
func (e *Element) Satisfaction() float64 {
	return e.satisfied(resource.Share(e.usage, e.total), e.Next())
}

// SatisfactionWithout is that with so much less usage, as far as such a job counts.
func (s *standing) SatisfactionWithout(lost, job resource.Amounts) float64 {
	return s.satisfied(resource.Share(s.usage.Sub(lost), s.total), job)
}

// satisfied is the satisfaction of such a usage; resource.MaxSatisfaction without a fair share.
// Resources that are minor to e do not count, as in fairshare.Satisfaction: jobs that run
// may need more of them than those that its fair share is made of. A pool whose
// operations differ is no more satisfied than it is in the resource by which the job counts.
func (s *standing) satisfied(usage resource.Vector, job resource.Amounts) float64 {
	if s.most <= resource.Epsilon {
		return resource.MaxSatisfaction
	}
	satisfied := usage.MaxComponent() / s.most
	if s.kinds.differ() {
		k := s.decisive(usage, job)
		satisfied = min(satisfied, usage[k]/s.fair[k])
	}
	return min(satisfied, resource.MaxSatisfaction)
}

// goesBy is the satisfaction by which it is decided whose turn it is, of a pool that uses so
// much. While a guarantee owes it a job, no more than half of the next one counts as used: a
// debt takes nothing that is guaranteed.
func (e *Element) goesBy(used resource.Vector) float64 {
	ahead := e.ahead
	if e.high && e.debt.Rounding > .5 {
		ahead = ahead.Scale(.5 / e.debt.Rounding)
	}
	return e.satisfied(used.Add(ahead), e.Next())
}

// Owed reports whether e has no more than its fair share with such a part of a job,
// where what is leaving counts as used.
func (s *standing) Owed(needs resource.Amounts, part float64) bool {
	return s.within(s.usage.Add(s.leaving), needs, part)
}

// within reports whether usage is no more than the fair share of e with a part of a job.
func (s *standing) within(usage, needs resource.Amounts, part float64) bool {
	with := resource.Share(usage, s.total).Add(resource.Share(needs, s.total).Scale(part))
	return s.satisfied(with, needs) <= 1+resource.Epsilon
}

// Exceeds reports whether, after lost has gone, e comes nearer to a part of its fair share
// without a job that holds so much: e has more than that without half of the job.
func (s *standing) Exceeds(part float64, lost, holds resource.Amounts) bool {
	without := resource.Share(s.usage.Sub(lost), s.total).Sub(resource.Share(holds, s.total).Scale(.5))
	return s.satisfied(without, holds) > part+resource.Epsilon
}

// Lack is what e lacks of its fair share, in the resource by which the job counts, once it
// has half of it and has given back so much: less than nothing where it comes nearer to
// its fair share without.
func (s *standing) Lack(given, needs resource.Amounts) float64 {
	left := resource.Share(s.usage.Sub(given), s.total)
	k := s.decisive(left, needs)
	return s.fair[k] - left[k] - resource.Share(needs, s.total)[k]/2
}

// Surplus is what e has beyond its fair share, in the resource by which the job counts,
// once lost has gone and half of it: less than nothing where it comes nearer to its fair
// share with it.
func (s *standing) Surplus(lost, holds resource.Amounts) float64 {
	left := resource.Share(s.usage.Sub(lost), s.total)
	k := s.decisive(left, holds)
	return left[k] - resource.Share(holds, s.total)[k]/2 - s.fair[k]
}

// Due reports whether it is the turn of e to have one more job that needs so much, besides
// what is kept for it: with the part of it that counts as used e has no more than its fair
// share.
func (s *standing) Due(kept, needs resource.Amounts) bool {
	return s.within(s.usage.Add(kept), needs, s.debt.Rounding)
}

// MayCrowd is Due where smaller jobs of others have to leave for it.
func (s *standing) MayCrowd(kept, needs resource.Amounts) bool {
	return s.within(s.usage.Add(kept), needs, s.debt.Crowding)
}

// Promised reports whether a job that needs so much is within what guarantees alone would
// give e.
func (s *standing) Promised(needs resource.Amounts) bool {
	if s.promised.IsZero() || needs == resource.Infinite {
		return false
	}
	with := s.usage.Add(needs)
	k := s.Binding(with, needs)
	return resource.Share(with, s.total)[k] <= s.promised[k]+resource.LargeEpsilon
}

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

package allocation

import (
	"math"

	"weir/scheduling/resource"
)

// Debt is derived from what an element lacked, or had in excess, of its fair share over time. It
// exists because jobs are whole, and fair shares are not.
type Debt struct {
	// Rounding is the part of the next job that counts as used when the next turn is decided, from
	// 0 to 1. The initial value 0 favours elements with a small fair share. The value 0.5 is
	// neutral, and 1 favours elements with a large one.
	Rounding float64
	// Crowding takes the place of Rounding if smaller jobs of others have to leave for the job and
	// the element has no job yet.
	Crowding float64
	// Lag is the net number of seconds for which the element has lacked all of its fair share.
	// Among elements that are equally satisfied and use the same part of their fair share, the one
	// with the greatest lag comes first.
	Lag float64
}

// standing is what an element has and is entitled to, as of the last SetShares.
type standing struct {
	debt         Debt
	fair, demand resource.Vector
	usage        resource.Amounts
	// leaving is what leaving jobs hold: it is no longer usage, and not free yet. It counts towards
	// limits.
	leaving resource.Amounts
	total   resource.Amounts
	// The field most is the dominant share of the fair share.
	most float64
	// kinds are the kinds of the operations in a pool.
	kinds Kinds
	// promised is the share that guarantees alone would give.
	promised resource.Vector
}

// Usage returns what the element uses, including starts that are not committed yet.
func (s *standing) Usage() resource.Amounts { return s.usage }

// Leaving returns what leaving allocations hold. This is not usage, but counts towards limits until
// it is free.
func (s *standing) Leaving() resource.Amounts { return s.leaving }

// SetDebt sets the debt of e.
func (e *Element) SetDebt(debt Debt) {
	e.debt, e.ahead = debt, resource.Vector{}
	if next := e.Next(); next != resource.Infinite {
		e.ahead = resource.Share(next, e.total).Scale(debt.Rounding)
	}
	e.move()
}

// Lag returns the lag of the debt.
func (s *standing) Lag() float64 { return s.debt.Lag }

// Satisfaction is the dominant share of the usage divided by the dominant share of the fair share
// as of the last SetShares (F.13), with respect to the next job. For a pool it ignores the
// satisfaction of its children.
func (e *Element) Satisfaction() float64 {
	return e.satisfied(resource.Share(e.usage, e.total), e.Next())
}

// SatisfactionWithout is the satisfaction after the amounts in `lost` are subtracted from the
// usage, with respect to job.
func (s *standing) SatisfactionWithout(lost, job resource.Amounts) float64 {
	return s.satisfied(resource.Share(s.usage.Sub(lost), s.total), job)
}

// satisfied returns the satisfaction for a usage; resource.MaxSatisfaction without a fair share.
// Unlike in fairshare.Satisfaction, only dominant shares count, not resources that are minor to e.
// Running jobs may need more of minor resources than the jobs that the fair share is made of. A
// pool whose operations differ is no more satisfied than it is in the resource by which the job
// counts.
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

// goesBy returns the satisfaction that decides the turn of e, for this usage. While a guarantee
// owes e a job, no more than half of the next job counts as used: a debt must not reduce what is
// guaranteed.
func (e *Element) goesBy(used resource.Vector) float64 {
	ahead := e.ahead
	if e.high && e.debt.Rounding > .5 {
		ahead = ahead.Scale(.5 / e.debt.Rounding)
	}
	return e.satisfied(used.Add(ahead), e.Next())
}

// Owed reports whether e, with this part of a job added, is within its fair share. Resources of
// leaving jobs count as used.
func (s *standing) Owed(needs resource.Amounts, part float64) bool {
	return s.within(s.usage.Add(s.leaving), needs, part)
}

// within reports whether usage plus a part of a job is within the fair share of e.
func (s *standing) within(usage, needs resource.Amounts, part float64) bool {
	with := resource.Share(usage, s.total).Add(resource.Share(needs, s.total).Scale(part))
	return s.satisfied(with, needs) <= 1+resource.Epsilon
}

// Exceeds reports whether e, without the amounts in `lost` and half of a job, still has more than
// this part of its fair share. If so, e comes nearer to that part without the job. The parameter
// holds is what the job holds.
func (s *standing) Exceeds(part float64, lost, holds resource.Amounts) bool {
	without := resource.Share(s.usage.Sub(lost), s.total).Sub(resource.Share(holds, s.total).Scale(.5))
	return s.satisfied(without, holds) > part+resource.Epsilon
}

// Lack returns what e lacks of its fair share, in the resource by which the job counts, after the
// amounts in `given` are taken away and half of the job is added. The result is negative if e comes
// nearer to its fair share without the job.
func (s *standing) Lack(given, needs resource.Amounts) float64 {
	left := resource.Share(s.usage.Sub(given), s.total)
	k := s.decisive(left, needs)
	return s.fair[k] - left[k] - resource.Share(needs, s.total)[k]/2
}

// Surplus returns what e has beyond its fair share, in the resource by which the job counts, after
// the amounts in `lost` and half of the job are taken away. The result is negative if e comes
// nearer to its fair share with the job.
func (s *standing) Surplus(lost, holds resource.Amounts) float64 {
	left := resource.Share(s.usage.Sub(lost), s.total)
	k := s.decisive(left, holds)
	return left[k] - resource.Share(holds, s.total)[k]/2 - s.fair[k]
}

// Due reports whether it is the turn of e to get one more job: whether e is within its fair share
// with the part of the job that counts as used. The amounts in `kept`, which are reserved for e,
// count as used too.
func (s *standing) Due(kept, needs resource.Amounts) bool {
	return s.within(s.usage.Add(kept), needs, s.debt.Rounding)
}

// MayCrowd is Due for a job for which smaller jobs of others have to leave. If e already has jobs,
// besides jobs of the same gang, which hold the amounts in `gathered`, e must come nearer to its
// fair share with this job. Otherwise jobs would be lost for a part of a job, and others would take
// back what e then has beyond its fair share.
func (s *standing) MayCrowd(kept, gathered, needs resource.Amounts) bool {
	part := s.debt.Crowding
	if s.SatisfactionWithout(gathered, needs) > 0 {
		part = .5
	}
	return s.within(s.usage.Add(kept), needs, part)
}

// Promised reports whether a job with these needs is within the share that guarantees alone would
// give e.
func (s *standing) Promised(needs resource.Amounts) bool {
	if s.promised.IsZero() || needs == resource.Infinite {
		return false
	}
	with := s.usage.Add(needs)
	k := s.Binding(with, needs)
	return resource.Share(with, s.total)[k] <= s.promised[k]+resource.LargeEpsilon
}

// Kinds says which resources are dominant, or at least half as large as the dominant one, for some
// operation in a pool, and which are so for all. Each field has one bit per resource.
type Kinds struct{ some, all uint8 }

// Differs reports whether no resource is dominant to all operations of a pool.
func (s *standing) Differs() bool { return s.kinds.differ() }

// And returns the kinds of two groups of operations together.
func (k Kinds) And(others Kinds) Kinds {
	switch {
	case k.some == 0:
		return others
	case others.some == 0:
		return k
	}
	return Kinds{k.some | others.some, k.all & others.all}
}

// differ reports whether the operations share no dominant resource.
func (k Kinds) differ() bool { return k.some != 0 && k.all == 0 }

// has reports whether a resource is dominant to some operation.
func (k Kinds) has(r resource.Kind) bool { return k.some&(1<<r) != 0 }

// Kinds returns the kinds that SetShares was given for a pool, and computes the kinds of an
// operation.
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

// Next returns what the least demanding pending job of e needs. In a pool whose operations differ,
// it returns what the first job of the operation whose turn it is needs. Without pending jobs it
// returns resource.Infinite.
func (e *Element) Next() resource.Amounts {
	switch {
	case !e.hasPending():
		return resource.Infinite
	case e.kinds.differ():
		return e.first()
	}
	return e.least
}

// first returns the needs of the first job of the operation, at or below e, that is next in turn.
func (e *Element) first() resource.Amounts {
	for len(e.children.waiting) > 0 {
		e = e.children.waiting[0]
	}
	return e.head
}

// Binding returns the resource that decides whether a guarantee covers a job: the dominant one of
// the usage or, in a pool whose operations differ, the one by which the job counts.
func (s *standing) Binding(usage, job resource.Amounts) resource.Kind {
	if s.kinds.differ() {
		return s.decisive(resource.Share(usage, s.total), job)
	}
	return resource.Dominant(usage, s.total)
}

// Decisive returns the resource by which a job counts: the dominant one of the fair share of e. A
// pool whose operations differ instead considers the resources that are dominant to some operation.
// It leaves out those of which the job needs less than half as much as of the one that it needs
// most. Of the rest, it takes the resource with the greatest usage relative to the fair share.
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

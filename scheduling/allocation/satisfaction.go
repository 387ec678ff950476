package allocation

import "weir/scheduling/resource"

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

// SetDebt tells e its debt.
func (e *Element) SetDebt(debt Debt) {
	e.debt, e.ahead = debt, resource.Vector{}
	if next := e.Next(); next != resource.Infinite {
		e.ahead = resource.Share(next, e.total).Scale(debt.Rounding)
	}
	e.move()
}

// Lag is that of the debt.
func (e *Element) Lag() float64 { return e.debt.Lag }

// Satisfaction is the dominant share of what e uses as a part of the dominant share of its fair
// share, of the last SetShares (F.13), as far as its next job counts. That of a pool says nothing
// of its children.
func (e *Element) Satisfaction() float64 {
	return e.satisfied(resource.Share(e.usage, e.total), e.Next())
}

// SatisfactionWithout is that with so much less usage, as far as such a job counts.
func (e *Element) SatisfactionWithout(lost, job resource.Amounts) float64 {
	return e.satisfied(resource.Share(e.usage.Sub(lost), e.total), job)
}

// satisfied is the satisfaction of such a usage; resource.MaxSatisfaction without a fair share.
// Resources that are minor to e do not count, as in fairshare.Satisfaction: jobs that run
// may need more of them than those that its fair share is made of. A pool whose
// operations differ is no more satisfied than it is in the resource by which the job counts.
func (e *Element) satisfied(usage resource.Vector, job resource.Amounts) float64 {
	if e.most <= resource.Epsilon {
		return resource.MaxSatisfaction
	}
	satisfied := usage.MaxComponent() / e.most
	if e.kinds.differ() {
		k := e.decisive(usage, job)
		satisfied = min(satisfied, usage[k]/e.fair[k])
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
func (e *Element) Owed(needs resource.Amounts, part float64) bool {
	return e.within(e.usage.Add(e.leaving), needs, part)
}

// within reports whether usage is no more than the fair share of e with a part of a job.
func (e *Element) within(usage, needs resource.Amounts, part float64) bool {
	with := resource.Share(usage, e.total).Add(resource.Share(needs, e.total).Scale(part))
	return e.satisfied(with, needs) <= 1+resource.Epsilon
}

// Exceeds reports whether, after lost has gone, e comes nearer to a part of its fair share
// without a job that holds so much: e has more than that without half of the job.
func (e *Element) Exceeds(part float64, lost, holds resource.Amounts) bool {
	without := resource.Share(e.usage.Sub(lost), e.total).Sub(resource.Share(holds, e.total).Scale(.5))
	return e.satisfied(without, holds) > part+resource.Epsilon
}

// Lack is what e lacks of its fair share, in the resource by which the job counts, once it
// has half of it and has given back so much: less than nothing where it comes nearer to
// its fair share without.
func (e *Element) Lack(given, needs resource.Amounts) float64 {
	left := resource.Share(e.usage.Sub(given), e.total)
	k := e.decisive(left, needs)
	return e.fair[k] - left[k] - resource.Share(needs, e.total)[k]/2
}

// Surplus is what e has beyond its fair share, in the resource by which the job counts,
// once lost has gone and half of it: less than nothing where it comes nearer to its fair
// share with it.
func (e *Element) Surplus(lost, holds resource.Amounts) float64 {
	left := resource.Share(e.usage.Sub(lost), e.total)
	k := e.decisive(left, holds)
	return left[k] - resource.Share(holds, e.total)[k]/2 - e.fair[k]
}

// Due reports whether it is the turn of e to have one more job that needs so much, besides
// what is kept for it: with the part of it that counts as used e has no more than its fair
// share.
func (e *Element) Due(kept, needs resource.Amounts) bool {
	return e.within(e.usage.Add(kept), needs, e.debt.Rounding)
}

// MayCrowd is Due where smaller jobs of others have to leave for it.
func (e *Element) MayCrowd(kept, needs resource.Amounts) bool {
	return e.within(e.usage.Add(kept), needs, e.debt.Crowding)
}

// promisedFirst reports whether what guarantees alone would give a pool holds the job whose turn it is.
func (e *Element) promisedFirst() bool {
	return !e.promised.IsZero() && e.Promised(e.first())
}

// Promised reports whether a job that needs so much is within what guarantees alone would
// give e.
func (e *Element) Promised(needs resource.Amounts) bool {
	if e.promised.IsZero() || needs == resource.Infinite {
		return false
	}
	with := e.usage.Add(needs)
	k := e.Binding(with, needs)
	return resource.Share(with, e.total)[k] <= e.promised[k]+resource.LargeEpsilon
}

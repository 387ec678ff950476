package engine

import (
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

const (
	// debtPeriod is how long a whole job has to be missing for the rounding to go from one
	// end to the other.
	debtPeriod = time.Minute
	// debtHorizon bounds a debt: that of a job that was missing, or too many, for so long.
	debtHorizon = time.Hour
)

// debt is what an element lacked, or had too much, of its fair share over time, of its
// dominant resource: share x seconds. Jobs are whole and fair shares are not, so somebody
// always has a part of a job too much or too little. The debt decides whose fair share is
// rounded up next, so that over time each has its own.
type debt float64

// pay counts work that is lost as what the element has had: who crowds others out in the
// end loses no more for them than its own fair share.
func (d *debt) pay(e *fairshare.Element, lost resource.Amounts, ran time.Duration, total resource.Amounts) {
	*d -= debt(resource.Share(lost, total)[e.FairShare.Largest()] * ran.Seconds())
}

// round lets time pass, and tells the order of scheduling how to round.
func (d *debt) round(e *fairshare.Element, order *allocation.Element, passed time.Duration, total resource.Amounts, rounds bool) {
	least := order.Next()
	if !rounds || least == resource.Infinite {
		*d = 0
		order.SetRounding(0)
		return
	}
	k := e.FairShare.Largest()
	job := resource.Share(least, total)[k]
	if job == 0 {
		order.SetRounding(0)
		return
	}
	if passed < 0 || passed > debtHorizon {
		// It is the first update.
		passed = 0
	}
	most := debt(job * debtHorizon.Seconds())
	*d += debt((e.FairShare[k] - e.UsageShare[k]) * passed.Seconds())
	*d = min(max(*d, -most), most)
	part := .5 - float64(*d)/(job*debtPeriod.Seconds())
	order.SetRounding(min(max(part, 0), 1))
}

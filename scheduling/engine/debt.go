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
	// debtTurn is for how long who has a part of a job more than its fair share keeps it from one
	// beside it that has as much less: a whole fair share that is missing for so long.
	debtTurn = 20 * time.Minute
)

// debt is what an element lacked, or had too much, of its fair share over time, of its
// dominant resource: share x seconds. Jobs are whole and fair shares are not, so somebody
// always has a part of a job too much or too little. The debt decides whose fair share is
// rounded up next, so that over time each has its own.
type debt struct {
	lack float64
	// rate is what it lacks since the last update.
	rate float64
}

// pay counts work that is lost as what the element has had: who crowds others out in the
// end loses no more for them than its own fair share.
func (d *debt) pay(e *fairshare.Element, lost resource.Amounts, ran time.Duration, total resource.Amounts) {
	d.lack -= resource.Share(lost, total)[e.FairShare.Largest()] * ran.Seconds()
}

// round lets time pass, and tells the order of scheduling how to round, and for how long the
// element has lacked all.
func (d *debt) round(e *fairshare.Element, order *allocation.Element, passed time.Duration, total resource.Amounts, rounds bool) {
	k, next, job := e.FairShare.Largest(), order.Next(), 0.
	if next != resource.Infinite {
		job = resource.Share(next, total)[k]
	}
	if passed < 0 || passed > debtHorizon {
		// It is the first update.
		passed = 0
	}
	d.lack += d.rate * passed.Seconds()
	d.rate = e.FairShare[k] - e.UsageShare[k]
	most := job * debtHorizon.Seconds()
	rounding, lag := 0., 0.
	switch {
	case !rounds:
		*d = debt{}
	case next == resource.Infinite:
		// Nobody is owed what it did not ask for.
		d.lack = min(d.lack, 0)
	case job > 0:
		d.lack = min(max(d.lack, -most), most)
		rounding = min(max(.5-d.lack/(job*debtPeriod.Seconds()), 0), 1)
		if e.FairShare[k] > 0 {
			lag = d.lack / e.FairShare[k]
		}
	}
	order.SetDebt(rounding, lag)
}

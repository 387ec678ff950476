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
	// owed is the same where others have to leave: work that is lost for it counts as had.
	owed float64
	// rate is what it lacks since the last update; kept is what is kept free for it since then,
	// which counts as had: others cannot use it.
	rate float64
	kept resource.Amounts
}

// pay counts work that is lost as what the element has had, where others have to leave for it:
// who crowds others out in the end loses no more for them than its own fair share. What comes
// free is its turn all the same.
func (d *debt) pay(e *fairshare.Element, lost resource.Amounts, ran time.Duration, total resource.Amounts) {
	d.owed -= resource.Share(lost, total)[e.FairShare.Largest()] * ran.Seconds()
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
	d.owed += d.rate * passed.Seconds()
	d.rate = e.FairShare[k] - e.UsageShare[k] - resource.Share(d.kept, total)[k]
	d.kept = resource.Amounts{}
	most := job * debtHorizon.Seconds()
	told := allocation.Debt{}
	switch {
	case !rounds:
		*d = debt{}
	case next == resource.Infinite:
		// Nobody is owed what it did not ask for.
		d.lack, d.owed = min(d.lack, 0), min(d.owed, 0)
	case job > 0:
		d.lack, d.owed = min(max(d.lack, -most), most), min(max(d.owed, -most), most)
		told.Rounding, told.Crowding = rounded(d.lack/job), min(rounded(d.owed/job), .5)
		if e.FairShare[k] > 0 {
			told.Lag = d.owed / e.FairShare[k]
		}
	}
	order.SetDebt(told)
}

// rounded is which part of a job counts as used of who has lacked one for so many seconds.
func rounded(lack float64) float64 { return min(max(.5-lack/debtPeriod.Seconds(), 0), 1) }

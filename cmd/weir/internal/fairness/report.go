package fairness

import (
	"math"
	"slices"
	"time"

	"weir/cmd/weir/internal/simulate"
)

// Row is the worst of the scenarios of a kind.
type Row struct {
	Kind      string
	Scenarios int
	// Breaches is how many there are, Hungry how many always hungry pools were judged, Below
	// how many of them have less than LeastShare.
	Breaches, Hungry, Below int
	// WorstShare is the least part of its fair share that one of them got, Judged the least that
	// is judged: with half of its largest job. NaN: there was none.
	WorstShare, Judged float64
	// Guarantees is how many pools were judged, Short how many had less than LeastGuarantee.
	Guarantees, Short int
	WorstGuarantee    float64
	// Late counts pools that waited longer than their patience; Wait is the one with the
	// worst part of its patience, which is Patience.
	Late           int
	Wait, Patience time.Duration
	// Lost is the part of all that was used that was lost by preemption, PoolLost that of the
	// worst pool.
	Lost, PoolLost float64
	// Preempted is jobs an hour that were told to leave for others, of all scenarios.
	Preempted  float64
	OutOfOrder int64

	lost, used, jobs, hours float64
}

// Table has a row for each kind that there is, and one for all.
func Table(outcomes []Outcome) []Row {
	const all = "all"
	var rows []Row
	for _, kind := range append(slices.Clone(Kinds), all) {
		row := Row{Kind: kind, WorstShare: math.NaN(), Judged: math.NaN(), WorstGuarantee: math.NaN()}
		for _, o := range outcomes {
			if o.Result != nil && (o.Kind == kind || kind == all) {
				row.add(o)
			}
		}
		if row.Scenarios > 0 || kind == all {
			rows = append(rows, row.close())
		}
	}
	return rows
}

// least is the lesser of a least number so far and another one.
func least(so, x float64) float64 {
	if x < so || math.IsNaN(so) {
		return x
	}
	return so
}

func (r *Row) add(o Outcome) {
	r.Scenarios++
	r.Breaches += len(o.Breaches)
	r.hours += o.Result.Duration.Hours()
	for _, p := range o.Result.Pools {
		r.pool(p.Outcome)
	}
}

func (r *Row) pool(o simulate.Outcome) {
	if ratio, ok := shareRatio(o); ok {
		r.Hungry++
		if ratio < LeastShare {
			r.Below++
		}
		r.WorstShare, r.Judged = least(r.WorstShare, o.Got/o.Fair), least(r.Judged, ratio)
	}
	if ratio, ok := guaranteeRatio(o); ok {
		r.Guarantees++
		if ratio < LeastGuarantee {
			r.Short++
		}
		r.WorstGuarantee = least(r.WorstGuarantee, ratio)
	}
	if waits(o) {
		if o.FirstWait > o.Patience {
			r.Late++
		}
		if r.Patience == 0 || float64(o.FirstWait)/float64(o.Patience) > float64(r.Wait)/float64(r.Patience) {
			r.Wait, r.Patience = o.FirstWait, o.Patience
		}
	}
	r.OutOfOrder += o.OutOfOrder
	if o.Leaf {
		r.PoolLost = max(r.PoolLost, o.Lost)
		r.lost, r.used, r.jobs = r.lost+o.LostSeconds, r.used+o.UsedSeconds, r.jobs+float64(o.Preempted)
	}
}

func (r *Row) close() Row {
	if r.used > 0 {
		r.Lost = r.lost / r.used
	}
	if r.hours > 0 {
		r.Preempted = r.jobs / r.hours
	}
	return *r
}

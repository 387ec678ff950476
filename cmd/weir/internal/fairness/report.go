package fairness

import (
	"math"
	"slices"
	"time"

	"weir/cmd/weir/internal/simulate"
)

// Row holds the worst values among the scenarios of a kind.
type Row struct {
	Kind      string
	Scenarios int
	// Breaches counts breaches. Hungry counts the always hungry pools that were judged; Below
	// counts those of them that got less than LeastShare.
	Breaches, Hungry, Below int
	// WorstShare is the least part of its fair share that an always hungry pool got. Judged is
	// the least such part as it was judged: with half of the largest job added. Both are NaN if
	// there was no such pool.
	WorstShare, Judged float64
	// Guarantees counts the pools whose guarantees were judged; Short counts those of them that got
	// less than LeastGuarantee.
	Guarantees, Short int
	WorstGuarantee    float64
	// Late counts pools that waited longer than their patience. Wait and Patience are those of
	// the pool that waited longest in relation to its patience.
	Late           int
	Wait, Patience time.Duration
	// Lost is the part of all usage that was lost by preemption; PoolLost is the same for the
	// worst pool.
	Lost, PoolLost float64
	// Preempted is the number of preempted jobs per simulated hour, over all scenarios.
	Preempted  float64
	OutOfOrder int64

	lost, used, jobs, hours float64
}

// Table has a row for each kind that occurs, and one for all.
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

// least returns the lesser of x and `so`, the least number so far. `so` is NaN if there is no
// number yet.
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

package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/scheduling/resource"
)

// keptArrivals and keptRuns are how many operations a Past remembers: those that came last, and those
// that ended last.
const keptArrivals, keptRuns = 32, 32

// Past is what is known of the operations that have come to a pool: how often they come, what they
// ask for, and how long their jobs run. Its slices are never changed, so a copy may be read while
// more is noted.
type Past struct {
	// Arrivals are the operations that came last, the earliest first.
	Arrivals []Arrival
	// Runs are how long jobs ran, of each operation that ended last, the earliest first. Those below
	// subpools count, too.
	Runs []Lengths
}

// Arrival is an operation that has come to a pool.
type Arrival struct {
	At time.Time
	// Jobs is how many jobs it had. Needs is what each needs, on average.
	Jobs   int64
	Needs  resource.Amounts
	Weight float64
}

// NoteArrival adds an operation that has come.
func (p *Past) NoteArrival(a Arrival) {
	at, _ := slices.BinarySearchFunc(p.Arrivals, a.At, func(b Arrival, at time.Time) int {
		if b.At.After(at) {
			return 1
		}
		return -1
	})
	all := make([]Arrival, 0, keptArrivals+1)
	all = append(append(append(all, p.Arrivals[:at]...), a), p.Arrivals[at:]...)
	p.Arrivals = all[max(len(all)-keptArrivals, 0):]
}

// NoteRun adds how long the jobs of an operation ran that has ended. They must not change any more.
func (p *Past) NoteRun(l Lengths) {
	if l.Known() {
		p.Runs = WithRun(p.Runs, l)
	}
}

// LengthsOf returns lengths in seconds that represent those of this many jobs.
func LengthsOf(points []float64, ended int64) Lengths {
	l := Lengths{ended: int(ended)}
	for _, seconds := range points {
		l.last = append(l.last, float32(seconds))
	}
	return l
}

// Known reports whether any job has ended.
func (l *Lengths) Known() bool { return l.ended > 0 }

// WithRun returns a copy of the last runs, with one more.
func WithRun(runs []Lengths, l Lengths) []Lengths {
	kept := runs[max(len(runs)-keptRuns+1, 0):]
	return append(append(make([]Lengths, 0, len(kept)+1), kept...), l)
}

// rate draws at what rate operations come, in operations per second: from the distribution of rates
// with which a Poisson process gives what was seen. It is 0 if they came at one moment only.
func (p *Past) rate(now time.Time, chance *rand.Rand) float64 {
	if len(p.Arrivals) == 0 {
		return 0
	}
	first, later := p.Arrivals[0].At, 0
	for _, a := range p.Arrivals {
		if a.At.After(first) {
			later++
		}
	}
	seen := now.Sub(first).Seconds()
	if later == 0 || seen <= 0 {
		return 0
	}
	// A sum of exponential draws has a gamma distribution.
	sum := 0.0
	for range later {
		sum += chance.ExpFloat64()
	}
	return sum / seen
}

// mean is the mean of the known lengths, in seconds.
func (l *Lengths) mean() float64 {
	total := 0.0
	for _, s := range l.last {
		total += float64(s)
	}
	return total / float64(len(l.last))
}

// outlives is the part of the known lengths that are greater than an age in seconds. It is never 0.
func (l *Lengths) outlives(age float64) float64 {
	longer := .5
	for _, s := range l.last {
		if float64(s) > age {
			longer++
		}
	}
	return longer / (float64(len(l.last)) + 1)
}

const (
	// candidates is how many past operations are compared with one of which too little is known.
	// agesCompared is how many of its jobs that run are compared with their lengths.
	candidates, agesCompared = 8, 8
	// alikeness is how much the run times of an operation differ from those of one that is taken as
	// its likeness: the standard deviation of the logarithm.
	alikeness = .25
)

// exampleOf draws the past operation to which an operation is alike, and how many times longer its
// jobs run: in proportion to how likely this makes what is known of the operation. That is how long
// its jobs have run so far, and the own lengths of the few that have ended.
func exampleOf(runs []Lengths, own *Lengths, ran *ages, chance *rand.Rand) (like *Lengths, pace float64) {
	var of [candidates]*Lengths
	var paces, weights [candidates]float64
	least := math.Inf(-1)
	for i := range of {
		of[i], paces[i] = &runs[chance.IntN(len(runs))], math.Exp(alikeness*chance.NormFloat64())
		weights[i] = of[i].fit(paces[i], own, ran)
		least = max(least, weights[i])
	}
	total := 0.0
	for i := range weights {
		weights[i] = math.Exp(weights[i] - least)
		total += weights[i]
	}
	at := chance.Float64() * total
	for i, w := range weights {
		if at -= w; at < 0 {
			return of[i], paces[i]
		}
	}
	return of[0], paces[0]
}

// fit is the logarithm of how likely these lengths, times a pace, make what is known of an operation.
func (l *Lengths) fit(pace float64, own *Lengths, ran *ages) (fit float64) {
	compared := min(ran.running, agesCompared)
	for i := range compared {
		fit += float64(ran.running) / float64(compared) * math.Log(l.outlives(ran.of(i*ran.running/compared)/pace))
	}
	if own.ended > 0 {
		off := math.Log(max(own.mean(), 1e-3)/max(pace*l.mean(), 1e-3)) / (2 * alikeness)
		fit -= off * off / 2
	}
	return fit
}

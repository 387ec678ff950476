package explain

import (
	"math"
	"slices"
	"time"
)

// ages returns how long the jobs of a contender have run.
func (n *Contender) ages(now time.Time) ages {
	a := ages{running: n.Running, newest: max(now.Sub(n.Newest), 0).Seconds()}
	for _, started := range n.First {
		a.first = append(a.first, max(now.Sub(started), 0).Seconds())
	}
	return a
}

// pace draws a factor: how much longer or shorter jobs run than known ones of other operations. It
// avoids a pace at which the running jobs would already have ended.
func (f *forecast) pace(known *Lengths, ran *ages) (pace float64) {
	longest, oldest := float64(slices.Max(known.last)), 0.0
	if ran.running > 0 {
		oldest = ran.of(0)
	}
	for range 10 {
		if pace = math.Exp(unlikeness * f.chance.NormFloat64()); pace*longest > oldest {
			break
		}
	}
	return pace
}

// lasts draws how long a job of an operation runs in all, given how long it has run.
func (f *forecast) lasts(i int, age float64) float64 {
	op := &f.ops[i]
	if !op.drawn {
		n := &f.contest.Contenders[i]
		if n.Lengths.enough() {
			op.lasts, op.pace = survivalOf(n.Lengths, &f.ages[i], f.chance), 1
		} else {
			op.lasts, op.pace = f.unlike(n.Pool, &n.Lengths, &f.ages[i], n.Alike)
		}
		op.drawn = true
	}
	return op.pace * op.lasts.draw(age/op.pace, f.late, f.chance)
}

// unlike draws how long the jobs of an operation run of which too few have ended: as long as those of
// one of its kind, or else of another one of its pool, or of the nearest pool above of which some are
// known.
func (f *forecast) unlike(pool int, own *Lengths, ran *ages, alike []Lengths) (survival, float64) {
	runs := alike
	for at := pool; at >= 0 && len(runs) == 0; at = f.contest.Pools[at].Above {
		if past := &f.contest.Pools[at].Past; len(past.Runs) >= leastRuns {
			runs = past.Runs
		}
	}
	if len(runs) > 0 {
		known, pace := exampleOf(runs, own, ran, f.chance)
		return survivalOf(*known, &ages{}, f.chance), pace
	}
	known, _, _ := f.contest.lengthsOf(&Contender{Pool: pool})
	if known == nil {
		known = &f.contest.Pools[0].Lengths
	}
	pace := f.pace(known, ran)
	return survivalOf(*known, &ages{}, f.chance), pace
}

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
	if len(f.beginOps) > crowd && i < len(f.beginOps) {
		return f.lastsInCrowd(i, age)
	}
	if !op.drawn {
		n := f.contest.Contenders[i]
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
	if runs := f.contest.runsLike(pool, alike); len(runs) > 0 {
		known, pace := exampleOf(runs, own, ran, f.chance)
		return survivalOf(*known, &ages{}, f.chance), pace
	}
	known := f.contest.lengthsIn(pool)
	pace := f.pace(known, ran)
	return survivalOf(*known, &ages{}, f.chance), pace
}

// crowd is how many operations may compete for a distribution of run times to be drawn for each of them in each
// trial. What jobs of more do is certain enough without it.
const crowd = 2000

// lastsInCrowd draws how long a job of one of many operations runs in all: as long as one that has ended, of the
// operation or of those that are like it.
func (f *forecast) lastsInCrowd(i int, age float64) float64 {
	op, n := &f.ops[i], f.contest.Contenders[i]
	known := &n.Lengths
	if !known.enough() {
		if runs := f.contest.runsLike(n.Pool, n.Alike); len(runs) > 0 {
			known = &runs[f.chance.IntN(len(runs))]
		} else {
			known = f.contest.lengthsIn(n.Pool)
		}
	}
	if !op.drawn {
		op.pace, op.drawn = 1, true
		if known != &n.Lengths {
			op.pace = math.Exp(alikeness * f.chance.NormFloat64())
		}
	}
	for range drawsInCrowd {
		if ran := op.pace * float64(known.last[f.chance.IntN(len(known.last))]); ran > age {
			return ran
		}
	}
	longest := op.pace * float64(slices.Max(known.last))
	return max(age+max(age-longest, longest/float64(len(known.last)))*f.late, longest)
}

// drawsInCrowd is how often a run time is drawn that is longer than a job has run, before it counts as one that has
// outrun all.
const drawsInCrowd = 8

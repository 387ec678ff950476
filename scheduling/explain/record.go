package explain

import (
	"math"
	"slices"
	"time"
)

const (
	// keptScores is how many estimates that turned out right or wrong are remembered of each kind.
	// PriorScores is the weight, in estimates, of the assumption that simulated ranges are right.
	keptScores, priorScores = 200, 20
	// within is the part of the starts that ranges aim at. What lies outside is half before, half after. It
	// is a bit more than the 90% that are promised, because what is learned is behind: a start is known only
	// when it comes.
	within = .92
	// leastWidth and mostWidth bound the factor by which one side of a range is changed.
	leastWidth, mostWidth = .25, 10
)

// Told is an estimate as it was before ranges are corrected, for an operation.
type Told struct {
	Asked time.Time
	// In is when a job was to start, counted from Asked. Before and After are how much earlier and later
	// the range ends.
	In, Before, After time.Duration
	// Begun says that the operation had started jobs before.
	Begun bool
}

// Record compares what was told with what came. Ranges are corrected by it, so that they hold what
// they promise whatever the simulation does not know (split conformal prediction; Lei et al.,
// Distribution-free predictive inference for regression, 2018): if the starts of the past were later
// than told by up to twice the width in 19 of 20 cases, the upper side becomes twice as wide.
// The zero value is empty.
type Record struct {
	// first is for operations that had started no job, and next for others.
	first, next scores
}

// scores are by how much starts were later, and earlier, than told, as parts of that side of the
// range. The last keptScores are kept.
type scores struct {
	later, earlier []float32
	at             int
}

// Widths are the factors by which the sides of ranges change.
type Widths struct {
	First, Next Sides
}

// Sides are the factors for the part of a range before the estimate, and the part after it.
type Sides struct{ Before, After float64 }

// of returns the scores of one kind of estimates.
func (r *Record) of(begun bool) *scores {
	if begun {
		return &r.next
	}
	return &r.first
}

// Note adds that a job has started about whose start something was told.
func (r *Record) Note(t Told, started time.Time) {
	s := r.of(t.Begun)
	later, earlier := t.score(started)
	if len(s.later) < keptScores {
		s.later, s.earlier = append(s.later, later), append(s.earlier, earlier)
		return
	}
	s.later[s.at], s.earlier[s.at] = later, earlier
	s.at = (s.at + 1) % keptScores
}

// Settled reports whether a start that has not come is so late that it does not matter how late it will be: ranges
// become no wider for it.
func (t *Told) Settled(now time.Time) bool {
	later, _ := t.score(now)
	return later >= mostWidth
}

func (t *Told) score(started time.Time) (later, earlier float32) {
	off := (started.Sub(t.Asked) - t.In).Seconds()
	return float32(off / max(t.After, startDelay).Seconds()), float32(-off / max(t.Before, startDelay).Seconds())
}

// Widths returns how ranges change now. The parameter open has estimates to which no start has come
// yet. Those that are overdue count, with the time by which they are.
func (r *Record) Widths(now time.Time, open []Told) Widths {
	var overdue [2][]float32
	for i := range open {
		if later, _ := open[i].score(now); later > 1 {
			kind := 0
			if open[i].Begun {
				kind = 1
			}
			overdue[kind] = append(overdue[kind], later)
		}
	}
	return Widths{First: r.first.sides(overdue[0]), Next: r.next.sides(overdue[1])}
}

func (s *scores) sides(overdue []float32) Sides {
	return Sides{Before: widthOf(s.earlier, nil, len(overdue)), After: widthOf(s.later, overdue, 0)}
}

// widthOf returns the score that all but half of what ranges do not promise is within. The parameter
// low is how many more scores are known to be low.
func widthOf(known, overdue []float32, low int) float64 {
	all := slices.Concat(known, overdue)
	for i := range priorScores {
		all = append(all, float32(i)/(priorScores-1))
	}
	for range low {
		all = append(all, -1)
	}
	slices.Sort(all)
	at := int(math.Ceil(float64(len(all)+1)*(1+within)/2)) - 1
	return min(max(float64(all[min(at, len(all)-1)]), leastWidth), mostWidth)
}

// of returns the factors for an estimate.
func (w *Widths) of(begun bool) Sides {
	if begun {
		return w.Next
	}
	return w.First
}

// corrected returns an estimate with the range changed, and what was told before that.
func (w *Widths) corrected(e estimate, now time.Time, begun bool) (estimate, Told) {
	told := Told{Asked: now, In: e.at.Sub(now), Before: e.at.Sub(e.earliest), After: e.latest.Sub(e.at), Begun: begun}
	if w.First == (Sides{}) {
		return e, told
	}
	by := w.of(begun)
	e.earliest = e.at.Add(-seconds(by.Before * max(told.Before, startDelay).Seconds()))
	if e.earliest.Before(now) {
		e.earliest = now
	}
	e.latest = e.at.Add(seconds(by.After * max(told.After, startDelay).Seconds()))
	return e, told
}

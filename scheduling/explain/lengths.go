package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// keptLengths is how many run times are remembered: those of the jobs that ended last.
const keptLengths = 64

// Lengths holds how long the last jobs that ended by themselves ran, for estimates. Jobs that were
// told to leave are left out: they do not show how long jobs run to their end.
type Lengths struct {
	ended int
	last  []float32
}

// Add records how long an ended job ran.
func (l *Lengths) Add(ran time.Duration) {
	if l.last == nil {
		l.last = make([]float32, 0, keptLengths)
	}
	if seconds := float32(max(ran, 0).Seconds()); len(l.last) < keptLengths {
		l.last = append(l.last, seconds)
	} else {
		l.last[l.ended%keptLengths] = seconds
	}
	l.ended++
}

// Clone returns a copy that shares no memory.
func (l *Lengths) Clone() Lengths { return Lengths{ended: l.ended, last: slices.Clone(l.last)} }

// ages is how many seconds jobs have run, the oldest first. The field first has the oldest ages. The
// ages of the other running jobs are assumed to be spread evenly from there to `newest`.
type ages struct {
	running int64
	first   []float64
	newest  float64
}

// of returns the age of the i-th job.
func (a *ages) of(i int64) float64 {
	known := int64(len(a.first))
	if i < known {
		return a.first[i]
	}
	from := a.newest
	if known > 0 {
		from = a.first[known-1]
	}
	return from + (a.newest-from)*float64(i-known+1)/float64(a.running-known)
}

// atLeast returns how many jobs have run for at least this many seconds.
func (a *ages) atLeast(age float64) float64 {
	n := sort.Search(int(a.running), func(i int) bool { return a.of(int64(i)) < age })
	return float64(n)
}

// sum returns how long all jobs together have run.
func (a *ages) sum() (total float64) {
	for _, age := range a.first {
		total += age
	}
	if known := int64(len(a.first)); known < a.running {
		total += float64(a.running-known) * (a.of(known) + a.newest) / 2
	}
	return total
}

// survival is the distribution of how long jobs run, estimated from those that have ended and
// from those that still run (Kaplan and Meier, Nonparametric estimation from incomplete
// observations, 1958). Without the jobs that still run, the first jobs
// of an operation that end would suggest that all its jobs are short.
type survival struct {
	// lengths are run times in seconds, ascending. For each length, the field after has the part of
	// all jobs that run longer.
	lengths, after []float64
	// rest is how many more seconds, on average, a job runs once it has outrun all that have ended.
	rest float64
}

// survivalOf draws a distribution, a different one each time. It draws as many lengths from the
// known ones as there are, with replacement: the differences show how far a few known lengths can
// mislead (Efron, Bootstrap methods, 1979). At least one length must be known.
func survivalOf(known Lengths, running *ages, chance *rand.Rand) survival {
	n := len(known.last)
	s := survival{lengths: make([]float64, n), after: make([]float64, n)}
	for i := range s.lengths {
		s.lengths[i] = float64(known.last[chance.IntN(n)])
	}
	slices.Sort(s.lengths)
	// Each remembered length stands for this many jobs that have ended.
	each, left, total := float64(known.ended)/float64(n), 1.0, 0.0
	for i, length := range s.lengths {
		left *= 1 - each/(each*float64(n-i)+running.atLeast(length))
		s.after[i] = left
		total += each * length
	}
	// If jobs have similar lengths, the next one runs hardly longer than those before; if lengths
	// vary widely, it may run longer by the mean. Which of the two applies is not known, so rest is
	// drawn from between.
	mean := (total + running.sum()) / float64(known.ended)
	least := min(max((s.lengths[n-1]-s.lengths[0])/float64(n), mean/100), mean)
	s.rest = least * math.Pow(mean/max(least, 1e-9), chance.Float64())
	return s
}

// draw returns how long a job runs in all, in seconds, given its age. A job that has outrun all
// that have ended runs on for the time by which it has outrun them, times the parameter late, or for
// longer if many other jobs have outrun them too.
func (s *survival) draw(age, late float64, chance *rand.Rand) float64 {
	from, _ := slices.BinarySearch(s.lengths, age)
	for from < len(s.lengths) && s.lengths[from] <= age {
		from++
	}
	longest := s.lengths[len(s.lengths)-1]
	if from == len(s.lengths) {
		n := float64(from + 1)
		more := max(age-longest, (longest-s.lengths[0])/n) * late
		if s.after[from-1]*n > 1 {
			more = max(more, s.drawRest(chance))
		}
		return age + more
	}
	reaches := 1.0
	if from > 0 {
		reaches = s.after[from-1]
	}
	reaches *= 1 - chance.Float64()
	at, _ := slices.BinarySearchFunc(s.after[from:], reaches, func(after, reaches float64) int {
		if after >= reaches {
			return -1
		}
		return 1
	})
	if from += at; from < len(s.lengths) {
		return s.lengths[from]
	}
	return longest + s.drawRest(chance)
}

func (s *survival) drawRest(chance *rand.Rand) float64 {
	return -s.rest * math.Log(1-chance.Float64())
}

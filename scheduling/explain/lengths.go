package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// keptLengths is how many of the jobs that ended last are remembered by how long they ran.
const keptLengths = 64

// Lengths is for how long jobs ran that ended of themselves, for estimates: the last of
// them. What was told to leave says nothing of what runs to its end.
type Lengths struct {
	ended int
	last  []float32
}

// Add takes note of a job that has ended after so long.
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

// Clone returns a copy that shares nothing.
func (l *Lengths) Clone() Lengths { return Lengths{ended: l.ended, last: slices.Clone(l.last)} }

// ages is for how many seconds jobs have run, the oldest first: of each up to the last of
// first, and of the others, of all that run, evenly from there to newest.
type ages struct {
	running int64
	first   []float64
	newest  float64
}

// of is the age of the i-th job.
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

// atLeast is how many jobs have run for so long.
func (a *ages) atLeast(age float64) float64 {
	n := sort.Search(int(a.running), func(i int) bool { return a.of(int64(i)) < age })
	return float64(n)
}

// sum is for how long all have run together.
func (a *ages) sum() (total float64) {
	for _, age := range a.first {
		total += age
	}
	if known := int64(len(a.first)); known < a.running {
		total += float64(a.running-known) * (a.of(known) + a.newest) / 2
	}
	return total
}

// survival is how long jobs run, as far as it follows from those that have ended and from
// those that have not yet (Kaplan and Meier, Nonparametric estimation from incomplete
// observations, 1958): without these, the first jobs that end of an operation would say
// that all its jobs are short.
type survival struct {
	// after is the part of all jobs that runs for longer than lengths, which ascend.
	lengths, after []float64
	// rest is how much longer, on average, those run that run for longer than all that have
	// ended.
	rest float64
}

// survivalOf draws how long jobs run. It is another one each time: as many lengths are drawn
// out of the known ones as are known, which is how far the few that are known can mislead
// (Efron, Bootstrap methods, 1979). There must be some.
func survivalOf(known Lengths, running *ages, chance *rand.Rand) survival {
	n := len(known.last)
	s := survival{lengths: make([]float64, n), after: make([]float64, n)}
	for i := range s.lengths {
		s.lengths[i] = float64(known.last[chance.IntN(n)])
	}
	slices.Sort(s.lengths)
	// Each that is remembered stands for as many that have ended.
	each, left, total := float64(known.ended)/float64(n), 1.0, 0.0
	for i, length := range s.lengths {
		left *= 1 - each/(each*float64(n-i)+running.atLeast(length))
		s.after[i] = left
		total += each * length
	}
	// Jobs of about the same length run hardly longer than those before, jobs of any length
	// longer by the mean: which of these they are is not known.
	mean := (total + running.sum()) / float64(known.ended)
	least := min(max((s.lengths[n-1]-s.lengths[0])/float64(n), mean/100), mean)
	s.rest = least * math.Pow(mean/max(least, 1e-9), chance.Float64())
	return s
}

// draw returns how long a job runs that has run for this long, in seconds. One that has run
// for longer than all that have ended goes on for late times as much longer as it has by
// now, and for longer if many have run for so long.
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

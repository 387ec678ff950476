package statistics

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Aggregate is one statistic over many jobs. Its sum saturates.
type Aggregate struct {
	Count, Sum, Min, Max int64
	// Buckets are the numbers of the histogram's buckets that hold values, ascending. Counts says
	// how many values each of these buckets holds. An aggregate of values without buckets has lost
	// its histogram, and gets no other.
	Buckets []int32
	Counts  []int64
}

// Add adds a value.
func (a *Aggregate) Add(v int64) {
	if a.Count == 0 {
		a.Min, a.Max = v, v
	}
	if a.hasHistogram() {
		a.count(Bucket(v), 1)
	}
	a.Min, a.Max = min(a.Min, v), max(a.Max, v)
	a.Count++
	a.Sum = saturatingSum(a.Sum, v)
}

// hasHistogram reports whether the histogram has all values.
func (a *Aggregate) hasHistogram() bool { return a.Count == 0 || len(a.Buckets) > 0 }

// Merge adds all values of another aggregate. The order of merging does not matter as long as the
// sum does not saturate. The result has a histogram if both have one.
func (a *Aggregate) Merge(b Aggregate) {
	if b.Count == 0 {
		return
	}
	whole := a.hasHistogram() && b.hasHistogram()
	if a.Count == 0 {
		a.Min, a.Max = b.Min, b.Max
	}
	a.Min, a.Max = min(a.Min, b.Min), max(a.Max, b.Max)
	a.Count += b.Count
	a.Sum = saturatingSum(a.Sum, b.Sum)
	if !whole {
		a.Buckets, a.Counts = nil, nil
		return
	}
	for i, bucket := range b.Buckets {
		a.count(bucket, b.Counts[i])
	}
}

func (a *Aggregate) count(bucket int32, n int64) {
	i, found := slices.BinarySearch(a.Buckets, bucket)
	if !found {
		a.Buckets = slices.Insert(a.Buckets, i, bucket)
		a.Counts = slices.Insert(a.Counts, i, 0)
	}
	a.Counts[i] += n
}

// Quantile returns the value that the fraction q of all values, in [0, 1], does not exceed. It
// returns 0 for an empty aggregate, and the greatest value for one without its histogram. The error is at most 1/32 of the value. The result is exact if
// q is 0 or 1, if all values are equal, or if it is below 64.
func (a *Aggregate) Quantile(q float64) int64 {
	if a.Count == 0 {
		return 0
	}
	rank := int64(math.Ceil(q * float64(a.Count)))
	if rank <= 1 {
		return a.Min
	}
	if rank >= a.Count {
		return a.Max
	}
	var seen int64
	for i, bucket := range a.Buckets {
		if seen += a.Counts[i]; seen >= rank {
			least, greatest := Bounds(bucket)
			return min(max(least+(greatest-least)/2, a.Min), a.Max)
		}
	}
	return a.Max
}

// Mean returns the average, rounded towards zero. It returns 0 if there are no values.
func (a *Aggregate) Mean() int64 {
	if a.Count == 0 {
		return 0
	}
	return a.Sum / a.Count
}

// Clone returns a deep copy.
func (a *Aggregate) Clone() Aggregate {
	b := *a
	b.Buckets, b.Counts = slices.Clone(a.Buckets), slices.Clone(a.Counts)
	return b
}

// Entry is the aggregate of a name over the jobs that ended in one state.
type Entry struct {
	Name, State string
	Aggregate
}

// Set holds aggregates by name and state, sorted by both.
type Set []Entry

// MaxNames is the maximum number of names to which Set.Add fills a set.
const MaxNames = 128

// Add adds the values of a job that ended in state. If there would be more than MaxNames names, the
// new names that come last in the alphabet are left out.
func (s *Set) Add(state string, values map[string]int64) {
	room := MaxNames - s.names()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !s.has(name) {
			if room <= 0 {
				continue
			}
			room--
		}
		s.at(name, state).Add(values[name])
	}
}

// Merge adds all values of another set, however many names it has.
func (s *Set) Merge(other Set) {
	for i := range other {
		s.at(other[i].Name, other[i].State).Merge(other[i].Aggregate)
	}
}

// Clone returns a deep copy.
func (s Set) Clone() Set {
	s = slices.Clone(s)
	for i := range s {
		s[i].Aggregate = s[i].Aggregate.Clone()
	}
	return s
}

// Of returns the aggregate of a name in a state. It is empty if the set has none. It shares its
// histogram with the set.
func (s Set) Of(name, state string) Aggregate {
	if i, found := s.find(name, state); found {
		return s[i].Aggregate
	}
	return Aggregate{}
}

// Total returns the aggregate of a name over all states.
func (s Set) Total(name string) Aggregate {
	var total Aggregate
	i, _ := s.find(name, "")
	for ; i < len(s) && s[i].Name == name; i++ {
		total.Merge(s[i].Aggregate)
	}
	return total
}

// The most bytes that a record of an aggregate takes: what it has besides its texts and its histogram,
// and one bucket of that, with fewer than 2^28 values.
const (
	entryBytes  = 64
	bucketBytes = 6
)

// bytes returns what the records of a set take at most.
func (s Set) bytes() (size int64) {
	for i := range s {
		size += int64(entryBytes + len(s[i].Name) + len(s[i].State) + bucketBytes*len(s[i].Buckets))
	}
	return size
}

func (s Set) find(name, state string) (int, bool) {
	return slices.BinarySearchFunc(s, Entry{Name: name, State: state}, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.State, b.State))
	})
}

func (s Set) has(name string) bool {
	i, _ := s.find(name, "")
	return i < len(s) && s[i].Name == name
}

func (s Set) names() int {
	n := 0
	for i := range s {
		if i == 0 || s[i].Name != s[i-1].Name {
			n++
		}
	}
	return n
}

// at returns the aggregate of a name in a state, and creates it if there is none.
func (s *Set) at(name, state string) *Aggregate {
	i, found := s.find(name, state)
	if !found {
		*s = slices.Insert(*s, i, Entry{Name: name, State: state})
	}
	return &(*s)[i].Aggregate
}

func saturatingSum(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	default:
		return a + b
	}
}

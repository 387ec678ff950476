// Package cookies stores sets of cookies as sorted intervals, so that a million pending jobs cost
// as much as one.
package cookies

import (
	"fmt"
	"iter"
	"slices"
	"sort"

	"weir/scheduling"
)

// Interval holds the cookies in [Begin, End).
type Interval struct {
	Begin, End scheduling.Cookie
}

// Len returns the number of cookies in the interval.
func (i Interval) Len() int64 { return int64(i.End) - int64(i.Begin) }

// IntervalSet is a set of cookies. The zero value is the empty set. A copy by
// assignment shares memory with the original: use Clone.
type IntervalSet struct {
	// Invariant: intervals are sorted, none is empty, and there are gaps between them.
	intervals []Interval
	len       int64
}

// Of returns the set of these cookies.
func Of(cookies ...scheduling.Cookie) IntervalSet {
	var s IntervalSet
	for _, c := range cookies {
		s.Add(c)
	}
	return s
}

// Range returns the set of the cookies in [begin, end).
func Range(begin, end scheduling.Cookie) IntervalSet {
	var s IntervalSet
	s.AddInterval(Interval{Begin: begin, End: end})
	return s
}

// FromIntervals returns the set of the cookies in these intervals, which must be as Intervals
// returns them: non-negative, non-empty, sorted and disjoint. Touching intervals are joined.
func FromIntervals(intervals []Interval) (IntervalSet, error) {
	var s IntervalSet
	end := scheduling.Cookie(0)
	for n, i := range intervals {
		if i.Begin < end || i.End <= i.Begin {
			return IntervalSet{}, fmt.Errorf(
				"cookie interval %d [%d, %d): it must begin at %d or later, and end after its begin", n, i.Begin, i.End, end)
		}
		s.AddInterval(i)
		end = i.End
	}
	return s, nil
}

// Len returns the number of cookies in the set.
func (s *IntervalSet) Len() int64 { return s.len }

// Contains reports whether the cookie is in the set.
func (s *IntervalSet) Contains(c scheduling.Cookie) bool {
	i := s.after(c)
	return i < len(s.intervals) && s.intervals[i].Begin <= c
}

// Add adds a cookie to the set and reports whether the set did not contain it before.
func (s *IntervalSet) Add(c scheduling.Cookie) bool {
	return s.AddInterval(Interval{Begin: c, End: c + 1}) == 1
}

// AddInterval adds all cookies of the interval to the set and returns how many of them the set did
// not contain before.
func (s *IntervalSet) AddInterval(add Interval) int64 {
	if add.End <= add.Begin {
		return 0
	}
	// The new interval replaces intervals [first, last): all that overlap or touch the new one.
	first := sort.Search(len(s.intervals), func(i int) bool { return s.intervals[i].End >= add.Begin })
	last := first
	var known int64
	for last < len(s.intervals) && s.intervals[last].Begin <= add.End {
		known += s.intervals[last].Len()
		last++
	}
	merged := add
	if first < last {
		merged.Begin = min(merged.Begin, s.intervals[first].Begin)
		merged.End = max(merged.End, s.intervals[last-1].End)
	}
	s.intervals = slices.Replace(s.intervals, first, last, merged)
	added := merged.Len() - known
	s.len += added
	return added
}

// Remove removes a cookie from the set and reports whether the set contained it.
func (s *IntervalSet) Remove(c scheduling.Cookie) bool {
	i := s.after(c)
	if i == len(s.intervals) || s.intervals[i].Begin > c {
		return false
	}
	at := &s.intervals[i]
	switch {
	case at.Begin == c && at.End == c+1:
		s.intervals = slices.Delete(s.intervals, i, i+1)
	case at.Begin == c:
		at.Begin++
	case at.End == c+1:
		at.End--
	default:
		tail := Interval{Begin: c + 1, End: at.End}
		at.End = c
		s.intervals = slices.Insert(s.intervals, i+1, tail)
	}
	s.len--
	return true
}

// First returns the least cookie of the set. The result ok is false when the set is empty.
func (s *IntervalSet) First() (c scheduling.Cookie, ok bool) {
	if len(s.intervals) == 0 {
		return 0, false
	}
	return s.intervals[0].Begin, true
}

// PopFirst removes the least cookie and returns it. The result ok is false when the set is empty.
func (s *IntervalSet) PopFirst() (c scheduling.Cookie, ok bool) {
	c, ok = s.First()
	if ok {
		s.Remove(c)
	}
	return c, ok
}

// All yields the cookies in ascending order. The set must not change meanwhile.
func (s *IntervalSet) All() iter.Seq[scheduling.Cookie] {
	return func(yield func(scheduling.Cookie) bool) {
		for _, i := range s.intervals {
			for c := i.Begin; c < i.End; c++ {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Intervals returns the cookies as the fewest sorted intervals. The caller owns the slice.
func (s *IntervalSet) Intervals() []Interval { return slices.Clone(s.intervals) }

// Clone returns a copy that shares nothing with the set.
func (s *IntervalSet) Clone() IntervalSet {
	return IntervalSet{intervals: slices.Clone(s.intervals), len: s.len}
}

// Equal reports whether both sets hold the same cookies.
func (s *IntervalSet) Equal(other *IntervalSet) bool {
	return slices.Equal(s.intervals, other.intervals)
}

// after returns the index of the first interval that ends after c.
func (s *IntervalSet) after(c scheduling.Cookie) int {
	return sort.Search(len(s.intervals), func(i int) bool { return s.intervals[i].End > c })
}

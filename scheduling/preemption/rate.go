package preemption

import (
	"slices"
	"sort"
	"time"
)

// RatePeriod is what rate limits are for.
const RatePeriod = time.Minute

// Rate remembers the preemptions of the last minute. The zero value has none. It
// allocates no memory once it has held as many as it ever does.
type Rate struct {
	// times ascend; those before from are forgotten.
	times []time.Time
	from  int
}

// Left returns how many more may be preempted at a time, when limit may be in any minute
// and none is until then. A limit below 0 is none: then it is limit.
func (r *Rate) Left(at time.Time, limit int64) int64 {
	if limit < 0 {
		return limit
	}
	known := r.times[r.from:]
	past := sort.Search(len(known), func(i int) bool { return at.Sub(known[i]) < RatePeriod })
	return max(limit-int64(len(known)-past), 0)
}

// Take remembers a preemption at a time. Times that come ascend, but for those of
// the past that a new leader reads from the log.
func (r *Rate) Take(at time.Time) {
	if r.from > 0 && len(r.times) == cap(r.times) {
		r.times = slices.Delete(r.times, 0, r.from)
		r.from = 0
	}
	i := len(r.times)
	for i > r.from && at.Before(r.times[i-1]) {
		i--
	}
	r.times = slices.Insert(r.times, i, at)
}

// Undo forgets one preemption at a time: it was not to be.
func (r *Rate) Undo(at time.Time) {
	for i := len(r.times) - 1; i >= r.from; i-- {
		if r.times[i].Equal(at) {
			r.times = slices.Delete(r.times, i, i+1)
			return
		}
	}
}

// Forget drops the preemptions that do not count from now on.
func (r *Rate) Forget(now time.Time) {
	for r.from < len(r.times) && now.Sub(r.times[r.from]) >= RatePeriod {
		r.from++
	}
	if r.from == len(r.times) {
		r.times, r.from = r.times[:0], 0
	}
}

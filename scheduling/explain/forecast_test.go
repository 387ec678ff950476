package explain

import (
	"math"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// TestNextOfManyEnds (X11) has about 19 of 100,000 running jobs end each second, which are too many to
// simulate them all one by one: one that waits for the next end starts at once, and one that waits
// for a thousand ends does so after a minute or so.
func TestNextOfManyEnds(t *testing.T) {
	const slots = 100_000
	now := time.Unix(1_000_000, 0)
	job := resource.Amounts{UserSlots: 1}
	var known Lengths
	for i := range 20_000 * keptLengths {
		known.Add(time.Duration(i%keptLengths+1) * 2 * time.Hour / keptLengths)
	}
	contest := Contest{
		Total: job.Times(slots),
		Pools: []Arena{{Above: -1, Fair: resource.Vector{1}, Usage: job.Times(slots), Limits: resource.Infinite, Lengths: known}},
		Contenders: []*Contender{
			{ID: "runs", Rank: 1, Place: 1, Running: slots, Holds: job, First: []time.Time{now.Add(-time.Hour)}, Newest: now, Usage: job.Times(slots), Limits: resource.Infinite, Lengths: known},
			{ID: "waits", Rank: 2, Place: 0, Jobs: 5000, Needs: job, Fair: resource.Vector{1}, Limits: resource.Infinite},
		},
	}
	for name, tc := range map[string]struct {
		jobs        int64
		least, most time.Duration
	}{
		"the next end":       {1, 0, time.Second},
		"hundred ends":       {100, 2 * time.Second, 10 * time.Second},
		"more than are seen": {1000, 30 * time.Second, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			seen, why := contest.foresee(wish{op: "waits", jobs: tc.jobs, needs: job, k: resource.UserSlots, reach: 1, fits: func(resource.Amounts) bool { return true }, now: now})
			if why != "" || seen.in < tc.least || seen.in > tc.most || seen.earliest > seen.in || seen.latest < seen.in {
				t.Errorf("in %v, from %v to %v, want between %v and %v; %s", seen.in, seen.earliest, seen.latest, tc.least, tc.most, why)
			}
		})
	}
}

// TestOneKindIsKnown: of operations of which nothing is known, jobs run as long as those of one whose kind is known,
// as when a new leader has seen the ends of operations of a pool that is gone, and no others.
func TestOneKindIsKnown(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	job := resource.Amounts{UserSlots: 1}
	kind := []Lengths{LengthsOf([]float64{90, 100, 110}, 3)}
	runs := func(id scheduling.OperationID, alike []Lengths) *Contender {
		return &Contender{ID: id, Place: math.MaxInt, Running: 1, Holds: job, Newest: now, Usage: job, Limits: resource.Infinite, Alike: alike, Weight: 1}
	}
	for _, operations := range []int{2, crowd + 1} {
		contest := Contest{
			Total:      job.Times(int64(operations)),
			Pools:      []Arena{{Above: -1, Fair: resource.Vector{1}, Usage: job.Times(int64(operations)), Limits: resource.Infinite, Weight: 1}},
			Contenders: []*Contender{{ID: "waits", Jobs: 1, Needs: job, Fair: resource.Vector{.5}, Limits: resource.Infinite, Weight: 1}, runs("known", kind)},
		}
		for range operations - 1 {
			contest.Contenders = append(contest.Contenders, runs("unknown", nil))
		}
		seen, why := contest.foresee(wish{op: "waits", jobs: 1, needs: job, k: resource.UserSlots, reach: 1, fits: func(resource.Amounts) bool { return true }, now: now})
		if why != "" || seen.in < 10*time.Second || seen.in > 200*time.Second {
			t.Errorf("of %d operations: in %v; %s", operations, seen.in, why)
		}
	}
}

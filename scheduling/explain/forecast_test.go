package explain

import (
	"testing"
	"time"

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
		Contenders: []Contender{
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

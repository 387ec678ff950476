package explain

import (
	"math"
	"testing"
	"time"

	"weir/scheduling/resource"
)

// TestSharesByWeight: the level of fair shares is found however much weights differ.
func TestSharesByWeight(t *testing.T) {
	const slots = 100
	job := resource.Amounts{UserSlots: 1}
	for name, test := range map[string]struct{ weights, want [3]float64 }{
		"equal":                   {[3]float64{1, 1, 1}, [3]float64{100. / 3, 100. / 3, 100. / 3}},
		"one has none":            {[3]float64{0, 1, 3}, [3]float64{0, 25, 75}},
		"one has next to nothing": {[3]float64{1e-6, 1e9, 3e9}, [3]float64{0, 25, 75}},
		"one has nearly all":      {[3]float64{1, 1, 1e9}, [3]float64{0, 0, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			contest := Contest{Total: job.Times(slots), Pools: []Arena{{Above: -1, Fair: resource.Vector{1}, Limits: resource.Infinite, Weight: 1}}}
			for i, weight := range test.weights {
				contest.Contenders = append(contest.Contenders, &Contender{Place: i, Jobs: 1000, Needs: job, Fair: resource.Vector{test.want[i] / slots}, Limits: resource.Infinite, Weight: weight})
			}
			f := newForecast(&contest, wish{jobs: 1, needs: job, k: resource.UserSlots, reach: 1, fits: func(resource.Amounts) bool { return true }, now: time.Unix(1_000_000, 0)}, 0)
			f.reset()
			f.share()
			for i, want := range test.want {
				if got := f.ops[i].fair; math.Abs(got-want) > .01 {
					t.Errorf("the fair share of operation %d is %g slots, want %g", i, got, want)
				}
			}
		})
	}
}

package fairshare

import (
	"math"
	"testing"
	"time"

	"weir/scheduling/resource"
)

// TestManySmallUpdates lets volumes flow, be paid for and overflow for half an hour in
// steps of which none is a whole hundredth of cpu: all that there was is there.
func TestManySmallUpdates(t *testing.T) {
	const steps = 9000
	for name, tc := range map[string]struct {
		total resource.Amounts
		step  time.Duration
		flows []float64
		paid  float64
	}{
		"a small flow":              {resource.Amounts{UserSlots: 100, CPU: 1000}, 200 * time.Millisecond, []float64{0.0013}, 0},
		"less than a hundredth":     {resource.Amounts{UserSlots: 100, CPU: 100}, 7 * time.Millisecond, []float64{0.3}, 0},
		"flow and payment":          {resource.Amounts{UserSlots: 100, CPU: 733}, 200 * time.Millisecond, []float64{0.0171}, 0.0113},
		"overflow to three others":  {resource.Amounts{UserSlots: 100, CPU: 1000}, 200 * time.Millisecond, []float64{0, 0.0013, 0.0013, 0.0013}, 0},
		"overflow in unequal parts": {resource.Amounts{UserSlots: 100, CPU: 1000}, 33 * time.Millisecond, []float64{0, 0.0001, 0.0013, 0.011}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tree := NewTree(Default())
			tree.Root.Pool.Integral.DistributesFreeVolume = new(true)
			tree.total = tc.total
			want := 0.0
			for i, flow := range tc.flows {
				e := NewPool(string(rune('a' + i)))
				p := e.Pool
				p.Integral = Integral{Type: Relaxed, AcceptsFreeVolume: true}
				p.SpecifiedFlowRatio, p.TotalFlowRatio, p.LastShareRatio = flow, flow, tc.paid
				if flow == 0 {
					// It is full: all of its flow is for the others.
					p.SpecifiedFlowRatio = 0.0037
					p.Integral.AcceptsFreeVolume = false
				} else {
					p.Capacity = resource.VolumeOf(tc.total, time.Hour)
				}
				want += p.SpecifiedFlowRatio - tc.paid
				e.parent = tree.Root
				tree.Root.Children = append(tree.Root.Children, e)
				tree.pools, tree.relaxed = append(tree.pools, e), append(tree.relaxed, e)
			}
			tree.Root.Pool.subpools = tree.Root.Children
			tree.pools = append([]*Element{tree.Root}, tree.pools...)
			now := time.Unix(1000, 0)
			tree.updateVolumes(now)
			for range steps {
				now = now.Add(tc.step)
				tree.updateVolumes(now)
			}
			want *= float64(tc.total.CPU) * tc.step.Seconds() * steps
			got, rest := 0.0, 0.0
			for _, e := range tree.pools {
				got += float64(e.Pool.Volume.CPU)
				rest += e.Pool.Rest
			}
			if math.Abs(got-want) > 5 {
				t.Errorf("there are %v hundredths of cpu x seconds, want %v", got, want)
			}
			if math.Abs(got+rest-want) > 1e-3 {
				t.Errorf("with the rest of %v there are %v hundredths, want %v", rest, got+rest, want)
			}
		})
	}
}

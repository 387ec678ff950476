package fairshare

import (
	"math"
	"testing"
	"time"

	"weir/scheduling/resource"
)

// TestDistributionGap: a share that rounding made too small in a resource in which
// all are satisfied holds back the other resources as well, unless the gap is
// closed (F.7.6).
func TestDistributionGap(t *testing.T) {
	for name, tc := range map[string]struct {
		gap   bool
		short float64
		want  float64
	}{
		"exact":                  {false, 0, 0.8},
		"rounding alone":         {false, 1e-13, 0.8},
		"too short":              {false, 5e-10, 0.2},
		"too short, and closed":  {true, 5e-10, 0.8},
		"too short to be closed": {true, 5e-9, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, p := NewOperation("a"), NewOperation("b"), NewPool("p")
			a.Demand, b.Demand = resource.Amounts{Memory: 20}, resource.Amounts{CPU: 100}
			p.Children = []*Element{a, b}
			tree := NewTree(Default())
			tree.Options.VectorFitFactor, tree.Options.DistributionGap = true, tc.gap
			tree.Root.Children = []*Element{p}
			if _, err := tree.Update(resource.Amounts{CPU: 100, Memory: 100}, time.Time{}); err != nil {
				t.Fatal(err)
			}
			tree.assign(p, resource.Vector{0, 0.8, 0, 0.2 - tc.short, 0}, 0, fairShare)
			if got := b.FairShare[resource.CPU]; math.Abs(got-tc.want) > 1e-7 {
				t.Errorf("b has %v, want %v", got, tc.want)
			}
		})
	}
}

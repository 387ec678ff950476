package fairshare_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

func bursts(flow, burst float64) func(*fairshare.Element) {
	return integral(fairshare.Integral{Type: fairshare.Burst, Flow: cores(flow), Burst: cores(burst)})
}

func relaxes(flow float64) func(*fairshare.Element) {
	return integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(flow)})
}

// TestNestedIntegral: of pools with integral guarantees one below the other, each share is
// paid for once: by the one that is further down, as far as its guarantee goes.
func TestNestedIntegral(t *testing.T) {
	total := cores(100)
	inner := func(cpus float64, set ...func(*fairshare.Element)) *fairshare.Element {
		return pool("in", append(set, holding(operation("i", cpus, 0)))...)
	}
	outer := func(child *fairshare.Element, own float64, set ...func(*fairshare.Element)) *fairshare.Element {
		return pool("out", append(set, weight(1e-6), holding(child, operation("o", own, 0)))...)
	}
	cases := map[string]struct {
		outer *fairshare.Element
		// want is what the pools pay for, and what the outer one gets.
		wantOut, wantIn, wantShare float64
	}{
		"burst in burst, the inner is enough":         {outer(inner(10, bursts(5, 10)), 0, bursts(10, 20)), 0, 10, 10},
		"burst in burst, the inner is not enough":     {outer(inner(15, bursts(5, 10)), 0, bursts(10, 20)), 5, 10, 15},
		"burst in burst, both are not enough":         {outer(inner(90, bursts(5, 10)), 0, bursts(10, 20)), 20, 10, 30},
		"burst in burst, beside the inner":            {outer(inner(0, bursts(5, 10)), 12, bursts(10, 20)), 12, 0, 12},
		"burst in burst, both ask":                    {outer(inner(10, bursts(5, 10)), 12, bursts(10, 20)), 12, 10, 22},
		"burst in burst that has a strong guarantee":  {outer(inner(20, bursts(5, 10)), 0, bursts(10, 20), guaranteed(8)), 2, 10, 20},
		"burst in burst, a pool between":              {outer(pool("between", holding(inner(15, bursts(5, 10)))), 0, bursts(10, 20)), 5, 10, 15},
		"relaxed in burst, the inner is enough":       {outer(inner(10, relaxes(5)), 0, bursts(10, 20)), 0, 10, 10},
		"relaxed in burst, the inner is not enough":   {outer(inner(20, relaxes(5)), 0, bursts(10, 20)), 5, 15, 20},
		"relaxed in burst, both are not enough":       {outer(inner(90, relaxes(5)), 0, bursts(10, 20)), 20, 15, 35},
		"relaxed in burst, beside the inner":          {outer(inner(0, relaxes(5)), 12, bursts(10, 20)), 12, 0, 12},
		"burst in relaxed, the inner is enough":       {outer(inner(10, bursts(5, 10)), 0, relaxes(10)), 0, 10, 10},
		"burst in relaxed, the inner is not enough":   {outer(inner(15, bursts(5, 10)), 0, relaxes(10)), 5, 10, 15},
		"relaxed in relaxed, the inner is enough":     {outer(inner(10, relaxes(5)), 0, relaxes(10)), 0, 10, 10},
		"relaxed in relaxed, the inner is not enough": {outer(inner(20, relaxes(5)), 0, relaxes(10)), 5, 15, 20},
		"relaxed in relaxed, both are not enough":     {outer(inner(90, relaxes(5)), 0, relaxes(10)), 30, 15, 45},
	}
	for name, tc := range cases {
		for mode, vector := range map[string]bool{"": false, ", vector mode": true} {
			t.Run(name+mode, func(t *testing.T) {
				tree := tree(tc.outer, pool("hungry", weight(1000), holding(operation("h", 200, 0))))
				tree.Options.VectorFitFactor = vector
				all := byID(tree)
				all["out"].Pool.Volume, all["in"].Pool.Volume = volume(total, 1000), volume(total, 1000)
				update(t, tree, total, begin)
				for what, of := range map[string][2]float64{
					"the outer pool pays for":       {all["out"].Pool.LastShareRatio, tc.wantOut},
					"the inner pool pays for":       {all["in"].Pool.LastShareRatio, tc.wantIn},
					"the outer pool has by volumes": {all["out"].IntegralShare[resource.CPU], tc.wantOut + tc.wantIn},
					"the outer pool gets":           {all["out"].FairShare[resource.CPU], tc.wantShare},
				} {
					if math.Abs(100*of[0]-of[1]) > 1e-3 {
						t.Errorf("%s %v cores, want %v", what, 100*of[0], of[1])
					}
				}
				// What was paid for leaves the volumes, and no more.
				was := all["out"].Pool.Volume.Add(all["in"].Pool.Volume)
				update(t, tree, total, begin.Add(10*time.Second))
				now := all["out"].Pool.Volume.Add(all["in"].Pool.Volume)
				flow := all["out"].Pool.TotalFlowRatio * 1000
				if want := float64(was.CPU)/100 + flow - 10*(tc.wantOut+tc.wantIn); math.Abs(float64(now.CPU)/100-want) > 0.1 {
					t.Errorf("volumes of %v cpu x seconds, want %v", now.CPU, want)
				}
			})
		}
	}
}

// TestNestedSaving: while the inner pool lives on its own flow the outer one saves, up to
// its capacity of an hour. When the inner one wants twice that more, it lasts for an hour.
func TestNestedSaving(t *testing.T) {
	total := cores(100)
	for name, guarantees := range map[string][2]func(*fairshare.Element){
		"burst in burst": {bursts(10, 20), bursts(10, 10)}, "relaxed in burst": {bursts(10, 20), relaxes(10)},
		"burst in relaxed": {relaxes(10), bursts(10, 10)}, "relaxed in relaxed": {relaxes(10), relaxes(10)},
	} {
		t.Run(name, func(t *testing.T) {
			in := pool("in", guarantees[1], holding(operation("i", 10, 0)))
			out := pool("out", guarantees[0], weight(1e-6), holding(in))
			tree := tree(out, pool("hungry", weight(1000), holding(operation("h", 200, 0))))
			tree.Options.CapacityPeriod = time.Hour
			now := begin
			for ; now.Before(begin.Add(4 * time.Hour)); now = now.Add(10 * time.Second) {
				update(t, tree, total, now)
			}
			if saved := out.Pool.Volume.MinRatio(total); math.Abs(saved-360) > 1 {
				t.Errorf("the outer pool has saved %v seconds of the cluster, want 360", saved)
			}
			more := now
			in.Children[0].Demand = cores(30)
			for update(t, tree, total, now); out.FairShare[resource.CPU] > 0.29 && now.Before(more.Add(4*time.Hour)); now = now.Add(10 * time.Second) {
				update(t, tree, total, now)
			}
			if got := now.Sub(more); (got - time.Hour).Abs() > 3*time.Minute {
				t.Errorf("30 cores last for %v, want an hour", got)
			}
		})
	}
}

// TestSharesArePaidForOnce: the volume of a pool pays for no more than what the pool could
// take beyond its strong guarantee and what volumes below it pay for.
func TestSharesArePaidForOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawUpdated(t, drawing{gangs: true, integral: true, oneResource: rapid.Bool().Draw(t, "one resource")})
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool == nil || e.Pool.Integral.Type == fairshare.NoIntegral {
				return
			}
			var below resource.Vector
			for _, c := range e.Children {
				below = below.Add(c.IntegralShare)
			}
			own := e.IntegralShare.Sub(below)
			most := e.LimitedDemandShare.Sub(e.StrongGuaranteeShare).Sub(below).Max(resource.Vector{})
			if !own.Within(most, eps) {
				t.Fatalf("the volume of %s pays for %v; it could take %v, of which %v is guaranteed and %v paid for below",
					e.ID, own, e.LimitedDemandShare, e.StrongGuaranteeShare, below)
			}
		})
	})
}

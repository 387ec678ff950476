package fairshare_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// eps is what sums over a whole tree may be off by.
const eps = 2 * resource.Epsilon

var anything = drawing{gangs: true, integral: true}

// drawUpdated draws a tree with volumes, and updates it a few times.
func drawUpdated(t *rapid.T, d drawing) (*fairshare.Tree, resource.Amounts) {
	total := drawCluster(t)
	tree := d.tree(t, total)
	tree.Options.VectorFitFactor = rapid.Bool().Draw(t, "vector mode")
	tree.Options.FIFOReordering = rapid.Bool().Draw(t, "reordering")
	visit(tree.Root, func(e *fairshare.Element) {
		if e.Pool != nil {
			e.Pool.Volume = resource.VolumeOf(total, 100*time.Second)
			e.Pool.FIFOReordering = rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(t, e.ID+" reorders")
		}
	})
	now := begin
	for range rapid.IntRange(1, 3).Draw(t, "updates") {
		update(t, tree, total, now)
		now = now.Add(time.Second)
	}
	return tree, total
}

// TestSharesAreWithin: no share is negative, above limits, demand or what there is,
// and children get no more than their pool.
func TestSharesAreWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawUpdated(t, anything)
		visit(tree.Root, func(e *fairshare.Element) {
			for what, bound := range map[string]resource.Vector{
				"limits": e.LimitsShare, "demand": e.DemandShare, "limited demand": e.LimitedDemandShare, "the cluster": resource.Ones,
			} {
				if !e.FairShare.Within(bound, eps) {
					t.Fatalf("%s has %v: more than %s, %v", e.ID, e.FairShare, what, bound)
				}
			}
			if slices.Min(e.FairShare[:]) < 0 {
				t.Fatalf("%s has %v", e.ID, e.FairShare)
			}
			var sum resource.Vector
			for _, c := range e.Children {
				sum = sum.Add(c.FairShare)
			}
			if e.Pool != nil && !sum.Within(e.FairShare, eps) {
				t.Fatalf("the children of %s have %v of its %v", e.ID, sum, e.FairShare)
			}
		})
	})
}

// TestPartsAddUp: a share is what guarantee, volume and weight give, and no part is
// more than its right.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawUpdated(t, anything)
		visit(tree.Root, func(e *fairshare.Element) {
			p := e.Parts()
			if sum := p.Strong.Add(p.Integral).Add(p.Proportional); !sum.Near(p.Total, 1e-12) || p.Total != e.FairShare {
				t.Fatalf("%s: the parts of %v make %v", e.ID, p.Total, sum)
			}
			if !p.Strong.Within(e.StrongGuaranteeShare, eps) || !p.Integral.Within(e.IntegralShare, eps) {
				t.Fatalf("%s: %+v are above guarantees %v and %v", e.ID, p, e.StrongGuaranteeShare, e.IntegralShare)
			}
			if slices.Min(p.Proportional[:]) < 0 || slices.Min(p.Integral[:]) < 0 || slices.Min(p.Strong[:]) < 0 {
				t.Fatalf("%s: negative parts: %+v", e.ID, p)
			}
			if e.Pool == nil && p.Proportional != p.Total {
				t.Fatalf("operation %s has a guarantee: %+v", e.ID, p)
			}
		})
	})
}

// TestNothingIsLeft: with one resource and without gangs no function jumps, so the
// cluster is used up or all demand within limits is satisfied; and pools pass on
// all that they get (F.7.5).
func TestNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := drawing{integral: true, oneResource: true}.tree(t, total)
		for _, e := range collect(tree.Root) {
			e.Weight = max(e.Weight, 0.1)
		}
		update(t, tree, total, begin)
		if got, want := tree.Root.FairShare[resource.CPU], wanted(tree.Root); got < want-eps {
			t.Fatalf("%v is shared of %v that is wanted", got, want)
		}
		visit(tree.Root, func(e *fairshare.Element) {
			var sum resource.Vector
			for _, c := range e.Children {
				sum = sum.Add(c.FairShare)
			}
			if e.Pool != nil && !sum.Near(e.FairShare, eps) {
				t.Fatalf("%s has %v, its children %v", e.ID, e.FairShare, sum)
			}
		})
	})
}

// wanted is the cpu that e would take of an empty cluster.
func wanted(e *fairshare.Element) float64 {
	sum := e.DemandShare[resource.CPU]
	if e.Pool != nil {
		sum = 0
		for _, c := range e.Children {
			sum += wanted(c)
		}
	}
	return min(sum, e.LimitsShare[resource.CPU])
}

// TestNoOneCouldHaveMore: where all demand the resources in the same proportion,
// that of the cluster, nothing jumps either: the cluster is full, or every element
// with weight has all that it could take (F.7.5).
func TestNoOneCouldHaveMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := drawing{}.tree(t, total)
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool == nil {
				e.Usage = resource.Amounts{}
				e.Demand = total.Scale(rapid.Float64Range(0, 2).Draw(t, e.ID+" demands of all"))
			}
			e.Limits, e.Weight = resource.Infinite, max(e.Weight, 1)
		})
		update(t, tree, total, begin)
		visit(tree.Root, func(e *fairshare.Element) {
			full := tree.Root.FairShare.MaxComponent() >= 1-resource.LargeEpsilon
			if !full && !e.FairShare.Near(e.LimitedDemandShare, resource.LargeEpsilon) {
				t.Fatalf("%s has %v of the %v that it could take, and the cluster is not full: %v",
					e.ID, e.FairShare, e.LimitedDemandShare, tree.Root.FairShare)
			}
		})
	})
}

// TestGuaranteeAlone: every element gets at least what the guarantees of a pool
// above it give when nothing else is left (suggestion 0, F.5.6).
func TestGuaranteeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := anything.tree(t, total)
		for _, e := range tree.Root.Children {
			if e.Pool != nil {
				e.Pool.ComputePromised = true
			}
		}
		update(t, tree, total, begin)
		visit(tree.Root, func(e *fairshare.Element) {
			if !e.PromisedFairShare.Within(e.FairShare, eps) {
				t.Fatalf("%s has %v, its guarantees alone give %v", e.ID, e.FairShare, e.PromisedFairShare)
			}
		})
	})
}

// TestStrongGuaranteeHolds: with one resource and no gangs, pools whose guarantees
// fit get what they demand of them.
func TestStrongGuaranteeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawUpdated(t, drawing{oneResource: true})
		fits := tree.Root.StrongGuaranteeShare[resource.CPU] <= 1
		visit(tree.Root, func(e *fairshare.Element) {
			want := min(e.StrongGuaranteeShare[resource.CPU], e.LimitedDemandShare[resource.CPU])
			if fits && e != tree.Root && e.FairShare[resource.CPU] < want-eps {
				t.Fatalf("%s has %v of its guarantee %v", e.ID, e.FairShare[resource.CPU], want)
			}
		})
	})
}

// TestGuaranteesFit: after adjustment guarantees are within limits and within that
// of the pool above.
func TestGuaranteesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := anything.tree(t, total)
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool != nil {
				e.Pool.PriorityAdjustment = rapid.Bool().Draw(t, e.ID+" has priority")
				e.Pool.PriorityDonor = rapid.Bool().Draw(t, e.ID+" is a donor")
			}
		})
		update(t, tree, total, begin)
		visit(tree.Root, func(e *fairshare.Element) {
			var strong, estimated resource.Vector
			weights := 0.0
			for _, c := range e.Children {
				strong = strong.Add(c.StrongGuaranteeShare)
				estimated = estimated.Add(c.EstimatedGuaranteeShare)
				weights += c.Weight
			}
			switch {
			case !e.StrongGuaranteeShare.Within(e.LimitsShare, 0):
				t.Fatalf("%s: guarantee %v is above limits %v", e.ID, e.StrongGuaranteeShare, e.LimitsShare)
			case e.Pool != nil && !strong.Within(e.StrongGuaranteeShare, 1e-12):
				t.Fatalf("%s: guarantees of children %v are above its own %v", e.ID, strong, e.StrongGuaranteeShare)
			case weights > 0 && !estimated.Near(e.EstimatedGuaranteeShare, 1e-12):
				t.Fatalf("%s: estimates of children %v do not make its own %v", e.ID, estimated, e.EstimatedGuaranteeShare)
			}
		})
	})
}

// TestOrderDoesNotMatter: equal trees give equal shares, to the bit, in whatever
// order they were put together, and whatever the memory was used for before.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, total := drawUpdated(t, anything)
		want := map[string]fairshare.Parts{}
		now := begin.Add(time.Minute)
		volumes := map[string]resource.Volume{}
		rests, ratios := map[string]float64{}, map[string]float64{}
		updated := tree.Updated
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool != nil {
				volumes[e.ID], rests[e.ID], ratios[e.ID] = e.Pool.Volume, e.Pool.Rest, e.Pool.LastShareRatio
			}
		})
		update(t, tree, total, now)
		visit(tree.Root, func(e *fairshare.Element) { want[e.ID] = e.Parts() })

		again := fairshare.NewTree(tree.Options)
		again.Root, again.Updated = tree.Root, updated
		visit(tree.Root, func(e *fairshare.Element) {
			if len(e.Children) > 1 {
				e.Children = rapid.Permutation(e.Children).Draw(t, "order in "+e.ID)
			}
			if e.Pool != nil {
				e.Pool.Volume, e.Pool.Rest, e.Pool.LastShareRatio = volumes[e.ID], rests[e.ID], ratios[e.ID]
			}
		})
		update(t, again, total, now)
		visit(again.Root, func(e *fairshare.Element) {
			if e.Parts() != want[e.ID] {
				t.Fatalf("%s: %v, in another order %v", e.ID, want[e.ID], e.Parts())
			}
		})
	})
}

// TestVolumesAreWithin: a volume is never negative, and never above the capacity
// unless it was before.
func TestVolumesAreWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := anything.tree(t, total)
		tree.Options.CapacityPeriod = time.Minute
		tree.Options.SmoothPeriod = 10 * time.Second
		tree.Options.DistributesFreeVolume = true
		pools := slices.DeleteFunc(collect(tree.Root), func(e *fairshare.Element) bool { return e.Pool == nil })
		now := begin
		update(t, tree, total, now)
		for _, e := range pools {
			e.Pool.Volume = e.Pool.Capacity.Scale(rapid.SampledFrom([]float64{0, 0.5, 0.99, 1, 1.5}).Draw(t, e.ID+" is full"))
		}
		for range rapid.IntRange(1, 8).Draw(t, "updates") {
			old := map[string]resource.Volume{}
			for _, e := range pools {
				old[e.ID] = e.Pool.Volume
			}
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{-1e9, 0, 1e9, 1e10, 1e11}).Draw(t, "passed")))
			update(t, tree, total, now)
			for _, e := range pools {
				checkVolume(t, e, old[e.ID])
			}
		}
	})
}

func checkVolume(t *rapid.T, e *fairshare.Element, old resource.Volume) {
	v, upper := e.Pool.Volume, old.Max(e.Pool.Capacity)
	for k := range resource.Kind(resource.Count) {
		// Cpu is rounded to hundredths.
		if v.Of(k) < 0 || v.Of(k) > upper.Of(k)*(1+1e-9)+0.02 {
			t.Fatalf("%s: volume %+v, was %+v of %+v", e.ID, v, old, e.Pool.Capacity)
		}
	}
	if r := e.Pool.LastShareRatio; !(r >= 0 && r <= 1+eps) {
		t.Fatalf("%s was granted %v", e.ID, r)
	}
}

// TestBurstIsCapped: what a burst pool gets by volume is within its burst ratio,
// and a relaxed one within its flow times the multiplier (G3).
func TestBurstIsCapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := drawUpdated(t, anything)
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool == nil {
				return
			}
			most := 0.0
			switch e.Pool.Integral.Type {
			case fairshare.Burst:
				most = e.Pool.BurstRatio
			case fairshare.Relaxed:
				most = 3 * e.Pool.SpecifiedFlowRatio
			case fairshare.NoIntegral:
			}
			if e.Pool.LastShareRatio > most+eps {
				t.Fatalf("%s was granted %v of at most %v", e.ID, e.Pool.LastShareRatio, most)
			}
		})
	})
}

func collect(e *fairshare.Element) []*fairshare.Element {
	var all []*fairshare.Element
	visit(e, func(e *fairshare.Element) { all = append(all, e) })
	return all
}

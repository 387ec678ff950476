package fairshare_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// reference finds fair shares without functions, by bisection in bisection (F.7.9):
// slow and plain. It believes limits, guarantees and demands of elements.
type reference struct {
	step bool
	// leeway is how many times what is added up is off by does not count.
	leeway float64
}

// byFit is the share at a fit factor (F.7.2 to F.7.4).
func (ref reference) byFit(e, parent *fairshare.Element, fit float64) resource.Vector {
	switch {
	case e.Pool == nil:
		return ref.operationByFit(e, parent, fit)
	case e.Pool.Mode == fairshare.FIFO:
		var sum resource.Vector
		for i, c := range e.Children {
			sum = sum.Add(ref.bySuggestion(c, e, min(max(fit-float64(i), 0), 1)))
		}
		return sum
	default:
		var sum resource.Vector
		for _, c := range e.Children {
			sum = sum.Add(ref.bySuggestion(c, e, ref.suggestion(e, c, fit)))
		}
		return sum
	}
}

func (ref reference) suggestion(e, c *fairshare.Element, fit float64) float64 {
	least := math.Inf(1)
	for _, c := range e.Children {
		if c.Weight > resource.Epsilon {
			least = min(least, c.Weight)
		}
	}
	return min(1, fit*c.Weight/least)
}

func (ref reference) operationByFit(e, parent *fairshare.Element, fit float64) resource.Vector {
	if e.Gang && ref.step && parent.Pool.GangStep {
		if fit > 1 {
			return e.DemandShare
		}
		return resource.Vector{}
	}
	if fit <= 1 {
		return e.UsageShare.Min(resource.Uniform(fit * e.UsageShare.MaxComponent()))
	}
	return e.UsageShare.Scale(2 - fit).Add(e.DemandShare.Scale(fit - 1))
}

// maxFit is the greatest fit factor at which no resource exceeds its guarantee by
// more than s, nor its limit (F.7.5).
func (ref reference) maxFit(e, parent *fairshare.Element, s float64) float64 {
	high := 1.0
	switch {
	case e.Pool == nil:
		high = 2
	case e.Pool.Mode == fairshare.FIFO:
		high = float64(len(e.Children))
	}
	first, last := ref.byFit(e, parent, 0), ref.byFit(e, parent, high)
	// Rounding must not count as excess, and at suggestion 1 a jump is not taken: both
	// by less than what is added up is off by.
	slack := 1e-13
	switch {
	case e.Pool == nil:
		slack = 1e-15
	case parent == nil:
		slack = 1e-11
	}
	slack *= ref.leeway
	s = min(s, 1-2*slack)
	var bound resource.Vector
	guarantee := e.GuaranteeShare()
	for r := range bound {
		limit := min(max(e.LimitsShare[r], first[r]), last[r])
		bound[r] = min(limit, min(max(guarantee[r], first[r]), limit)+s)
	}
	for r := range bound {
		if e.Pool == nil {
			// In proportion: an operation must not creep on by more of its other resources,
			// which are many times as many, than its pool takes for rounding.
			bound[r] += slack * bound[r]
		} else {
			bound[r] += slack
		}
	}
	if bound.Dominates(last) {
		return high
	}
	low := 0.0
	for range 80 {
		middle := (low + high) / 2
		if bound.Dominates(ref.byFit(e, parent, middle)) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func (ref reference) bySuggestion(e, parent *fairshare.Element, s float64) resource.Vector {
	return ref.byFit(e, parent, ref.maxFit(e, parent, s))
}

// assign returns the share of every element at the suggestion for e.
func (ref reference) assign(into map[string]resource.Vector, e, parent *fairshare.Element, s float64) {
	fit := ref.maxFit(e, parent, s)
	into[e.ID] = ref.byFit(e, parent, fit)
	for i, c := range e.Children {
		if e.Pool.Mode == fairshare.FIFO {
			ref.assign(into, c, e, min(max(fit-float64(i), 0), 1))
		} else {
			ref.assign(into, c, e, ref.suggestion(e, c, fit))
		}
	}
}

// TestReference compares both modes with the plain implementation on small trees.
// Without gangs children jump at one suggestion by chance only, and the modes
// agree.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		vector := rapid.Bool().Draw(t, "vector mode")
		d := drawing{gangs: true, integral: true}
		tree := fairshare.NewTree(fairshare.Default())
		tree.Options.GangStep = rapid.Bool().Draw(t, "gang step")
		tree.Options.VectorFitFactor = vector
		// The root stands for any pool that has pools below it.
		tree.Root.Pool.Mode = fairshare.Mode(rapid.IntRange(0, 1).Draw(t, "mode of the root"))
		d.fill(t, tree.Root, total, 1)
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool != nil {
				e.Pool.Volume = resource.VolumeOf(total, 1e9)
			}
		})
		update(t, tree, total, begin)
		want := map[string]resource.Vector{}
		reference{tree.Options.GangStep, 1}.assign(want, tree.Root, nil, 1)
		var loose map[string]resource.Vector
		visit(tree.Root, func(e *fairshare.Element) {
			if e.FairShare.Near(want[e.ID], 1e-8) {
				return
			}
			// Who has next to nothing of what has run out goes far for what rounding leaves:
			// as far again, and more, with some times as much.
			if loose == nil {
				loose = map[string]resource.Vector{}
				reference{tree.Options.GangStep, 4}.assign(loose, tree.Root, nil, 1)
			}
			for r, share := range e.FairShare {
				if off := math.Abs(share - want[e.ID][r]); off > 1e-8+math.Abs(loose[e.ID][r]-want[e.ID][r]) {
					t.Fatalf("%s: got %v, want %v; with more leeway %v", e.ID, e.FairShare, want[e.ID], loose[e.ID])
				}
			}
		})
	})
}

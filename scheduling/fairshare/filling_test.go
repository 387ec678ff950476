package fairshare_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// filling is the rule of the package comment carried out literally: in each step
// it finds who grows how fast, lets all grow until the first of them or the first
// resource has to stop, and looks again. Slow, and with nothing to get wrong.
type filling struct {
	level     map[*fairshare.Element]float64
	exhausted [resource.Count]bool
}

// growth returns how the share of e grows per unit of its own level, and the
// growth of the levels of all operations below per unit of e's.
func (f *filling) growth(e *fairshare.Element) (slope resource.Vector, rates map[*fairshare.Element]float64) {
	demand := e.DemandShare.MaxComponent()
	if e.Operation {
		for r, gone := range f.exhausted {
			if gone && e.DemandShare[r] > 0 {
				return slope, nil
			}
		}
		if f.level[e] >= demand {
			return slope, nil
		}
		return e.DemandShare.Scale(1 / demand), map[*fairshare.Element]float64{e: 1}
	}
	rates = map[*fairshare.Element]float64{}
	for _, c := range e.Children {
		if c.Weight < resource.Epsilon {
			continue
		}
		s, below := f.growth(c)
		slope = slope.Add(s.Scale(c.Weight))
		for op, rate := range below {
			rates[op] = rate * c.Weight
		}
	}
	fastest := slope.MaxComponent()
	if fastest == 0 {
		return resource.Vector{}, nil
	}
	for op := range rates {
		rates[op] /= fastest
	}
	return slope.Scale(1 / fastest), rates
}

func (f *filling) run(root *fairshare.Element) {
	free := resource.Ones
	for {
		slope, rates := f.growth(root)
		if len(rates) == 0 {
			return
		}
		step := math.Inf(1)
		for op, rate := range rates {
			step = min(step, (op.DemandShare.MaxComponent()-f.level[op])/rate)
		}
		stops := -1
		for r := range free {
			if slope[r] > 0 && free[r]/slope[r] < step {
				step, stops = free[r]/slope[r], r
			}
		}
		for op, rate := range rates {
			demand := op.DemandShare.MaxComponent()
			if f.level[op] += rate * step; f.level[op] > demand*(1-1e-12) {
				f.level[op] = demand
			}
		}
		free = free.Sub(slope.Scale(step))
		if stops >= 0 {
			f.exhausted[stops] = true
		}
	}
}

func TestUpdateIsProgressiveFilling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := drawTree(t, 3, "root")
		update(t, root, small)
		f := filling{level: map[*fairshare.Element]float64{}}
		f.run(root)
		visit(root, func(e *fairshare.Element) {
			if !e.Operation || e.DemandShare.IsZero() {
				return
			}
			want := e.DemandShare.Scale(f.level[e] / e.DemandShare.MaxComponent())
			if !e.FairShare.Near(want, resource.Epsilon*max(1, want.MaxComponent())) {
				t.Fatalf("%s has %v, filling step by step gives %v", e.ID, e.FairShare, want)
			}
		})
	})
}

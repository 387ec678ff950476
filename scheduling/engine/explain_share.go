package engine

import (
	"fmt"
	"slices"

	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// ShareExplanation says what a fair share is made of, as parts of all of one resource:
// that of which it is greatest.
type ShareExplanation struct {
	Resource                    string
	Fair, Usage, Demand, Limits float64
	// Strong and Integral are by guarantee, Proportional by weight.
	Strong, Integral, Proportional float64
	// Bound is what keeps it from being more: the code of a fact.
	Bound string
	// Weight is the element's own, Weights that of all siblings that could use more, its
	// own included.
	Weight, Weights float64
}

// level is an element on the way to the root.
type level struct {
	share *fairshare.Element
	name  string
	fact  Fact
	above *pool
}

func (s starver) level() level {
	if s.pool != nil {
		return level{share: s.pool.share, name: "pool " + quote(s.pool.name), above: s.pool.parent, fact: Fact{Pool: s.pool.name}}
	}
	op := s.operation
	return level{share: op.share, name: "the operation", above: op.pool, fact: Fact{Operation: op.ID}}
}

// fifo is the place in a FIFO pool, from 1; 0: the pool above is none.
func (l level) fifo() int {
	if l.above == nil || l.above.effective.Mode != pooltree.FIFO {
		return 0
	}
	return int(rank(l.share)) + 1
}

// explainShare adds the facts that a fair share follows from, and those of the pools
// above as far as they bind.
func (iq *inquiries) explainShare(x *Explanation, of starver) ShareExplanation {
	l := of.level()
	k := greatest(l.share)
	s := l.share
	parts := s.Parts()
	out := ShareExplanation{
		Resource: k.String(), Fair: s.FairShare[k], Demand: s.DemandShare[k], Usage: s.UsageShare[k], Limits: s.LimitsShare[k],
		Strong: parts.Strong[k], Integral: parts.Integral[k], Proportional: parts.Proportional[k], Weight: s.Weight,
	}
	for _, sibling := range l.above.elements() {
		if wantsMore(sibling, k) || sibling == s {
			out.Weights += sibling.Weight
		}
	}
	fair := l.fact
	fair.Code, fair.Resource, fair.Value, fair.Bound = FactShare, k.String(), out.Fair, out.Demand
	fair.Text = fmt.Sprintf("the fair share of %s is %s of all %s; it uses %s and could use %s", l.name, percent(out.Fair), k, percent(out.Usage), percent(out.Demand))
	x.Facts = append(x.Facts, fair)
	for _, part := range []struct {
		code string
		of   float64
		text string
	}{
		{FactShareStrong, out.Strong, "%s of it is guaranteed (strong_guarantee_resources)"},
		{FactShareIntegral, out.Integral, "%s of it comes from its integral guarantee"},
		{FactShareWeight, out.Proportional, "%s of it comes by weight, out of what guarantees leave"},
	} {
		if part.of > resource.Epsilon && out.Strong+out.Integral > resource.Epsilon {
			f := l.fact
			f.Code, f.Resource, f.Value = part.code, k.String(), part.of
			f.Text = fmt.Sprintf(part.text, percent(part.of))
			x.Facts = append(x.Facts, f)
		}
	}
	// What binds one that gets its part of the pool above is what binds that.
	for {
		bound := iq.boundOf(l, k)
		if bound.Text != "" {
			if out.Bound == "" {
				out.Bound = bound.Code
			}
			x.Facts = append(x.Facts, bound)
		}
		if l.above == nil || l.above.parent == nil || bound.Code != FactBoundWeight && bound.Code != FactBoundFIFO {
			return out
		}
		l = starver{pool: l.above}.level()
	}
}

// elements are the shares of all that is right below a pool; none of no pool.
func (p *pool) elements() []*fairshare.Element {
	if p == nil {
		return nil
	}
	return p.share.Children
}

// boundOf says what keeps the fair share of an element from being more.
func (iq *inquiries) boundOf(l level, k resource.Kind) Fact {
	s, f := l.share, l.fact
	f.Resource, f.Value = k.String(), s.FairShare[k]
	switch {
	case s.DemandShare[k] <= s.FairShare[k]+resource.LargeEpsilon:
		f.Code, f.Bound = FactBoundDemand, s.DemandShare[k]
		f.Text = fmt.Sprintf("%s has all that it could use: its demand is %s", l.name, percent(s.DemandShare[k]))
	case s.FairShare[k] >= 1-resource.LargeEpsilon:
		f.Code, f.Bound = FactBoundLimit, 1
		f.Text = fmt.Sprintf("%s has all %s of the tree as its fair share", l.name, k)
	case len(s.Children) == 0 && packed(s, k):
		f.Code, f.Bound = FactBoundNodes, s.BestAllocation[k]
		f.Text = fmt.Sprintf("no more jobs of %s would fit on the nodes than those that make up %s, even if it had all nodes", l.name, percent(s.BestAllocation[k]))
	case s.LimitsShare[k] <= s.FairShare[k]+resource.LargeEpsilon:
		f.Code, f.Bound = FactBoundLimit, s.LimitsShare[k]
		f.Text = fmt.Sprintf("%s may have no more than %s: by its resource_limits, its max_share_ratio, or the nodes of its filter", l.name, percent(s.LimitsShare[k]))
	case len(s.Children) > 0 && content(s, k):
		f.Code = FactBoundBelow
		f.Text = fmt.Sprintf("nothing below %s can have more: by its limits, or for no more jobs fit on the nodes", l.name)
	case l.above == nil:
		return Fact{}
	case l.fifo() == 1:
		// It is first: what binds the pool binds it.
		return Fact{Code: FactBoundFIFO}
	case l.fifo() > 1:
		f.Code, f.Count, f.Pool = FactBoundFIFO, int64(l.fifo()), l.above.name
		f.Text = fmt.Sprintf("%s is the %s in FIFO pool %q: those before it get all that they can use first", l.name, ordinal(l.fifo()), l.above.name)
	case s.Parts().Proportional[k] <= resource.Epsilon && s.FairShare[k] > resource.Epsilon:
		f.Code, f.Bound, f.Pool = FactBoundGuarantee, s.StrongGuaranteeShare[k], l.above.name
		f.Text = fmt.Sprintf("%s has what it is guaranteed and no more: guarantees leave nothing in pool %q to be shared by weight", l.name, l.above.name)
	default:
		var weights float64
		n := 0
		for _, sibling := range l.above.elements() {
			if wantsMore(sibling, k) || sibling == s {
				weights += sibling.Weight
				n++
			}
		}
		if n == 1 && s.Weight > 0 {
			// Nobody shares with it: what binds the pool binds it.
			return Fact{Code: FactBoundWeight}
		}
		f.Code, f.Pool, f.Bound, f.Count = FactBoundWeight, l.above.name, l.above.share.FairShare[k], int64(n)
		f.Text = fmt.Sprintf("%s has weight %.4g of %.4g in pool %q, which has %s for all below it: %d there could use more", l.name, s.Weight, weights, l.above.name, percent(l.above.share.FairShare[k]), n)
	}
	return f
}

// packed reports whether the fair share of an operation is all that its jobs can make up
// on the nodes.
func packed(s *fairshare.Element, k resource.Kind) bool {
	return s.BestAllocation[k] <= s.FairShare[k]+resource.LargeEpsilon && s.BestAllocation[k] < 1
}

// content reports whether an element has all that it, or what is below it, could use and
// may have.
func content(s *fairshare.Element, k resource.Kind) bool {
	if min(s.DemandShare[k], s.LimitsShare[k]) <= s.FairShare[k]+resource.LargeEpsilon {
		return true
	}
	return len(s.Children) > 0 && !slices.ContainsFunc(s.Children, func(c *fairshare.Element) bool { return !content(c, k) })
}

// wantsMore reports whether an element could use more than its fair share.
func wantsMore(s *fairshare.Element, k resource.Kind) bool {
	return s.DemandShare[k] > s.FairShare[k]+resource.LargeEpsilon
}

// greatest is the resource that the fair share is greatest in, or else the demand.
func greatest(s *fairshare.Element) resource.Kind {
	of := s.FairShare
	if of.IsZero() {
		of = s.DemandShare
	}
	return of.MaxKind(resource.CPU)
}

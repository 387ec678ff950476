package explain

import (
	"fmt"
	"slices"

	"weir/scheduling"
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// ShareExplanation says what a fair share is made of, as parts of the cluster, for one resource:
// the one in which the fair share is greatest.
type ShareExplanation struct {
	Resource                    string
	Fair, Usage, Demand, Limits float64
	// Strong and Integral are the parts that come from guarantees. Proportional is the part that
	// comes by weight.
	Strong, Integral, Proportional float64
	// Bound is the code of the fact that says what keeps the fair share from being more.
	Bound string
	// Weight is the element's own weight. Weights is the sum of the weights of the element and of all
	// siblings that could use more.
	Weight, Weights float64
}

// Level is a pool or an operation on the way to the root. Pool or Operation has its name.
type Level struct {
	Share     *fairshare.Element
	Pool      scheduling.PoolName
	Operation scheduling.OperationID
	// FIFO is the place in a FIFO pool, from 1. It is 0 if the pool above is not a FIFO pool.
	FIFO int
	// Above is nil for the root.
	Above *Level
}

func (l *Level) name() string {
	if l.Operation != "" {
		return "the operation"
	}
	return PoolTitle(l.Pool)
}

// rivals returns the total weight and the number of the siblings that could use more, including
// the element itself.
func (l *Level) rivals(k resource.Kind) (weights float64, n int) {
	if l.Above == nil {
		return 0, 0
	}
	for _, sibling := range l.Above.Share.Children {
		if wantsMore(sibling, k) || sibling == l.Share {
			weights += sibling.Weight
			n++
		}
	}
	return weights, n
}

func (l *Level) fact() Fact { return Fact{Pool: l.Pool, Operation: l.Operation} }

// Share says what a fair share is made of. The result facts has the reasons, including those of the
// pools above that limit it.
func Share(l *Level) (out ShareExplanation, facts []Fact) {
	s := l.Share
	k := Greatest(s)
	parts := s.Parts()
	out = ShareExplanation{
		Resource: k.String(), Fair: s.FairShare[k], Demand: s.DemandShare[k], Usage: s.UsageShare[k], Limits: s.LimitsShare[k],
		Strong: parts.Strong[k], Integral: parts.Integral[k], Proportional: parts.Proportional[k], Weight: s.Weight,
	}
	out.Weights, _ = l.rivals(k)
	fair := l.fact()
	fair.Code, fair.Resource, fair.Value, fair.Bound = FactShare, k.String(), out.Fair, out.Demand
	fair.Text = fmt.Sprintf("the fair share of %s is %s of all %s; it uses %s and could use %s", l.name(), percent(out.Fair), k, percent(out.Usage), percent(out.Demand))
	facts = append(facts, fair)
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
			f := l.fact()
			f.Code, f.Resource, f.Value = part.code, k.String(), part.of
			f.Text = fmt.Sprintf(part.text, percent(part.of))
			facts = append(facts, f)
		}
	}
	// If an element gets its part of the pool above, what limits the pool limits the element too.
	for {
		bound := l.bound(k)
		if bound.Text != "" {
			if out.Bound == "" {
				out.Bound = bound.Code
			}
			facts = append(facts, bound)
		}
		if l.Above == nil || l.Above.Above == nil || bound.Code != FactBoundWeight && bound.Code != FactBoundFIFO {
			return out, facts
		}
		l = l.Above
	}
}

// bound says what keeps the fair share of an element from being more.
func (l *Level) bound(k resource.Kind) Fact {
	s, f := l.Share, l.fact()
	f.Resource, f.Value = k.String(), s.FairShare[k]
	switch {
	case s.DemandShare[k] <= s.FairShare[k]+resource.LargeEpsilon:
		f.Code, f.Bound = FactBoundDemand, s.DemandShare[k]
		f.Text = fmt.Sprintf("%s has all that it could use: its demand is %s", l.name(), percent(s.DemandShare[k]))
	case s.FairShare[k] >= 1-resource.LargeEpsilon:
		f.Code, f.Bound = FactBoundLimit, 1
		f.Text = fmt.Sprintf("%s has all %s of the tree as its fair share", l.name(), k)
	case len(s.Children) == 0 && Packed(s, k):
		f.Code, f.Bound = FactBoundNodes, s.BestAllocation[k]
		f.Text = fmt.Sprintf("the jobs of %s that fit on the nodes make up at most %s, even if it had all nodes", l.name(), percent(s.BestAllocation[k]))
	case s.LimitsShare[k] <= s.FairShare[k]+resource.LargeEpsilon:
		f.Code, f.Bound = FactBoundLimit, s.LimitsShare[k]
		f.Text = fmt.Sprintf("%s is limited to %s by its resource_limits, its max_share_ratio, or the nodes that its filter selects", l.name(), percent(s.LimitsShare[k]))
	case len(s.Children) > 0 && content(s, k):
		f.Code = FactBoundBelow
		f.Text = fmt.Sprintf("no element below %s can have more: limits are reached, or no more jobs fit on the nodes", l.name())
	case l.Above == nil:
		return Fact{}
	case l.FIFO == 1:
		// The element is first, so what limits the pool limits the element too.
		return Fact{Code: FactBoundFIFO}
	case l.FIFO > 1:
		f.Code, f.Count, f.Pool = FactBoundFIFO, int64(l.FIFO), l.Above.Pool
		f.Text = fmt.Sprintf("%s is the %s in FIFO pool %q: those ahead of it first get all that they can use", l.name(), ordinal(l.FIFO), l.Above.Pool)
	case s.Parts().Proportional[k] <= resource.Epsilon && s.FairShare[k] > resource.Epsilon:
		f.Code, f.Bound, f.Pool = FactBoundGuarantee, s.StrongGuaranteeShare[k], l.Above.Pool
		f.Text = fmt.Sprintf("%s has what it is guaranteed and no more: guarantees leave nothing in pool %q to be shared by weight", l.name(), l.Above.Pool)
	default:
		weights, n := l.rivals(k)
		if n == 1 && s.Weight > 0 {
			// The element shares with no sibling, so what limits the pool limits the element too.
			return Fact{Code: FactBoundWeight}
		}
		f.Code, f.Pool, f.Bound, f.Count = FactBoundWeight, l.Above.Pool, l.Above.Share.FairShare[k], int64(n)
		f.Text = fmt.Sprintf("%s has weight %.4g of %.4g in pool %q, which has %s for all below it: %d of these could use more", l.name(), s.Weight, weights, l.Above.Pool, percent(l.Above.Share.FairShare[k]), n)
	}
	return f
}

// Packed reports whether the fair share of an operation is as much as its jobs can use on the nodes.
func Packed(s *fairshare.Element, k resource.Kind) bool {
	return s.BestAllocation[k] <= s.FairShare[k]+resource.LargeEpsilon && s.BestAllocation[k] < 1
}

// content reports whether an element, or everything below it, has as much as its demand and its
// limits allow.
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

// Greatest returns the resource in which the fair share is greatest or, without a fair share, the
// demand.
func Greatest(s *fairshare.Element) resource.Kind {
	of := s.FairShare
	if of.IsZero() {
		of = s.DemandShare
	}
	return of.MaxKind(resource.CPU)
}

// Ahead describes the operations that come before a given one in its FIFO pool. Running is the number
// of their running jobs. Waiting is how many of them have jobs to start. First is the first operation
// with jobs to start. Jobs is the number of all their jobs to start.
type Ahead struct {
	Jobs             int64
	Waiting, Running int
	First            scheduling.OperationID
}

// Behind says why freed resources do not go to an operation with this status: it comes after
// others in a FIFO pool, or has no fair share. Nil means that they may go to it.
func Behind(l *Level, k resource.Kind, status preemption.Status, ahead func() Ahead) *Fact {
	switch {
	case status == preemption.BelowFairShare:
		return nil
	case l.FIFO > 1 && l.bound(k).Code == FactBoundFIFO:
		return l.behindOthers(ahead())
	case l.Share.FairShare.MaxComponent() > resource.Epsilon:
		return nil
	}
	return l.shareless(k)
}

// behindOthers describes the jobs that operations before this one in its FIFO pool still have to
// start.
func (l *Level) behindOthers(b Ahead) *Fact {
	f := Fact{Code: FactFIFO, Pool: l.Above.Pool, Operation: b.First, Count: b.Jobs, Of: int64(l.FIFO - 1)}
	f.Text = fmt.Sprintf("%s in FIFO order of pool %q", ordinal(l.FIFO), f.Pool)
	switch {
	case b.First == "":
		f.Text += fmt.Sprintf(": those before it have %s %s and no more jobs to start", grouped(int64(b.Running)), plural(b.Running, "running job", "running jobs"))
	case b.Waiting == 1:
		f.Text += fmt.Sprintf(": %s %s of operation %s %s before it", grouped(f.Count), plural(f.Count, "job", "jobs"), b.First, plural(f.Count, "is", "are"))
	default:
		f.Text += fmt.Sprintf(": %s jobs of %d operations are before it, first those of operation %s", grouped(f.Count), b.Waiting, b.First)
	}
	return &f
}

// shareless says why an operation has no fair share.
func (l *Level) shareless(k resource.Kind) *Fact {
	f := &Fact{Code: FactNoShare}
	if l.Share.DemandShare.IsZero() {
		f.Text = "it has no fair share yet: the next update computes it from its jobs"
		return f
	}
	const leftovers = "it gets only what all others leave"
	for ; l.Above != nil; l = l.Above {
		f.Pool = l.Pool
		switch s := l.Share; {
		case s.Weight == 0:
			f.Setting, f.Text = "weight", fmt.Sprintf("it has no fair share: %s has weight 0, so %s", l.name(), leftovers)
			return f
		case s.LimitsShare[k] <= resource.Epsilon:
			f.Setting, f.Text = "resource_limits", fmt.Sprintf("it has no fair share: the resource_limits, max_share_ratio or node filter of %s leaves it no %s", l.name(), k)
			return f
		case l.FIFO > 1 && l.Above.Share.FairShare.MaxComponent() > resource.Epsilon:
			f.Code, f.Text = FactFIFO, fmt.Sprintf("%s is the %s in FIFO pool %q: those ahead of it first get all that they can use", l.name(), ordinal(l.FIFO), l.Above.Pool)
			return f
		case l.Above.Share.FairShare.MaxComponent() > resource.Epsilon:
			f.Text = fmt.Sprintf("it has no fair share: guarantees of others take all that pool %q has", l.Above.Pool)
			if s.Gang {
				f.Text = fmt.Sprintf("it has no fair share: as a gang it gets all or nothing, and pool %q does not have enough for all of its jobs", l.Above.Pool)
			}
			return f
		}
	}
	f.Pool, f.Text = "", "it has no fair share: there is none left in the tree"
	return f
}

// grouped formats a large number for people, with commas.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

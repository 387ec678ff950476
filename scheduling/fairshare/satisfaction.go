package fairshare

import "weir/scheduling/resource"

// Satisfaction says how near an element is to its fair share. Below 1, the element has less than
// its fair share, and above 1 it has more. The satisfaction is resource.MaxSatisfaction for
// elements with no fair share (F.10).
//
// While no usage exceeds the fair share, a resource counts only if the demand exceeds its fair
// share, because the element cannot use more of other resources. If there is no such resource, the
// resource with the least ratio counts.
func Satisfaction(usage, fair, demand resource.Vector) float64 {
	if fair.MaxComponent() <= resource.Epsilon {
		return resource.MaxSatisfaction
	}
	var over, open float64
	above, allBlocked, least := false, true, resource.MaxSatisfaction
	for r := range fair {
		blocked := fair[r] >= demand[r]
		allBlocked = allBlocked && blocked
		if usage[r] > fair[r] {
			above = true
		}
		switch {
		case fair[r] > 0:
			part := usage[r] / fair[r]
			over = max(over, part)
			least = min(least, part)
			if !blocked {
				open = max(open, part)
			}
		case usage[r] > 0:
			over = resource.MaxSatisfaction
			least = min(least, 1)
		default:
			least = min(least, 1)
		}
	}
	switch {
	case above:
		return min(over, resource.MaxSatisfaction)
	case allBlocked:
		return least
	default:
		return open
	}
}

// judge computes the satisfaction of e from that of its children.
func (e *Element) judge() {
	e.LocalSatisfaction = Satisfaction(e.UsageShare, e.FairShare, e.DemandShare)
	e.PoolSatisfaction = e.LocalSatisfaction
	if e.Pool == nil || !e.schedulable {
		return
	}
	e.PoolSatisfaction = resource.MaxSatisfaction
	for _, c := range e.Children {
		if c.schedulable {
			e.PoolSatisfaction = min(e.PoolSatisfaction, c.PoolSatisfaction)
		}
	}
}

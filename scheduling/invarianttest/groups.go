package invarianttest

import (
	"cmp"
	"fmt"
	"slices"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// checkGroups computes the groups of every operation again, in the order in which its
// allocations started (F.12.1). Leaving allocations and starts in flight are in no group.
func (c *checker) checkGroups() error {
	of := map[scheduling.OperationID][]engine.Holding{}
	for _, h := range c.holdings {
		switch {
		case h.Ticket == 0 && !h.Leaving:
			of[h.Operation] = append(of[h.Operation], h)
		case h.Level != preemption.NonPreemptible:
			return fmt.Errorf("job %s of operation %s: it is %v, but it is leaving or has not begun", h.Job, h.Operation, h.Level)
		}
	}
	for _, op := range c.snapshot.Operations {
		all := of[op.ID]
		slices.SortFunc(all, func(a, b engine.Holding) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job)) })
		always, normally := cut(op.Bounds, op.Bounds.AggressiveThreshold, true, all), cut(op.Bounds, op.Bounds.Threshold, false, all)
		for i, h := range all {
			want := preemption.Preemptible
			switch {
			case i < always || i < normally && !op.Bounds.Aggressive:
				want = preemption.NonPreemptible
			case i < normally:
				want = preemption.AggressivelyPreemptible
			}
			if h.Level != want {
				return fmt.Errorf("job %s of operation %s is %v: at index %d of %d by start time, with the first %d always and the first %d normally protected, it should be %v",
					h.Job, op.ID, h.Level, i, len(all), always, normally, want)
			}
		}
	}
	return nil
}

// cut returns how many allocations, beginning with the first, are protected, if the protected part is
// the fair share times the parameter threshold.
func cut(b preemption.Bounds, threshold float64, aggressive bool, all []engine.Holding) int {
	unbounded := !aggressive && b.Fair.Near(b.Demand, resource.Epsilon) && !b.Demand.Near(resource.Vector{}, resource.Epsilon)
	shares, bound := preemption.Shares{Fair: b.Fair, Demand: b.Demand}, b.Fair.Scale(threshold)
	below := func(usage resource.Amounts) bool {
		return unbounded || b.Protected.StrictlyDominates(usage) || shares.NonBlockedDominates(bound, resource.Share(usage, b.Total))
	}
	n, usage := 0, resource.Amounts{}
	for n < len(all) && below(usage) {
		usage = usage.Add(all[n].Resources)
		n++
	}
	if b.OnBoundPreemptible && n > 0 && !below(usage) && !resource.Share(usage, b.Total).Near(bound, resource.Epsilon) {
		n--
	}
	return n
}

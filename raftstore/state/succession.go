package state

import (
	"cmp"
	"slices"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/preemption"
)

// MaxTakings bounds the takings that a PreemptionAge holds.
const MaxTakings = 10000

// checkSuccession returns what is wrong with clocks and an age, or nil.
func checkSuccession(clocks []*statepb.StarvationClock, age *statepb.PreemptionAge) error {
	var b breach
	for _, k := range clocks {
		b.when((k.GetPoolId() == 0) == (k.GetOperationId() == ""), "clock of pool %d and operation %q: exactly one of them must be set", k.GetPoolId(), k.GetOperationId())
		if k.GetStarvation() != "" {
			_, err := preemption.ParseStarvation(k.GetStarvation())
			b.add(err)
		}
	}
	n := len(age.GetTakings())
	b.when(n > MaxTakings, "%d takings, the limit is %d", n, MaxTakings)
	return b.err
}

// clocksNow merges changed clocks into the clocks of a tree. It drops clocks that are not running,
// and those whose pool or operation is gone. The result is sorted by id, pools first.
func (c *change) clocksNow(t *tree, changed []*statepb.StarvationClock) []*statepb.StarvationClock {
	was := t.record.GetClocks()
	if len(was)+len(changed) == 0 {
		return nil
	}
	all := append(slices.Clone(changed), was...)
	slices.SortStableFunc(all, func(a, b *statepb.StarvationClock) int {
		return cmp.Or(cmp.Compare(a.GetOperationId(), b.GetOperationId()), cmp.Compare(a.GetPoolId(), b.GetPoolId()))
	})
	all = slices.CompactFunc(all, func(a, b *statepb.StarvationClock) bool {
		return a.GetOperationId() == b.GetOperationId() && a.GetPoolId() == b.GetPoolId()
	})
	return slices.DeleteFunc(all, func(k *statepb.StarvationClock) bool {
		stopped := k.GetBelowSince() == nil && k.GetBelowMinShareSince() == nil
		return stopped || !t.hasPool(k.GetPoolId()) && !c.runsIn(k.GetOperationId(), scheduling.TreeName(t.record.GetName()))
	})
}

// runsIn reports whether an operation is in progress and belongs to a tree.
func (c *change) runsIn(id string, tree scheduling.TreeName) bool {
	o := c.operations[scheduling.OperationID(id)]
	return o != nil && o.state.InProgress() && o.treeIndex(tree) >= 0
}

// ageNow returns the age in a command, or the previous one if the command has none. It returns nil
// if the age in the command has no takings.
func ageNow(was, told *statepb.PreemptionAge) *statepb.PreemptionAge {
	switch {
	case told == nil:
		return was
	case len(told.GetTakings()) == 0:
		return nil
	}
	return told
}

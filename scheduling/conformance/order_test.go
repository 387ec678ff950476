package conformance_test

import (
	"fmt"
	"slices"

	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// checkOrder compares in which order operations are served, however the heaps have come
// about. Weir has heaps of every size: the sizes of the case only make different ones.
func (k *checker) checkOrder() error {
	if k.Expect.Indexes == nil && k.Expect.High == nil && k.Expect.Medium == nil {
		return nil
	}
	sizes := k.HeapSizes
	if len(sizes) == 0 {
		sizes = []int{len(k.Operations)}
	}
	for _, size := range sizes {
		if size < 1 {
			return fmt.Errorf("min_child_heap_sizes: %d", size)
		}
		order, high, err := k.order(size)
		if err != nil {
			return err
		}
		for id, want := range k.Expect.Indexes {
			if k.elements[id] == nil {
				return fmt.Errorf("scheduling_index: unknown element %q", id)
			}
			k.equal(id, "scheduling_index", fmt.Sprint("with heaps of ", size), slices.Index(order, id), want)
		}
		if k.Expect.High != nil {
			k.equal("<Root>", "high_priority_operations", "", fmt.Sprint(order[:high]), fmt.Sprint(k.Expect.High))
		}
		if k.Expect.Medium != nil {
			medium := slices.Sorted(slices.Values(order[high:]))
			k.equal("<Root>", "medium_priority_operations", "", fmt.Sprint(medium), fmt.Sprint(slices.Sorted(slices.Values(k.Expect.Medium))))
		}
	}
	return nil
}

// order returns the operations in the order in which they are served, the first so many
// of them with high priority. They come into their pools in an order that depends on
// size.
func (k *checker) order(size int) (order []string, high int, err error) {
	elements := map[string]*allocation.Element{}
	for id, e := range k.elements {
		if e.Pool != nil {
			elements[id] = allocation.NewPool(id)
			elements[id].SetShares(e.FairShare, e.DemandShare, k.total, allocation.Kinds{})
		}
	}
	for _, p := range k.Pools {
		elements[p.ID].Attach(elements[p.Parent])
	}
	for i := range k.Operations {
		op := k.Operations[(i*7+size)%len(k.Operations)]
		if len(k.Operations)%7 == 0 {
			op = k.Operations[(i+size)%len(k.Operations)]
		}
		e := k.elements[op.ID]
		usage, err := k.usage(e)
		if err != nil {
			return nil, 0, err
		}
		element := allocation.NewOperation(op.ID, rank(e))
		elements[op.ID] = element
		element.Attach(elements[op.Parent])
		element.AddUsage(usage)
		if needed := e.Demand.Sub(e.Usage); !needed.IsZero() {
			element.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "jobs"}, Pending: 1, PerJob: needed})
		}
		if k.settings.Settings().Preemption.GuaranteePriority {
			element.SetPromised(e.PromisedParts().Total)
		}
		element.SetShares(e.FairShare, e.DemandShare, k.total, allocation.Kinds{})
	}
	var f allocation.Filler
	for op := range f.Order(elements["<Root>"]) {
		order = append(order, op.ID())
		if k.isHigh(op, k.elements[op.ID()]) {
			high = len(order)
		}
	}
	return order, high, nil
}

// isHigh reports whether an operation has less than guarantees promise it (F.12.2).
func (k *checker) isHigh(op *allocation.Element, e *fairshare.Element) bool {
	s := preemption.Shares{Usage: resource.Share(op.Usage(), k.total), Fair: e.FairShare, Demand: e.DemandShare}
	return k.settings.Settings().Preemption.GuaranteePriority && s.BelowPromised(e.PromisedParts().Total)
}

// rank is the place among those that are as satisfied.
func rank(e *fairshare.Element) int64 {
	switch {
	case e.EffectiveFIFOIndex >= 0:
		return int64(e.EffectiveFIFOIndex)
	case e.FIFOIndex >= 0:
		return int64(e.FIFOIndex)
	default:
		return e.Rank
	}
}

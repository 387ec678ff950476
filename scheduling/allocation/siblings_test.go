package allocation_test

import (
	"slices"
	"testing"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// siblings are operations and pools, and the starts of jobs in the order in which they are served.
type siblings struct {
	build func(root *allocation.Element)
	want  []string
}

// serve fills four slots from each of the cases, and checks who is served next, and next again.
func serve(t *testing.T, cases map[string]siblings) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := allocation.NewPool("root")
			tc.build(root)
			if got, _ := fill(root, slots(4), 9); !slices.Equal(got, tc.want) {
				t.Errorf("starts %v, want %v", got, tc.want)
			}
		})
	}
}

// TestOrderBySatisfaction has siblings of which the least satisfied is served next.
func TestOrderBySatisfaction(t *testing.T) {
	serve(t, map[string]siblings{
		"a pool goes by its own satisfaction, however many operations it has": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .25, 9)
			operation(p, "b", 2, .25, 9)
			operation(q, "c", 3, .5, 9).AddUsage(slots(1))
		}, []string{"a/t", "c/t", "b/t", "c/t"}},
		"or by its least satisfied operation": {func(root *allocation.Element) {
			root.SetOrder(byOperations)
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			p.SetOrder(byOperations)
			q.SetOrder(byOperations)
			operation(p, "a", 1, .25, 9)
			operation(p, "b", 2, .25, 9)
			operation(q, "c", 3, .5, 9).AddUsage(slots(1))
		}, []string{"a/t", "b/t", "c/t", "a/t"}},
		"a pool above its share waits, though an operation has nothing": {func(root *allocation.Element) {
			p := pool(root, "p", .2)
			operation(p, "a", 1, .1, 0).AddUsage(slots(9))
			operation(p, "b", 2, .1, 1)
			operation(root, "c", 3, .5, 9).AddUsage(slots(1))
		}, []string{"c/t", "c/t", "c/t", "c/t"}},
		"unless it goes by that operation": {func(root *allocation.Element) {
			p := pool(root, "p", .2)
			p.SetOrder(byOperations)
			operation(p, "a", 1, .1, 0).AddUsage(slots(9))
			operation(p, "b", 2, .1, 1)
			operation(root, "c", 3, .5, 9).AddUsage(slots(1))
		}, []string{"b/t", "c/t", "c/t", "c/t"}},
		"the order changes while there are operations": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .25, 9)
			operation(p, "b", 2, .25, 9)
			operation(q, "c", 3, .5, 9).AddUsage(slots(1))
			for _, e := range []*allocation.Element{root, p, q} {
				e.SetOrder(byOperations)
			}
		}, []string{"a/t", "b/t", "c/t", "a/t"}},
		"of two that have all that they are due, the one with less of its fair share": {func(root *allocation.Element) {
			// Without a fair share both are as satisfied as can be.
			operation(root, "a", 1, 0, 9).AddUsage(slots(2))
			operation(root, "b", 2, 0, 9).AddUsage(slots(1))
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
		"more of a resource that is minor to it makes no pool satisfied": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .5, 9).AddUsage(resource.Amounts{UserSlots: 1, Memory: 9})
			operation(q, "b", 2, .5, 9).AddUsage(slots(2))
			p.SetShares(resource.Vector{resource.UserSlots: .5, resource.Memory: .01}, resource.Vector{resource.UserSlots: 1, resource.Memory: 1}, total, allocation.Kinds{})
		}, []string{"a/t", "b/t", "a/t", "b/t"}},
		"until that is its dominant one": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .5, 9).AddUsage(resource.Amounts{UserSlots: 1, Memory: 60})
			operation(q, "b", 2, .5, 9).AddUsage(slots(2))
			p.SetShares(resource.Vector{resource.UserSlots: .5, resource.Memory: .01}, resource.Vector{resource.UserSlots: 1, resource.Memory: 1}, total, allocation.Kinds{})
		}, []string{"b/t", "b/t", "b/t", "b/t"}},
		"a pool of two kinds goes by the one that its next job needs": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			other := operation(p, "memory", 1, .5, 0)
			other.AddUsage(resource.Amounts{Memory: 60})
			other.SetShares(resource.Vector{resource.Memory: .5}, resource.Vector{resource.Memory: 1}, total, allocation.Kinds{})
			both := other.Kinds().And(operation(p, "a", 1, .5, 9).Kinds())
			operation(q, "b", 2, .5, 9).AddUsage(slots(1))
			p.SetShares(resource.Vector{resource.UserSlots: .5, resource.Memory: .5}, resource.Vector{resource.UserSlots: 1, resource.Memory: 1}, total, both)
		}, []string{"a/t", "b/t", "a/t", "b/t"}},
	})
}

// TestOrderByPromise has pools to which a guarantee promises jobs.
func TestOrderByPromise(t *testing.T) {
	serve(t, map[string]siblings{
		"a pool comes first while a job is within its promise": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .5, 9).AddUsage(slots(1))
			operation(q, "b", 2, .5, 9)
			p.SetPromised(resource.Vector{.3})
		}, []string{"a/t", "a/t", "b/t", "b/t"}},
		"and of two that guarantees owe jobs, no debt moves one behind": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .5, 9).AddUsage(slots(1))
			operation(q, "b", 2, .5, 9)
			p.SetPromised(resource.Vector{.5})
			q.SetPromised(resource.Vector{.5})
			p.SetDebt(allocation.Debt{Rounding: 0})
			q.SetDebt(allocation.Debt{Rounding: 1})
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
		"and not for a part of one": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			operation(p, "a", 1, .5, 9).AddUsage(slots(1))
			operation(q, "b", 2, .5, 9)
			p.SetPromised(resource.Vector{.19})
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
	})
}

// TestOrderOfEquals has siblings that are equally satisfied.
func TestOrderOfEquals(t *testing.T) {
	serve(t, map[string]siblings{
		"of equals the one that has lacked its share for longer": {func(root *allocation.Element) {
			a, b := operation(root, "a", 1, .5, 9), operation(root, "b", 2, .5, 9)
			a.SetDebt(allocation.Debt{Lag: -1})
			b.SetDebt(allocation.Debt{Lag: 1})
			b.Serve(slots(1))
			b.SubUsage(slots(1))
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
		"of equals the one that was served least recently": {func(root *allocation.Element) {
			a, b := operation(root, "a", 1, .5, 9), operation(root, "b", 2, .5, 9)
			a.Serve(slots(1))
			b.Serve(slots(1))
			a.Serve(slots(1))
			a.SubUsage(slots(2))
			b.SubUsage(slots(1))
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
		"pools of equals too": {func(root *allocation.Element) {
			p, q := pool(root, "p", .5), pool(root, "q", .5)
			a := operation(p, "a", 1, .5, 9)
			operation(q, "b", 2, .5, 9)
			a.Serve(slots(1))
			a.SubUsage(slots(1))
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
		"then the lower rank": {func(root *allocation.Element) {
			operation(root, "a", 2, .5, 9)
			operation(root, "b", 1, .5, 9)
		}, []string{"b/t", "a/t", "b/t", "a/t"}},
		"then the id": {func(root *allocation.Element) {
			operation(root, "b", 1, .5, 9)
			operation(root, "a", 1, .5, 9)
		}, []string{"a/t", "b/t", "a/t", "b/t"}},
		"usage alone does not make a turn": {func(root *allocation.Element) {
			a := operation(root, "a", 1, .5, 9)
			operation(root, "b", 2, .5, 9)
			a.AddUsage(slots(1))
			a.SubUsage(slots(1))
		}, []string{"a/t", "b/t", "a/t", "b/t"}},
	})
}

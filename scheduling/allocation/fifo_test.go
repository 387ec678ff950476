package allocation_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// TestFIFOPool serves its operations by rank, whatever they have of their fair shares, and
// whatever the order was before.
func TestFIFOPool(t *testing.T) {
	strict := allocation.Order{FIFO: true}
	pool := func(order allocation.Order) (root, p *allocation.Element) {
		root, p = allocation.NewPool("root"), allocation.NewPool("p")
		p.SetOrder(order)
		p.Attach(root)
		share(p, 1)
		return root, p
	}
	for name, tc := range map[string]struct {
		build func() (root *allocation.Element)
		want  []string
	}{
		"the first one has its fair share already": {func() *allocation.Element {
			root, p := pool(strict)
			operation(p, "a", 1, .1, 3).AddUsage(slots(1))
			operation(p, "b", 2, .5, 3)
			return root
		}, []string{"a/t", "a/t", "a/t", "b/t"}},
		"the first one is at its limits": {func() *allocation.Element {
			root, p := pool(strict)
			operation(p, "a", 1, .5, 3).SetLimits(slots(1))
			operation(p, "b", 2, .5, 3)
			return root
		}, []string{"a/t", "b/t", "b/t", "b/t"}},
		"the one behind has been promised more": {func() *allocation.Element {
			root, p := pool(strict)
			operation(p, "a", 1, .5, 3)
			operation(p, "b", 2, .5, 3).SetPromised(resource.Vector{.5})
			return root
		}, []string{"a/t", "a/t", "a/t", "b/t"}},
		"the ranks change": {func() *allocation.Element {
			root, p := pool(strict)
			a, b := operation(p, "a", 1, .5, 3), operation(p, "b", 2, .5, 3)
			a.SetRank(2)
			b.SetRank(1)
			return root
		}, []string{"b/t", "b/t", "b/t", "a/t"}},
		"the pool becomes one": {func() *allocation.Element {
			root, p := pool(allocation.Order{})
			operation(p, "a", 3, .5, 2).AddUsage(slots(2))
			operation(p, "b", 1, .5, 2).AddUsage(slots(3))
			operation(p, "c", 2, .5, 2)
			p.SetOrder(strict)
			return root
		}, []string{"b/t", "b/t", "c/t", "c/t"}},
		"the pool is one no more": {func() *allocation.Element {
			root, p := pool(strict)
			operation(p, "a", 1, .5, 3).AddUsage(slots(2))
			operation(p, "b", 2, .5, 3)
			p.SetOrder(allocation.Order{})
			return root
		}, []string{"b/t", "b/t", "a/t", "b/t"}},
		"pools beside it are served as ever": {func() *allocation.Element {
			root, p := pool(strict)
			q := allocation.NewPool("q")
			q.Attach(root)
			share(p, .5)
			share(q, .5)
			operation(p, "a", 1, .1, 3)
			operation(p, "b", 2, .4, 3)
			operation(q, "c", 3, .5, 3)
			return root
		}, []string{"a/t", "c/t", "a/t", "c/t"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := fill(tc.build(), slots(4), 4); !slices.Equal(got, tc.want) {
				t.Errorf("starts %v, want %v", got, tc.want)
			}
		})
	}
}

// TestFIFOProperty: of any FIFO pool, each job that starts is one of the first operation,
// by rank, that has a job that fits.
func TestFIFOProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, p := allocation.NewPool("root"), allocation.NewPool("p")
		p.SetOrder(allocation.Order{FIFO: true})
		p.Attach(root)
		type waiting struct {
			*allocation.Element
			pending, each, limit, used int64
		}
		var all []*waiting
		for i, rank := range rapid.Permutation([]int64{1, 2, 3, 4, 5, 6}).Draw(t, "ranks") {
			w := &waiting{pending: rapid.Int64Range(0, 4).Draw(t, "pending"), each: rapid.Int64Range(1, 3).Draw(t, "slots of a job"), limit: rapid.Int64Range(0, 9).Draw(t, "limit")}
			w.Element = allocation.NewOperation(fmt.Sprint("o", i), rank)
			w.SetTask(allocation.Task{TaskID: allocation.TaskID{Name: "t"}, Pending: w.pending, PerJob: slots(w.each)})
			w.SetLimits(resource.Infinite.With(resource.UserSlots, w.limit))
			w.Attach(p)
			share(w.Element, rapid.Float64Range(0, .5).Draw(t, "fair share"))
			for int64(len(all)) < rank {
				all = append(all, nil)
			}
			all[rank-1] = w
		}
		for range 4 {
			free := rapid.Int64Range(0, 6).Draw(t, "free")
			got, _ := fill(root, slots(free), 9)
			var want []string
			for _, w := range all {
				for w.pending > 0 && w.each <= min(free, w.limit-w.used) {
					free, w.pending, w.used = free-w.each, w.pending-1, w.used+w.each
					want = append(want, w.ID()+"/t")
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("starts %v, want %v", got, want)
			}
		}
	})
}

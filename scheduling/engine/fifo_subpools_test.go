package engine_test

import (
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

var queues = map[scheduling.PoolName]pool{
	"queue": {options: options{"mode": "fifo", "fifo_sort_parameters": []any{"start_time"}}},
	"a":     {parent: "queue"}, "b": {parent: "queue"},
}

// TestFIFOSubpools: the pools and the operations of a FIFO pool are served in one order, a
// pool with the first of its operations, also where all are equally far from their shares.
func TestFIFOSubpools(t *testing.T) {
	w := newWorld(t, nil, queues)
	w.node("n", 8)
	w.node("small", 1)
	w.operation("o", "queue", 4, nil)
	w.operation("b1", "b", 2, nil)
	w.operation("a1", "a", 9, nil)
	w.tick(0)
	w.wantStarts(starts{"o": 1}, "small")
	w.wantStarts(starts{"o": 3, "b1": 2, "a1": 3}, "n")
	s := w.Snapshot()
	got := map[string]any{}
	for _, p := range s.Pools {
		got[string(p.Name)] = p.Attributes(s.Total)["fifo_index"]
	}
	for _, op := range s.Operations {
		got[string(op.ID)] = op.Attributes(s.Total)["fifo_index"]
	}
	for id, want := range map[string]any{"queue": nil, "o": 0.0, "b": 1.0, "a": 2.0, "a1": nil, "b1": nil} {
		if got[id] != want {
			t.Errorf("fifo_index of %s is %v, want %v", id, got[id], want)
		}
	}
	x, err := w.ExplainPool("a", w.now)
	must(t, err)
	if x.Share.Bound != explain.FactBoundFIFO {
		t.Errorf("the share of a is bound by %s: %+v", x.Share.Bound, x.Facts)
	}
	if !slices.ContainsFunc(x.Facts, func(f explain.Fact) bool { return f.Code == explain.FactBoundFIFO && f.Count == 3 && f.Pool == "queue" }) {
		t.Errorf("facts %+v, want the third place in queue", x.Facts)
	}
}

// TestFIFOSubpoolsMoveOn: a pool comes later when its first operation has ended, and has no
// place in a FIFO pool any more when it is moved out of it.
func TestFIFOSubpoolsMoveOn(t *testing.T) {
	w := newWorld(t, nil, queues)
	w.node("n", 8)
	w.operation("b1", "b", 9, nil)
	w.operation("a1", "a", 9, nil)
	w.operation("b2", "b", 9, nil)
	want := func(places map[scheduling.PoolName]int) {
		t.Helper()
		w.tick(time.Second)
		for _, p := range w.Snapshot().Pools {
			if place, is := places[p.Name]; is && int(p.Shares.Attributes.FIFOIndex) != place {
				t.Errorf("pool %s is at %d, want %d", p.Name, p.Shares.Attributes.FIFOIndex, place)
			}
		}
	}
	want(map[scheduling.PoolName]int{"b": 0, "a": 1})
	must(t, w.RemoveOperation("b1"))
	want(map[scheduling.PoolName]int{"a": 0, "b": 1})
	w.wantStarts(starts{"a1": 8}, "n")
	w.tree(nil, map[scheduling.PoolName]pool{"queue": queues["queue"], "a": {}, "b": queues["b"]})
	want(map[scheduling.PoolName]int{"queue": -1, "a": -1, "b": 0})
}

// TestMaxSchedulableSubpoolsInFIFO: pools count as operations do, and of those that come
// after as many as may be scheduled nothing starts.
func TestMaxSchedulableSubpoolsInFIFO(t *testing.T) {
	for name, tc := range map[string]struct {
		most float64
		want starts
	}{
		"two":   {2, starts{"a1": 1, "o": 1}},
		"three": {3, starts{"a1": 1, "o": 1, "b1": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{"max_schedulable_element_count_in_fifo_pool": tc.most}, queues)
			w.node("n", 4)
			w.operation("a1", "a", 1, nil)
			w.operation("o", "queue", 9, options{"packing": options{"enable": true}})
			w.operation("b1", "b", 3, nil)
			must(t, w.SetDemand("o", "t", 0, 9, slotsOf(2)))
			w.tick(0)
			w.wantStarts(tc.want, "n")
		})
	}
}

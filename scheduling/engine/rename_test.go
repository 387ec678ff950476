package engine_test

import (
	"maps"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// TestRenamedPools gives pools other names: what each has saved, and since when it has
// been below its share, goes with it, and never with its name.
func TestRenamedPools(t *testing.T) {
	saver, err := pooltree.ReadPoolOptions(options{"integral_guarantees": options{"guarantee_type": "relaxed", "resource_flow": options{"user_slots": 2.0}}})
	must(t, err)
	treeOf := func(names map[scheduling.PoolID]scheduling.PoolName) pooltree.Tree {
		var pools []pooltree.Pool
		for id, name := range names {
			pools = append(pools, pooltree.Pool{ID: id, Name: name, Parent: scheduling.RootPool, Options: saver})
		}
		tree, err := pooltree.FromPools(pooltree.Default(), pools)
		must(t, err)
		return tree
	}
	type names = map[scheduling.PoolID]scheduling.PoolName
	type volumes = map[scheduling.PoolName]float64
	for name, tc := range map[string]struct {
		to   names
		want volumes
	}{
		"nothing changes":                {names{1: "a", 2: "b", 3: "c"}, volumes{"a": 1, "b": 2, "c": 3}},
		"another name":                   {names{1: "x", 2: "b", 3: "c"}, volumes{"x": 1, "b": 2, "c": 3}},
		"exchanged names":                {names{1: "b", 2: "a", 3: "c"}, volumes{"b": 1, "a": 2, "c": 3}},
		"names in a ring":                {names{1: "b", 2: "c", 3: "a"}, volumes{"b": 1, "c": 2, "a": 3}},
		"the name of one that goes":      {names{1: "b", 3: "c"}, volumes{"b": 1, "c": 3}},
		"a new one takes a name":         {names{4: "a", 2: "b", 3: "c"}, volumes{"b": 2, "c": 3}},
		"a new one and another name":     {names{4: "a", 1: "b", 3: "c"}, volumes{"b": 1, "c": 3}},
		"pools that go by names alone":   {names{0: "a"}, volumes{"a": 1}},
		"a new one that nobody stood in": {names{1: "a", 2: "b", 3: "c", 4: "d"}, volumes{"a": 1, "b": 2, "c": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			must(t, e.SetTree(treeOf(names{1: "a", 2: "b", 3: "c"})))
			var saved []engine.PoolVolume
			for i, pool := range []scheduling.PoolName{"a", "b", "c"} {
				saved = append(saved, engine.PoolVolume{Pool: pool, ID: scheduling.PoolID(i + 1), Volume: resource.Volume{UserSlots: float64(i + 1)}})
			}
			must(t, e.SetVolumes(begin, saved))
			must(t, e.SetTree(treeOf(tc.to)))
			_, got := e.Volumes()
			seen := volumes{}
			for _, v := range got {
				seen[v.Pool] = v.Volume.UserSlots
				if tc.to[v.ID] != v.Pool {
					t.Errorf("pool %d is %q, want %q", v.ID, v.Pool, tc.to[v.ID])
				}
			}
			if !maps.Equal(seen, tc.want) {
				t.Errorf("volumes %v, want %v", seen, tc.want)
			}
			for _, p := range e.Pools()[1:] {
				if tc.to[p.ID] != p.Name {
					t.Errorf("there is a pool %q with the id %d", p.Name, p.ID)
				}
			}
			if len(tc.to) == 3 && tc.to[4] == "" {
				// Volumes that were kept before the names changed find their pools.
				must(t, e.SetVolumes(begin, saved))
			}
		})
	}
}

// TestARenamedPoolStaysHungry renames a pool that has been below its share, with an
// operation in it that goes on.
func TestARenamedPoolStaysHungry(t *testing.T) {
	w := newWorld(t, nil, nil)
	named := func(name scheduling.PoolName) pooltree.Tree {
		tree, err := pooltree.FromPools(pooltree.Default(), []pooltree.Pool{{ID: 7, Name: name, Parent: scheduling.RootPool}})
		must(t, err)
		return tree
	}
	must(t, w.SetTree(named("a")))
	w.node("n", 4)
	w.operation("o", "a", 9, nil)
	w.tick(0)
	since := w.now
	w.tick(5 * time.Second)
	must(t, w.SetTree(named("b")))
	must(t, w.SetGang("o", true))
	w.tick(5 * time.Second)
	s := w.Snapshot()
	if p := s.Pools[1]; p.Name != "b" || !p.Shares.Clock.Since.Equal(since) {
		t.Errorf("pool %q has been below its share since %v, want b since %v", p.Name, p.Shares.Clock.Since, since)
	}
	if op := s.Operations[0]; op.Pool != "b" || !op.Gang || !op.Shares.Clock.Since.Equal(since) {
		t.Errorf("the operation is in pool %q, gang %v, below its share since %v", op.Pool, op.Gang, op.Shares.Clock.Since)
	}
	w.starts("n")
}

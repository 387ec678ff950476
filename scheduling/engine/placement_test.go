package engine_test

import (
	"maps"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// world is an engine with a tree and nodes, for stories.
type world struct {
	*engine.Engine
	t   tester
	now time.Time
}

// pool is a pool of a story, below the root or the pool that parent names.
type pool struct {
	parent  scheduling.PoolName
	options options
}

func newWorld(t tester, tree options, pools map[scheduling.PoolName]pool) *world {
	t.Helper()
	w := &world{Engine: newEngine(t), t: t, now: begin}
	w.tree(tree, pools)
	return w
}

func (w *world) tree(document options, pools map[scheduling.PoolName]pool) {
	w.t.Helper()
	read, err := pooltree.ReadTreeOptions(document)
	must(w.t, err)
	var all []pooltree.Pool
	for name, p := range pools {
		set, err := pooltree.ReadPoolOptions(p.options)
		must(w.t, err)
		if p.parent == "" {
			p.parent = scheduling.RootPool
		}
		all = append(all, pooltree.Pool{Name: name, Parent: p.parent, Options: set})
	}
	built, err := pooltree.FromPools(read, all)
	must(w.t, err)
	must(w.t, w.SetTree(built))
}

// operation adds one that wants n jobs of one slot and one cpu.
func (w *world) operation(id scheduling.OperationID, pool scheduling.PoolName, n int64, document options) {
	w.t.Helper()
	must(w.t, w.AddOperation(w.record(id, pool, document)))
	w.now = w.now.Add(time.Millisecond)
	must(w.t, w.SetDemand(id, "t", 0, n, resource.Amounts{UserSlots: 1, CPU: 100}))
}

func (w *world) record(id scheduling.OperationID, pool scheduling.PoolName, document options) engine.Operation {
	read, err := pooltree.ReadOperationOptions(document)
	must(w.t, err)
	return engine.Operation{ID: id, Pool: pool, Started: w.now, Enabled: true}.With(read)
}

func (w *world) node(id scheduling.NodeID, slots int64, tags ...string) {
	w.t.Helper()
	must(w.t, w.SetNode(id, resource.Amounts{UserSlots: slots, CPU: resource.Hundredths(100 * slots)}, true, tags...))
}

func (w *world) tick(after time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(after)
	_, err := w.Tick(w.now)
	must(w.t, err)
}

// starts says how many jobs of each operation a heartbeat of the nodes starts. They
// stay in flight.
func (w *world) starts(nodes ...scheduling.NodeID) map[scheduling.OperationID]int {
	w.t.Helper()
	before := w.Snapshot()
	plan := w.Heartbeat(w.now, nodes)
	must(w.t, invarianttest.CheckPlan(before, plan, w.Snapshot()))
	got := map[scheduling.OperationID]int{}
	for _, s := range plan.Starts {
		got[s.Operation]++
	}
	return got
}

func (w *world) wantStarts(want map[scheduling.OperationID]int, nodes ...scheduling.NodeID) {
	w.t.Helper()
	if got := w.starts(nodes...); !maps.Equal(got, want) {
		w.t.Fatalf("started %v, want %v", got, want)
	}
}

type starts = map[scheduling.OperationID]int

// TestLimitsOfThreeSlots: starts in flight count, and so do those of other nodes.
func TestLimitsOfThreeSlots(t *testing.T) {
	three := options{"resource_limits": options{"user_slots": 3.0}}
	for name, tc := range map[string]struct {
		pools map[scheduling.PoolName]pool
		of    options
	}{
		"of an operation":       {map[scheduling.PoolName]pool{"a": {}}, three},
		"of its pool":           {map[scheduling.PoolName]pool{"a": {options: three}}, nil},
		"of a pool high above":  {map[scheduling.PoolName]pool{"z": {options: three}, "y": {parent: "z"}, "a": {parent: "y"}}, nil},
		"of all the same":       {map[scheduling.PoolName]pool{"z": {options: three}, "a": {parent: "z", options: three}}, three},
		"of a pool that is low": {map[scheduling.PoolName]pool{"z": {options: options{"resource_limits": options{"user_slots": 4.0}}}, "a": {parent: "z", options: three}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, tc.pools)
			w.node("n1", 2)
			w.node("n2", 8)
			w.operation("o", "a", 20, tc.of)
			w.tick(0)
			w.wantStarts(starts{"o": 2}, "n1")
			w.wantStarts(starts{"o": 1}, "n2")
			w.wantStarts(starts{}, "n1", "n2")
			must(t, w.Commit(1, "j1", w.now))
			w.tick(time.Second)
			w.wantStarts(starts{}, "n1", "n2")
			must(t, w.Reject(2))
			w.wantStarts(starts{"o": 1}, "n2")
			must(t, w.RemoveAllocation("j1"))
			w.wantStarts(starts{"o": 1}, "n1", "n2")
		})
	}
}

// TestLimitsThatFall start nothing until usage has fallen below them, and say so.
func TestLimitsThatFall(t *testing.T) {
	limit := func(n float64) map[scheduling.PoolName]pool {
		return map[scheduling.PoolName]pool{"a": {options: options{"resource_limits": options{"user_slots": n}}}}
	}
	w := newWorld(t, nil, limit(3))
	w.node("n", 8)
	w.operation("o", "a", 20, nil)
	w.tick(0)
	w.wantStarts(starts{"o": 3}, "n")
	exceeded := func(want bool) {
		t.Helper()
		s := w.Snapshot()
		if got := s.Pools[1].Attributes(s.Total)["resource_limits_exceeded"]; got != want || s.Pools[1].Shares.Exceeding() != want {
			t.Fatalf("limits exceeded: %v, want %v", got, want)
		}
	}
	exceeded(false)
	w.tree(nil, limit(2))
	exceeded(true)
	w.wantStarts(starts{}, "n")
	must(t, w.Reject(1))
	exceeded(false)
	w.wantStarts(starts{}, "n")
	must(t, w.Reject(2))
	w.wantStarts(starts{"o": 1}, "n")
	w.tree(nil, map[scheduling.PoolName]pool{"a": {}})
	w.wantStarts(starts{"o": 6}, "n")
}

// TestFiltersOfAllAbove: a node must have the tags for an operation and for all pools
// above it.
func TestFiltersOfAllAbove(t *testing.T) {
	filter := func(text string) options { return options{"scheduling_tag_filter": text} }
	w := newWorld(t, nil, map[scheduling.PoolName]pool{"a": {options: filter("gpu")}, "b": {parent: "a", options: filter("!old")}})
	w.node("plain", 4)
	w.node("gpu", 4, "gpu")
	w.node("old", 4, "gpu", "old")
	w.node("fast", 4, "fast", "gpu")
	w.operation("o", "b", 5, filter("fast"))
	w.operation("p", "b", 3, nil)
	w.tick(0)
	w.wantStarts(starts{}, "plain", "old")
	w.wantStarts(starts{"p": 3}, "gpu")
	w.wantStarts(starts{"o": 4}, "fast")
	// Tags, filters and pools change.
	w.node("old", 4, "gpu", "fast")
	w.wantStarts(starts{"o": 1}, "old")
	must(t, w.SetDemand("o", "t", 0, 15, resource.Amounts{UserSlots: 1}))
	must(t, w.SetOperation(w.record("o", "b", nil)))
	w.wantStarts(starts{"o": 1}, "gpu")
	w.wantStarts(starts{}, "plain")
	must(t, w.SetOperation(w.record("o", scheduling.RootPool, nil)))
	w.wantStarts(starts{"o": 4}, "plain")
}

// TestFiltersThatNobodyHas are forgotten.
func TestFiltersThatNobodyHas(t *testing.T) {
	filter := func(text string) options { return options{"scheduling_tag_filter": text} }
	pools := map[scheduling.PoolName]pool{"a": {options: filter("gpu")}, "b": {}}
	w := newWorld(t, nil, pools)
	want := func(n int) {
		t.Helper()
		if got := w.Filters(); got != n {
			t.Fatalf("%d filters, want %d", got, n)
		}
	}
	want(1)
	w.operation("o", "b", 5, filter("gpu"))
	want(1)
	for range 3 {
		must(t, w.SetOperation(w.record("o", "b", filter("fast"))))
		must(t, w.SetOperation(w.record("o", "b", filter("slow"))))
		want(2)
	}
	w.tree(nil, map[scheduling.PoolName]pool{"b": {}})
	want(1)
	must(t, w.RemoveOperation("o"))
	want(0)
}

// TestFiltersInLimits: an element's own filter lowers its limits share.
func TestFiltersInLimits(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{
		"a": {options: options{"scheduling_tag_filter": "gpu"}}, "b": {parent: "a"}})
	w.node("plain", 6)
	w.node("gpu", 2, "gpu")
	w.operation("o", "b", 20, options{"scheduling_tag_filter": "!gpu", "resource_limits": options{"user_slots": 7.0}})
	limits := func(after time.Duration, a, b, o float64) {
		t.Helper()
		w.tick(after)
		s := w.Snapshot()
		got := [3]float64{s.Pools[1].Shares.Attributes.LimitsShare[0], s.Pools[2].Shares.Attributes.LimitsShare[0], s.Operations[0].Shares.Attributes.LimitsShare[0]}
		if want := [3]float64{a, b, o}; got != want {
			t.Fatalf("limits shares %v, want %v", got, want)
		}
	}
	limits(0, .25, 1, .75)
	w.node("gpu", 4)
	limits(time.Second, 0, 1, .7)
	w.node("gpu", 4, "gpu")
	must(t, w.RemoveNode("plain"))
	limits(time.Second, 1, 1, 0)
}

// TestFilterBoundsSharesAtOnce: what a filter takes bounds the share at a leader's first
// update, nodes included that are about to be heard again.
func TestFilterBoundsSharesAtOnce(t *testing.T) {
	filtered := map[scheduling.PoolName]pool{"a": {options: options{"scheduling_tag_filter": "ssd"}}, "b": {}}
	for name, tc := range map[string]struct {
		nodes func(d *drive)
		want  float64
	}{
		"the only such node is there":     {func(d *drive) { must(d.t, d.SetNode("ssd", slotsOf(2), true, "ssd")) }, 2. / 8},
		"it is awaited":                   {func(d *drive) { d.awaited("ssd", 2, "ssd") }, 2. / 8},
		"it is neither there nor awaited": {func(*drive) {}, 0},
		"another one is awaited, too": {func(d *drive) {
			must(d.t, d.SetNode("ssd", slotsOf(2), true, "ssd"))
			d.awaited("late", 2, "ssd")
			d.awaited("other", 6)
		}, 4. / 16},
		"most of those that are there are such nodes": {func(d *drive) {
			must(d.t, d.SetNode("ssd", slotsOf(6), true, "ssd"))
			d.awaited("other", 12)
		}, 6. / 12},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, nil, filtered)
			d.node("n", 6)
			tc.nodes(d)
			d.wants("o", "a", 100, slotsOf(1), nil)
			d.tick(0)
			wantFigure(t, "the fair share", d.seen("o").Shares.FairShare[resource.CPU], tc.want)
		})
	}
	d := newDrive(t, options{"node_reconnection_timeout": "20s"}, filtered)
	d.node("n", 6)
	d.awaited("ssd", 2, "ssd")
	d.wants("o", "a", 100, slotsOf(1), nil)
	d.tick(0)
	d.tick(21 * time.Second)
	wantFigure(t, "the fair share when it has not come", d.seen("o").Shares.FairShare[resource.CPU], 0)
}

// awaited adds a node that is about to be heard again.
func (w *world) awaited(id scheduling.NodeID, slots int64, tags ...string) {
	w.t.Helper()
	must(w.t, w.SetNode(id, slotsOf(slots), false, tags...))
	must(w.t, w.Await(id, true))
}

// TestFIFOOrder: of those that have nothing the first one in the pool's order is
// served, whenever it was started.
func TestFIFOOrder(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{"a": {options: options{"mode": "fifo"}}})
	w.node("n", 4)
	w.operation("light", "a", 3, options{"weight": 1.0})
	w.operation("heavy", "a", 3, options{"weight": 5.0})
	w.operation("last", "a", 3, options{"weight": 0.5})
	w.node("small", 1)
	w.tick(0)
	w.wantStarts(starts{"heavy": 1}, "small")
	w.wantStarts(starts{"heavy": 2, "light": 2}, "n")
	s := w.Snapshot()
	for i, want := range []map[string]any{
		{"fifo_index": 0.0, "scheduling_index": nil},
		{"fifo_index": 2.0, "scheduling_index": 1.0},
		{"fifo_index": 1.0, "scheduling_index": 0.0},
	} {
		got := s.Operations[i].Attributes(s.Total)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s of %s is %v, want %v", name, s.Operations[i].ID, got[name], value)
			}
		}
	}
}

// TestLimitsBoundDemand where the operation wants it.
func TestLimitsBoundDemand(t *testing.T) {
	for name, tc := range map[string]struct {
		of   options
		want float64
	}{
		"nothing is set": {nil, 5},
		"limits alone":   {options{"resource_limits": options{"user_slots": 2.0}}, 5},
		"both":           {options{"resource_limits": options{"user_slots": 2.0}, "apply_specified_resource_limits_to_demand": true}, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, map[scheduling.PoolName]pool{"a": {}})
			w.node("n", 4)
			w.operation("o", "a", 20, tc.of)
			w.tick(0)
			if got := w.Snapshot().Operations[0].Shares.DemandShare[0]; got != tc.want {
				t.Errorf("demand share %v, want %v", got, tc.want)
			}
		})
	}
}

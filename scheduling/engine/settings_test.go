package engine_test

import (
	"math"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

type options = map[string]any

// sharing is a cluster of 100 cpus with two pools, each with an operation that
// wants all of it, and a second one in pool a.
func sharing(t *testing.T, treeOptions, a, b options, set ...func(*engine.Operation)) map[string]float64 {
	t.Helper()
	tree, err := pooltree.ReadTreeOptions(treeOptions)
	must(t, err)
	var pools []pooltree.Pool
	for name, document := range map[scheduling.PoolName]options{"a": a, "b": b} {
		read, err := pooltree.ReadPoolOptions(document)
		must(t, err)
		pools = append(pools, pooltree.Pool{Name: name, Parent: scheduling.RootPool, Options: read})
	}
	built, err := pooltree.FromPools(tree, pools)
	must(t, err)
	e := newEngine(t)
	must(t, e.SetTree(built))
	must(t, e.SetNode("n1", resource.Amounts{UserSlots: 100, CPU: resource.Cores(50), Memory: 1000}, true))
	must(t, e.SetNode("n2", resource.Amounts{UserSlots: 100, CPU: resource.Cores(50), Memory: 1000}, true))
	for i, op := range []engine.Operation{
		{ID: "a1", Pool: "a", Weight: 1}, {ID: "a2", Pool: "a", Weight: 1}, {ID: "b1", Pool: "b", Weight: 1},
	} {
		op.Started, op.Enabled = begin.Add(time.Duration(i)), true
		if op.ID == "a1" {
			for _, s := range set {
				s(&op)
			}
		}
		must(t, e.AddOperation(op))
		must(t, e.SetDemand(op.ID, "t", 0, 1000/int64(1+9*i%2), resource.Amounts{UserSlots: 1, CPU: resource.Cores(1), Memory: 1}))
	}
	for _, now := range []time.Time{begin, begin.Add(10 * time.Second)} {
		_, err = e.Tick(now)
		must(t, err)
	}
	got := map[string]float64{}
	s := e.Snapshot()
	for _, p := range s.Pools {
		got[string(p.Name)] = p.Shares.FairShare[resource.CPU]
	}
	for _, op := range s.Operations {
		got[string(op.ID)] = op.Shares.FairShare[resource.CPU]
	}
	return got
}

// TestSettings shows that what a tree, a pool and an operation are told reaches
// their fair shares.
func TestSettings(t *testing.T) {
	ratio := 0.3
	cpu := func(n float64) options { return options{"cpu": n} }
	cases := map[string]struct {
		tree, a, b options
		set        func(*engine.Operation)
		want       map[string]float64
	}{
		"nothing is set":     {want: map[string]float64{"a": .5, "a1": .25, "b": .5}},
		"weight":             {a: options{"weight": 3.0}, want: map[string]float64{"a": .75}},
		"a strong guarantee": {a: options{"strong_guarantee_resources": cpu(60)}, want: map[string]float64{"a": .8, "b": .2}},
		"resource limits":    {a: options{"resource_limits": cpu(10)}, want: map[string]float64{"a": .1, "b": .9}},
		"max share ratio":    {a: options{"max_share_ratio": 0.2}, want: map[string]float64{"a": .2, "b": .8}},
		"fifo":               {a: options{"mode": "fifo"}, want: map[string]float64{"a1": .5, "a2": 0}},
		"weights inferred": {
			tree: options{"infer_weight_from_guarantees_share_multiplier": 10.0},
			a:    options{"strong_guarantee_resources": cpu(30)}, b: options{"strong_guarantee_resources": cpu(10)},
			want: map[string]float64{"a": .75, "b": .25}},
		"a relaxed pool": {
			// 10 s of 0.2 have come in and may be spent in 3 s, but not faster than 3 x
			// 0.2 = 0.6. What is left is divided by weight.
			tree: options{"integral_guarantees": options{"smooth_period": "3s"}},
			a:    options{"integral_guarantees": options{"guarantee_type": "relaxed", "resource_flow": cpu(20)}},
			want: map[string]float64{"a": .8, "b": .2}},
		"a burst pool": {
			tree: options{"integral_guarantees": options{"smooth_period": "4s"}},
			a: options{"integral_guarantees": options{"guarantee_type": "burst", "resource_flow": cpu(20),
				"burst_guarantee_resources": cpu(40)}},
			want: map[string]float64{"a": .7, "b": .3}},
		"limits of an operation": {
			set:  func(op *engine.Operation) { op.Options.ResourceLimits = limits(5) },
			want: map[string]float64{"a1": .05, "a2": .45}},
		"max share ratio of an operation": {
			a:    options{"resource_limits": cpu(50)},
			set:  func(op *engine.Operation) { op.Options.MaxShareRatio = &ratio },
			want: map[string]float64{"a1": .15, "a2": .35}},
		"a gang that is too great": {
			tree: options{"enable_step_function_for_gang_operations": true},
			set:  func(op *engine.Operation) { op.Gang = true },
			want: map[string]float64{"a1": 0}},
		"a pool that has no step": {
			tree: options{"enable_step_function_for_gang_operations": true},
			a:    options{"enable_step_function_for_gang_operations": false},
			set:  func(op *engine.Operation) { op.Gang = true },
			want: map[string]float64{"a1": .25}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := tc.set
			if set == nil {
				set = func(*engine.Operation) {}
			}
			got := sharing(t, tc.tree, tc.a, tc.b, set)
			for id, want := range tc.want {
				if math.Abs(got[id]-want) > 1e-6 {
					t.Errorf("%s has %v, want %v", id, got[id], want)
				}
			}
		})
	}
}

// TestVolumesMoveOn: a new engine goes on from the volumes of another, with the
// time that passed.
func TestVolumesMoveOn(t *testing.T) {
	build := func() *engine.Engine {
		burst, err := pooltree.ReadPoolOptions(options{"integral_guarantees": options{"guarantee_type": "burst",
			"resource_flow": options{"cpu": 10.0}, "burst_guarantee_resources": options{"cpu": 40.0}}})
		must(t, err)
		tree, err := pooltree.FromPools(pooltree.Default(), []pooltree.Pool{{Name: "a", Parent: scheduling.RootPool, Options: burst}})
		must(t, err)
		e := newEngine(t)
		must(t, e.SetTree(tree))
		must(t, e.SetNode("n", resource.Amounts{CPU: resource.Cores(100)}, true))
		must(t, e.AddOperation(engine.Operation{ID: "o", Pool: "a", Weight: 1, Started: begin, Enabled: true}))
		must(t, e.SetDemand("o", "t", 0, 5, resource.Amounts{CPU: resource.Cores(1)}))
		return e
	}
	tick := func(e *engine.Engine, now time.Time) engine.PoolView {
		_, err := e.Tick(now)
		must(t, err)
		return e.Snapshot().Pools[1]
	}
	first, second := build(), build()
	for i := range 10 {
		tick(first, begin.Add(time.Duration(i)*time.Second))
	}
	at, volumes := first.Volumes()
	if len(volumes) != 1 || volumes[0].Pool != "a" || volumes[0].LastShareRatio <= 0 {
		t.Fatalf("volumes %+v", volumes)
	}
	must(t, second.SetVolumes(at, volumes))
	later := begin.Add(30 * time.Second)
	a, b := tick(first, later), tick(second, later)
	if a.Integral != b.Integral || a.Shares.Attributes != b.Shares.Attributes {
		t.Errorf("%+v, in the other engine %+v", a, b)
	}
	if got := a.Integral; got.RatioVolume <= 0 || !got.Lasts || got.SpecifiedFlowRatio != 0.1 || got.TotalBurstRatio != 0.4 {
		t.Errorf("integral guarantees %+v", got)
	}
	for name, v := range map[string]engine.PoolVolume{
		"an unknown pool":    {Pool: "b"},
		"a negative volume":  {Pool: "a", Volume: resource.Volume{CPU: -1}},
		"a ratio beyond all": {Pool: "a", LastShareRatio: 2},
	} {
		if err := second.SetVolumes(later, []engine.PoolVolume{v}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func limits(cores float64) *pooltree.Resources {
	l := &pooltree.Resources{Amounts: resource.Amounts{CPU: resource.Cores(cores)}}
	l.Named[resource.CPU] = true
	return l
}

// TestMemoryThatNoJobCanUse does not count, until there is a node for it.
func TestMemoryThatNoJobCanUse(t *testing.T) {
	e := newEngine(t)
	must(t, e.SetPool("a", scheduling.RootPool, 1))
	must(t, e.AddOperation(engine.Operation{ID: "o", Pool: "a", Weight: 1, Started: begin, Enabled: true}))
	must(t, e.SetDemand("o", "t", 0, 10, resource.Amounts{UserSlots: 1, Memory: 600}))
	share := func(now time.Time) float64 {
		_, err := e.Tick(now)
		must(t, err)
		return e.Snapshot().Operations[0].Shares.FairShare[resource.Memory]
	}
	if got := share(begin); got != 0 {
		t.Errorf("%v of an empty cluster", got)
	}
	must(t, e.SetNode("n", resource.Amounts{UserSlots: 10, Memory: 1000}, true))
	if got := share(begin.Add(time.Second)); got != 0.6 {
		t.Errorf("one job fits into the node, got %v", got)
	}
	must(t, e.SetDemand("o", "t", 0, 10, resource.Amounts{UserSlots: 1, Memory: 500}))
	if got := share(begin.Add(2 * time.Second)); got != 0.6 {
		t.Errorf("a minute has not passed, got %v", got)
	}
	if got := share(begin.Add(62 * time.Second)); got != 1 {
		t.Errorf("two jobs fit into the node, got %v", got)
	}
}

func TestOperationSettingsThatCannotBe(t *testing.T) {
	e := newEngine(t)
	must(t, e.SetPool("a", scheduling.RootPool, 1))
	above := 1.1
	for name, op := range map[string]engine.Operation{
		"a max share ratio above 1": {ID: "o", Pool: "a", Weight: 1, Options: pooltree.OperationOptions{MaxShareRatio: &above}},
		"negative limits":           {ID: "o", Pool: "a", Weight: 1, Options: pooltree.OperationOptions{ResourceLimits: limits(-1)}},
	} {
		if err := e.AddOperation(op); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

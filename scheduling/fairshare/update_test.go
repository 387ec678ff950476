package fairshare_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// A cluster of round numbers: 1 cpu is a share of 0.01, 1 byte one of 0.001.
var cluster = resource.Amounts{UserSlots: 1000, CPU: 10000, Memory: 1000}

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func operation(id string, weight float64, cores float64, memory int64) *fairshare.Element {
	return &fairshare.Element{ID: id, Operation: true, Weight: weight,
		Demand: resource.Amounts{CPU: resource.Cores(cores), Memory: memory}}
}

func pool(id string, weight float64, children ...*fairshare.Element) *fairshare.Element {
	return &fairshare.Element{ID: id, Weight: weight, Children: children}
}

func TestUpdate(t *testing.T) {
	type shares map[string][2]float64 // cpu, memory
	cases := map[string]struct {
		root *fairshare.Element
		want shares
	}{
		"all demand fits": {
			pool("root", 1, operation("a", 1, 10, 100), operation("b", 1, 20, 50)),
			shares{"a": {0.1, 0.1}, "b": {0.2, 0.05}},
		},
		"weights divide one resource": {
			pool("root", 1, operation("a", 3, 100, 0), operation("b", 1, 100, 0)),
			shares{"a": {0.75, 0}, "b": {0.25, 0}},
		},
		"what the small one leaves goes to the others": {
			pool("root", 1, operation("a", 1, 10, 0), operation("b", 1, 100, 0), operation("c", 2, 100, 0)),
			shares{"a": {0.1, 0}, "b": {0.3, 0}, "c": {0.6, 0}},
		},
		"dominant shares are equal": {
			// a is cpu-heavy (1 : 1/4), b memory-heavy (1/4 : 1): x + x/4 = 1.
			pool("root", 1, operation("a", 1, 400, 1000), operation("b", 1, 100, 4000)),
			shares{"a": {0.8, 0.2}, "b": {0.2, 0.8}},
		},
		"when cpu is gone memory is still given": {
			pool("root", 1, operation("a", 1, 100, 100), operation("b", 1, 100, 0), operation("m", 1, 0, 1000)),
			shares{"a": {0.5, 0.05}, "b": {0.5, 0}, "m": {0, 0.95}},
		},
		"pools divide before their operations do": {
			pool("root", 1,
				pool("p", 1, operation("a", 1, 100, 0), operation("b", 1, 100, 0), operation("c", 1, 100, 0)),
				pool("q", 1, operation("d", 1, 100, 0))),
			shares{"p": {0.5, 0}, "q": {0.5, 0}, "a": {1. / 6, 0}, "d": {0.5, 0}},
		},
		"children that want different things do not pay for each other": {
			pool("root", 1,
				pool("p", 1, operation("a", 1, 100, 0), operation("b", 1, 0, 1000)),
				pool("q", 1, operation("c", 1, 100, 1000))),
			shares{"p": {0.5, 0.5}, "q": {0.5, 0.5}, "a": {0.5, 0}, "b": {0, 0.5}},
		},
		"weight 0 has no share": {
			pool("root", 1, operation("a", 0, 100, 0), operation("b", 1, 40, 0), pool("p", 0, operation("c", 1, 10, 0))),
			shares{"a": {0, 0}, "b": {0.4, 0}, "p": {0, 0}, "c": {0, 0}},
		},
		"demand for what the cluster has not is no share": {
			pool("root", 1, &fairshare.Element{ID: "a", Operation: true, Weight: 1, Demand: resource.Amounts{GPU: 8, CPU: 1000}}),
			shares{"a": {0.1, 0}},
		},
		"an empty tree": {pool("root", 1), shares{"root": {0, 0}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := fairshare.Update(tc.root, cluster, now); err != nil {
				t.Fatal(err)
			}
			got := map[string]resource.Vector{}
			visit(tc.root, func(e *fairshare.Element) { got[e.ID] = e.FairShare })
			for id, want := range tc.want {
				if s := got[id]; math.Abs(s[resource.CPU]-want[0]) > 1e-9 || math.Abs(s[resource.Memory]-want[1]) > 1e-9 {
					t.Errorf("%s has cpu %.4f memory %.4f, want %.4f %.4f", id, s[resource.CPU], s[resource.Memory], want[0], want[1])
				}
			}
		})
	}
}

// TestExampleOfThePaper is Ghodsi et al., NSDI 2011, section 4.1: of 9 cpus and
// 18 GB, A runs three tasks of (1 cpu, 4 GB), B two of (3 cpus, 1 GB).
func TestExampleOfThePaper(t *testing.T) {
	const gb = 1 << 30
	total := resource.Amounts{CPU: resource.Cores(9), Memory: 18 * gb}
	a := &fairshare.Element{ID: "a", Operation: true, Weight: 1, Demand: resource.Amounts{CPU: resource.Cores(100), Memory: 400 * gb}}
	b := &fairshare.Element{ID: "b", Operation: true, Weight: 1, Demand: resource.Amounts{CPU: resource.Cores(300), Memory: 100 * gb}}
	report, err := fairshare.Update(pool("root", 1, a, b), total, now)
	if err != nil {
		t.Fatal(err)
	}
	if want := (resource.Vector{0, 3. / 9, 0, 12. / 18, 0}); !a.FairShare.Near(want, resource.Epsilon) {
		t.Errorf("a has %v, want %v", a.FairShare, want)
	}
	if want := (resource.Vector{0, 6. / 9, 0, 2. / 18, 0}); !b.FairShare.Near(want, resource.Epsilon) {
		t.Errorf("b has %v, want %v", b.FairShare, want)
	}
	if want := (fairshare.Report{At: now, Pools: 1, Operations: 2, Exhausted: [5]bool{1: true}}); report != want {
		t.Errorf("report %+v, want %+v", report, want)
	}
}

func TestUpdateRefuses(t *testing.T) {
	root := pool("root", 1, operation("a", 1, 1, 0))
	if _, err := fairshare.Update(root, resource.Amounts{}, now); !errors.Is(err, fairshare.ErrEmptyCluster) {
		t.Errorf("an empty cluster: error %v, want %v", err, fairshare.ErrEmptyCluster)
	}
	if !root.FairShare.IsZero() {
		t.Errorf("an empty cluster is shared: %v", root.FairShare)
	}
	for name, weight := range map[string]float64{"negative": -1, "not a number": math.NaN(), "infinite": math.Inf(1)} {
		root.Children[0].Weight = weight
		if _, err := fairshare.Update(root, cluster, now); err == nil {
			t.Errorf("a %s weight is taken", name)
		}
	}
}

// drawTree draws a tree of at most three levels of pools.
func drawTree(t *rapid.T, depth int, label string) *fairshare.Element {
	root := pool(label, drawWeight(t, label))
	for i := range rapid.IntRange(1, 4).Draw(t, "children of "+label) {
		id := fmt.Sprintf("%s.%d", label, i)
		if depth > 0 && rapid.Bool().Draw(t, id+" is a pool") {
			root.Children = append(root.Children, drawTree(t, depth-1, id))
			continue
		}
		root.Children = append(root.Children, drawOperation(t, id))
	}
	return root
}

func drawWeight(t *rapid.T, id string) float64 {
	return rapid.SampledFrom([]float64{0, 0.001, 0.5, 1, 1, 1, 2, 3, 1000, 1e9}).Draw(t, "weight of "+id)
}

func drawOperation(t *rapid.T, id string) *fairshare.Element {
	amount := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1500), rapid.Int64Range(1, 1<<60))
	return &fairshare.Element{ID: id, Operation: true, Weight: drawWeight(t, id), Demand: resource.Amounts{
		UserSlots: amount.Draw(t, "slots of "+id),
		CPU:       resource.Hundredths(amount.Draw(t, "cpu of "+id)),
		Memory:    amount.Draw(t, "memory of "+id),
		GPU:       amount.Draw(t, "gpu of "+id),
	}}
}

// small has no gpu and fits a few operations only.
var small = resource.Amounts{UserSlots: 2000, CPU: 1000, Memory: 1500, Network: 7}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := drawTree(t, 3, "root")
		report := update(t, root, small)
		if !root.FairShare.Within(resource.Ones, resource.Epsilon) {
			t.Fatalf("more than the cluster is shared: %v", root.FairShare)
		}
		visit(root, func(e *fairshare.Element) {
			if !e.FairShare.Within(e.DemandShare, resource.Epsilon*max(1, e.DemandShare.MaxComponent())) {
				t.Fatalf("%s: fair share %v is above demand %v", e.ID, e.FairShare, e.DemandShare)
			}
			if e.FairShare.MinComponent() < 0 {
				t.Fatalf("%s: fair share %v is negative", e.ID, e.FairShare)
			}
			if e.Operation {
				return
			}
			var sum resource.Vector
			for _, c := range e.Children {
				sum = sum.Add(c.FairShare)
			}
			if sum != e.FairShare {
				t.Fatalf("%s: fair share %v is not the sum of its children's, %v", e.ID, e.FairShare, sum)
			}
		})
		for r, gone := range report.Exhausted {
			if gone && root.FairShare[r] < 1-resource.Epsilon {
				t.Fatalf("%s is said to be exhausted at %v", resource.Kind(r), root.FairShare[r])
			}
		}
		checkGrowth(t, root, &report)
	})
}

// checkGrowth holds every operation that has a weight on its whole path to
// "satisfied, or a resource that it demands is used up".
func checkGrowth(t *rapid.T, e *fairshare.Element, report *fairshare.Report) {
	for _, c := range e.Children {
		switch {
		case c.Weight < resource.Epsilon:
			if !c.FairShare.IsZero() {
				t.Fatalf("%s: weight %v and fair share %v", c.ID, c.Weight, c.FairShare)
			}
		case !c.Operation:
			checkGrowth(t, c, report)
		case c.FairShare != c.DemandShare:
			stopped := false
			for r, gone := range report.Exhausted {
				stopped = stopped || (gone && c.DemandShare[r] > 0)
			}
			if !stopped {
				t.Fatalf("%s: fair share %v is short of demand %v, exhausted is %v", c.ID, c.FairShare, c.DemandShare, report.Exhausted)
			}
		}
	}
}

func TestSiblingsAreProportional(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// All demand the same resources, so they all stop at the same moment.
		root := pool("root", 1)
		for i := range rapid.IntRange(2, 8).Draw(t, "operations") {
			id := fmt.Sprint(i)
			e := drawOperation(t, id)
			e.Weight = rapid.Float64Range(0.01, 100).Draw(t, "weight of "+id)
			e.Demand = e.Demand.Max(resource.Amounts{UserSlots: 1, CPU: 1, Memory: 1})
			root.Children = append(root.Children, e)
		}
		update(t, root, small)
		level := -1.0 // of those that are not satisfied
		for _, e := range root.Children {
			if e.FairShare != e.DemandShare {
				l := e.FairShare.MaxComponent() / e.Weight
				if level >= 0 && math.Abs(l-level) > 1e-9*max(1, level) {
					t.Fatalf("%s has %v a weight, another one %v", e.ID, l, level)
				}
				level = l
			}
		}
		for _, e := range root.Children {
			if l := e.FairShare.MaxComponent() / e.Weight; level >= 0 && l > level+1e-9*max(1, level) {
				t.Fatalf("%s has %v a weight, more than the %v of those that want more", e.ID, l, level)
			}
		}
	})
}

func TestMoreWeightIsNotLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := drawTree(t, 0, "root")
		update(t, root, small)
		e := rapid.SampledFrom(root.Children).Draw(t, "who gets weight")
		before := e.FairShare
		e.Weight = min(e.Weight*rapid.Float64Range(1, 100).Draw(t, "factor"), 1e9)
		update(t, root, small)
		if !before.Within(e.FairShare, resource.Epsilon) {
			t.Fatalf("%s has %v, and %v with more weight", e.ID, before, e.FairShare)
		}
	})
}

func TestOrderOfChildrenDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := drawTree(t, 2, "root")
		update(t, root, small)
		want := map[string]resource.Vector{}
		visit(root, func(e *fairshare.Element) { want[e.ID] = e.FairShare })
		visit(root, func(e *fairshare.Element) { slices.Reverse(e.Children) })
		update(t, root, small)
		visit(root, func(e *fairshare.Element) {
			if e.FairShare != want[e.ID] {
				t.Fatalf("%s has %v, and %v in another order", e.ID, want[e.ID], e.FairShare)
			}
		})
	})
}

func TestSatisfaction(t *testing.T) {
	v := func(cpu, memory float64) resource.Vector { return resource.Vector{1: cpu, 3: memory} }
	cases := map[string]struct {
		usage, fair, demand resource.Vector
		want                float64
	}{
		"no fair share":                         {v(0, 0), v(0, 0), v(1, 1), resource.MaxSatisfaction},
		"nothing yet":                           {v(0, 0), v(.5, .5), v(1, 1), 0},
		"half of it":                            {v(.25, .2), v(.5, .5), v(1, 1), .5},
		"above in one resource":                 {v(.1, .6), v(.5, .4), v(1, 1), 1.5},
		"above, though it demands no more":      {v(.1, .6), v(.5, .4), v(1, .4), 1.5},
		"above where nothing is fair":           {v(.1, .6), v(.5, 0), v(1, 1), resource.MaxSatisfaction},
		"satisfied resources do not count":      {v(.1, .3), v(.5, .3), v(1, .3), .2},
		"all are covered, the least counts":     {v(.1, .3), v(.4, .3), v(.4, .3), .25},
		"all are covered and used":              {v(.4, .3), v(.4, .3), v(.4, .3), 1},
		"open only where the fair share is nil": {v(0, 0), v(.4, 0), v(.4, 1), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := fairshare.Satisfaction(tc.usage, tc.fair, tc.demand); math.Abs(got-tc.want) > 1e-12 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func update(t *rapid.T, root *fairshare.Element, total resource.Amounts) fairshare.Report {
	report, err := fairshare.Update(root, total, now)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func visit(e *fairshare.Element, f func(*fairshare.Element)) {
	f(e)
	for _, c := range e.Children {
		visit(c, f)
	}
}

// thousandPools is a tree of 10,000 operations in 1,000 pools.
func thousandPools() *fairshare.Element {
	root := pool("root", 1)
	for p := range 1000 {
		leaf := pool(fmt.Sprintf("pool-%04d", p), float64(p%7+1))
		for o := range 10 {
			n := int64(p*10 + o)
			leaf.Children = append(leaf.Children, operation(fmt.Sprintf("operation-%05d", n), float64(n%5+1), float64(n%97+1), n%89+1))
		}
		root.Children = append(root.Children, leaf)
	}
	return root
}

func TestUpdateAgainAllocatesNothing(t *testing.T) {
	root := thousandPools()
	if n := testing.AllocsPerRun(2, func() {
		if _, err := fairshare.Update(root, cluster, now); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkUpdate divides a cluster among 10,000 operations in 1,000 pools.
func BenchmarkUpdate(b *testing.B) {
	root := thousandPools()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fairshare.Update(root, cluster, now); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*10000/b.Elapsed().Seconds(), "operations/s")
}

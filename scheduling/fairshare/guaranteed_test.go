package fairshare_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// TestGuaranteedShareIsHadUnderFullLoad: what every element is said to be sure of while
// nobody asks for anything is what an update gives when all ask for a resource without end.
func TestGuaranteedShareIsHadUnderFullLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := drawing{}.tree(t, total)
		tree.Options.VectorFitFactor = rapid.Bool().Draw(t, "vector mode")
		ask := func(of resource.Amounts) {
			visit(tree.Root, func(e *fairshare.Element) { e.Demand, e.Usage = of, resource.Amounts{} })
		}
		visit(tree.Root, func(e *fairshare.Element) {
			if e.Pool != nil {
				// Somebody asks for all that the pool can get.
				greedy := fairshare.NewOperation(e.ID + ".greedy")
				greedy.Rank = 100
				e.Children = append(e.Children, greedy)
			}
		})
		ask(resource.Amounts{})
		update(t, tree, total, begin)
		tree.FindGuaranteed(false)
		want := map[string]resource.Vector{}
		for id, e := range byID(tree) {
			want[id] = e.GuaranteedShare
		}
		for _, k := range []resource.Kind{resource.UserSlots, resource.CPU, resource.Memory} {
			ask(resource.Amounts{}.With(k, 10*total.Of(k)))
			update(t, tree, total, begin)
			for id, e := range byID(tree) {
				if d := e.FairShare[k] - want[id][k]; d > 1e-8 || d < -1e-8 {
					t.Fatalf("%s: guaranteed %v of %s, and has %v when all ask for that", id, want[id][k], k, e.FairShare[k])
				}
			}
		}
	})
}

// TestGuaranteedWithFlows: in the long run a pool with integral guarantees is sure of its
// flow, before weights count.
func TestGuaranteedWithFlows(t *testing.T) {
	burst := pool("burst", integral(fairshare.Integral{Type: fairshare.Burst, Flow: cores(20), Burst: cores(50)}), holding(operation("a", 1000, 0)))
	relaxed := pool("relaxed", integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(30)}), holding(operation("b", 1000, 0)))
	strong := pool("strong", guaranteed(10), weight(2), holding(operation("c", 1000, 0)))
	tree := tree(burst, relaxed, strong, pool("empty"))
	tree.Root.Children[3].Children = []*fairshare.Element{operation("d", 1000, 0)}
	now := begin
	for range 3600 {
		update(t, tree, cluster, now)
		now = now.Add(time.Second)
	}
	tree.FindGuaranteed(false)
	for id, want := range map[string]float64{"burst": 0.28, "relaxed": 0.38, "strong": 0.26, "empty": 0.08, "c": 0.26} {
		e := byID(tree)[id]
		near(t, "guaranteed to "+id, e.GuaranteedShare[resource.CPU], want)
		if d := e.FairShare[resource.CPU] - want; d > 1e-3 || d < -1e-3 {
			t.Errorf("after an hour of full load %s has %v, want %v", id, e.FairShare[resource.CPU], want)
		}
	}
}

// TestGuaranteedOfShapes: what asks for resources gets them in proportion, so the limit of
// one of them bounds all.
func TestGuaranteedOfShapes(t *testing.T) {
	slots := func(n int64) func(*fairshare.Element) {
		return func(e *fairshare.Element) { e.Limits.UserSlots = n }
	}
	asks := func(e *fairshare.Element) { e.Demand.UserSlots = 1000 }
	for name, tc := range map[string]struct {
		of   *fairshare.Element
		main resource.Kind
		want float64
	}{
		"an operation of 20 slots with a core each":         {operation("o", 1000, 0, asks, slots(20)), resource.CPU, 0.2},
		"the same of a pool":                                {pool("o", slots(20), holding(operation("x", 1000, 0, asks))), resource.CPU, 0.2},
		"of an idle pool the main resource":                 {pool("o", slots(20)), resource.CPU, 0.5},
		"of an idle pool the main resource is limited":      {pool("o", slots(20)), resource.UserSlots, 0.02},
		"what it asks for most":                             {operation("o", 1, 1000, limited(0.1)), resource.CPU, 0.1},
		"an idle pool has its guarantee of other resources": {pool("o", memoryGuarantee(600)), resource.CPU, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			tree := tree(tc.of, pool("other"))
			tree.Options.MainResource = tc.main
			update(t, tree, cluster, begin)
			tree.FindGuaranteed(false)
			near(t, "guaranteed ratio", tree.GuaranteedRatio(tc.of), tc.want)
		})
	}
}

func memoryGuarantee(bytes int64) func(*fairshare.Element) {
	return func(e *fairshare.Element) {
		e.Pool.StrongGuarantee.Amounts.Memory = bytes
		e.Pool.StrongGuarantee.Named[resource.Memory] = true
	}
}

// TestFairShareRatios: the ratios of all operations are no more than 1 together, and those
// of pools at any level; none is more than the share of some resource. Of one resource the
// ratio is the share. Per resource, fair shares themselves are no more than 1 together.
func TestFairShareRatios(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Bool().Draw(t, "one resource")
		d := anything
		d.oneResource = one
		tree, _ := drawUpdated(t, d)
		ratios, shares := 0.0, resource.Vector{}
		visit(tree.Root, func(e *fairshare.Element) {
			if most := e.FairShare.MaxComponent(); e.FairShareRatio > most || e.FairShareRatio < 0 || one && e.FairShareRatio < most-eps {
				t.Fatalf("%s: ratio %v of %v", e.ID, e.FairShareRatio, e.FairShare)
			}
			if e.Pool == nil {
				ratios, shares = ratios+e.FairShareRatio, shares.Add(e.FairShare)
				return
			}
			below := 0.0
			for _, c := range e.Children {
				below += c.FairShareRatio
			}
			if below > 1+1e-12 || e.FairShareRatio > below+1e-12 {
				t.Fatalf("the children of %s, which has %v, have %v", e.ID, e.FairShareRatio, below)
			}
		})
		if ratios > 1+1e-12 || !shares.Within(resource.Ones, eps) {
			t.Fatalf("the ratios of all operations make %v, their shares %v", ratios, shares)
		}
	})
}

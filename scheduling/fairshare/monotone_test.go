package fairshare_test

import (
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// drawOperation chooses an operation of the tree, if there is one.
func drawOperation(t *rapid.T, tree *fairshare.Tree) *fairshare.Element {
	var operations []*fairshare.Element
	for _, e := range collect(tree.Root) {
		if e.Pool == nil {
			operations = append(operations, e)
		}
	}
	if len(operations) == 0 {
		t.Skip("no operation")
	}
	return rapid.SampledFrom(operations).Draw(t, "operation")
}

// TestMoreWeightIsNeverLess: who gets a greater weight gets no less of anything.
func TestMoreWeightIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := drawing{gangs: true, oneResource: rapid.Bool().Draw(t, "one resource")}.tree(t, total)
		e := drawOperation(t, tree)
		update(t, tree, total, begin)
		before := e.FairShare
		e.Weight = max(e.Weight, 0.1) * rapid.Float64Range(1, 10).Draw(t, "times the weight")
		update(t, tree, total, begin)
		if !before.Within(e.FairShare, eps) {
			t.Fatalf("%s had %v, and with more weight %v", e.ID, before, e.FairShare)
		}
	})
}

// TestMoreDemandIsNeverLess: with one resource, no gangs and the same usage, who
// demands more gets no less.
func TestMoreDemandIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := drawCluster(t)
		tree := drawing{oneResource: true}.tree(t, total)
		e := drawOperation(t, tree)
		update(t, tree, total, begin)
		before := e.FairShare
		e.Demand.CPU += resource.Hundredths(rapid.Int64Range(0, int64(total.CPU)).Draw(t, "more"))
		update(t, tree, total, begin)
		if !before.Within(e.FairShare, eps) {
			t.Fatalf("%s had %v, and with more demand %v", e.ID, before, e.FairShare)
		}
	})
}

// TestMoreClusterIsNeverLess: with one resource and no gangs, no one gets less, in
// cores, of a greater cluster, as long as guarantees fit the smaller one.
func TestMoreClusterIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := resource.Amounts{CPU: drawCluster(t).CPU}
		tree := drawing{oneResource: true}.tree(t, total)
		update(t, tree, total, begin)
		if tree.Root.StrongGuaranteeShare[resource.CPU] > 1 {
			t.Skip("guarantees do not fit")
		}
		before := map[string]float64{}
		for _, e := range collect(tree.Root) {
			before[e.ID] = e.FairShare[resource.CPU] * total.CPU.Cores()
		}
		total.CPU += resource.Hundredths(rapid.Int64Range(0, 1e6).Draw(t, "more"))
		update(t, tree, total, begin)
		for _, e := range collect(tree.Root) {
			if got := e.FairShare[resource.CPU] * total.CPU.Cores(); got < before[e.ID]-1e-5 {
				t.Fatalf("%s had %v cores, and of the greater cluster %v", e.ID, before[e.ID], got)
			}
		}
	})
}

// TestMoreDemandCanBeLess: what does not follow from the rules. Demand for another
// resource ties an operation to it, and a gang that asks for more may not fit.
func TestMoreDemandCanBeLess(t *testing.T) {
	a := operation("a", 100, 0)
	two := tree(a, operation("b", 0, 1000))
	update(t, two, cluster, begin)
	near(t, "cpu alone", a.FairShare[resource.CPU], 1)
	a.Demand.Memory = 1000
	update(t, two, cluster, begin)
	near(t, "cpu with memory that b wants, too", a.FairShare[resource.CPU], 0.5)

	g := operation("g", 50, 0, gang)
	gangs := tree(g, operation("c", 100, 0))
	gangs.Options.GangStep = true
	g.Demand.CPU = resource.Cores(49)
	update(t, gangs, cluster, begin)
	near(t, "a gang that fits", g.FairShare[resource.CPU], 0.49)
	g.Demand.CPU = resource.Cores(51)
	update(t, gangs, cluster, begin)
	near(t, "a gang that asks for more", g.FairShare[resource.CPU], 0)
}

// TestMoreClusterCanBeLess: memory that is added makes that of b a smaller share
// of the cluster; so b grows faster, and takes cpu from a.
func TestMoreClusterCanBeLess(t *testing.T) {
	a, b := operation("a", 1000, 0), operation("b", 1000, 20000)
	tree := tree(a, b)
	update(t, tree, cluster, begin)
	near(t, "a", a.FairShare[resource.CPU], 2./3)
	greater := cluster
	greater.Memory *= 2
	update(t, tree, greater, begin)
	near(t, "a of the greater cluster", a.FairShare[resource.CPU], 0.5)
}

package fairshare_test

import (
	"slices"
	"strings"
	"testing"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

func priority(e *fairshare.Element) { e.Pool.PriorityAdjustment = true }

func donor(e *fairshare.Element) { e.Pool.PriorityDonor = true }

func promised(e *fairshare.Element) { e.Pool.ComputePromised = true }

func TestAlerts(t *testing.T) {
	cases := map[string]struct {
		children []*fairshare.Element
		want     []fairshare.Alert
		wantText string
	}{
		"all is well": {children: []*fairshare.Element{pool("a", guaranteed(100))}},
		"too many strong guarantees": {
			children: []*fairshare.Element{pool("a", guaranteed(60)), pool("b", guaranteed(60))},
			want:     []fairshare.Alert{{Code: fairshare.AlertOvercommit, Pool: "<Root>"}},
			wantText: "lower strong guarantees",
		},
		"too much flow": {
			children: []*fairshare.Element{pool("a", guaranteed(60)), pool("b", integral(fairshare.Integral{
				Type: fairshare.Relaxed, Flow: resource.Amounts{CPU: resource.Cores(50)}}))},
			want:     []fairshare.Alert{{Code: fairshare.AlertOvercommit, Pool: "<Root>"}},
			wantText: "add nodes",
		},
		"a priority pool without a donor": {
			children: []*fairshare.Element{pool("a", priority, guaranteed(10))},
			want:     []fairshare.Alert{{Code: fairshare.AlertNoDonor, Pool: "a"}},
			wantText: `pool "a": enable_priority_strong_guarantee_adjustment is ignored`,
		},
		"a priority pool below a donor": {
			children: []*fairshare.Element{pool("d", donor, guaranteed(20), holding(pool("a", priority, guaranteed(10))))},
		},
		"another priority pool is in between": {
			children: []*fairshare.Element{pool("d", donor, holding(pool("b", priority, holding(pool("a", priority)))))},
			want:     []fairshare.Alert{{Code: fairshare.AlertNoDonor, Pool: "a"}},
		},
		"nested promises": {
			children: []*fairshare.Element{pool("a", promised, holding(pool("b", holding(pool("c", promised)))))},
			want:     []fairshare.Alert{{Code: fairshare.AlertNestedPromise, Pool: "c"}},
			wantText: `pool "c": compute_promised_guarantee_fair_share is ignored`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := update(t, tree(tc.children...), cluster, begin)
			if !slices.Equal(report.Alerts, tc.want) {
				t.Errorf("alerts %v, want %v", report.Alerts, tc.want)
			}
			for _, a := range report.Alerts {
				if !strings.Contains(a.String(), tc.wantText) {
					t.Errorf("%q does not say %q", a, tc.wantText)
				}
			}
		})
	}
}

func TestInference(t *testing.T) {
	named := func(a resource.Amounts, kinds ...resource.Kind) func(*fairshare.Element) {
		return func(e *fairshare.Element) {
			e.Pool.StrongGuarantee.Amounts = a
			for _, k := range kinds {
				e.Pool.StrongGuarantee.Named[k] = true
			}
		}
	}
	memoryIsMain := func(o *fairshare.Options) { o.MainResource = resource.Memory }
	cases := map[string]struct {
		pool *fairshare.Element
		set  func(*fairshare.Options)
		want resource.Amounts
	}{
		"nothing is configured": {pool: pool("p"), want: resource.Amounts{}},
		"all follow from cpu":   {pool: pool("p", guaranteed(10)), want: resource.Amounts{UserSlots: 100, CPU: 1000, Memory: 100}},
		"cut towards zero":      {pool: pool("p", guaranteed(0.33)), want: resource.Amounts{UserSlots: 3, CPU: 33, Memory: 3}},
		"an explicit zero stays": {
			pool: pool("p", named(resource.Amounts{CPU: 1000}, resource.CPU, resource.Memory)), want: resource.Amounts{UserSlots: 100, CPU: 1000}},
		"memory is the main resource": {
			pool: pool("p", named(resource.Amounts{Memory: 500}, resource.Memory)), set: memoryIsMain,
			want: resource.Amounts{UserSlots: 500, CPU: 5000, Memory: 500}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tree := tree(tc.pool)
			if tc.set != nil {
				tc.set(&tree.Options)
			}
			update(t, tree, cluster, begin)
			if got := tc.pool.Pool.InferredGuarantee; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestInferenceWithinParent: below the first level, what is inferred fits what
// explicit guarantees leave.
func TestInferenceWithinParent(t *testing.T) {
	explicit := pool("explicit", guaranteed(10), func(e *fairshare.Element) {
		e.Pool.StrongGuarantee.Amounts.Memory = 400
		e.Pool.StrongGuarantee.Named[resource.Memory] = true
	})
	inferred := pool("inferred", guaranteed(40))
	update(t, tree(pool("p", guaranteed(50), holding(explicit, inferred))), cluster, begin)
	if got := inferred.Pool.InferredGuarantee.Memory; got != 100 {
		t.Errorf("got %d bytes of the 500 of the parent, 400 of which are taken", got)
	}
	if got := inferred.Pool.InferredGuarantee.UserSlots; got != 400 {
		t.Errorf("got %d slots of the 500 of the parent", got)
	}
}

func TestPriorityIsCutLast(t *testing.T) {
	urgent, other := pool("urgent", priority, guaranteed(30)), pool("other", guaranteed(30))
	update(t, tree(pool("d", donor, guaranteed(60), limited(40), holding(urgent, other))), cluster, begin)
	near(t, "urgent", urgent.StrongGuaranteeShare[resource.CPU], 0.3)
	near(t, "other", other.StrongGuaranteeShare[resource.CPU], 0.1)
	near(t, "tier", urgent.Pool.Tiers[fairshare.PriorityTier][resource.CPU], 0.3)

	urgent.Pool.PriorityAdjustment = false
	update(t, tree(pool("d", donor, guaranteed(60), limited(40), holding(urgent, other))), cluster, begin)
	near(t, "without priority", urgent.StrongGuaranteeShare[resource.CPU], 0.2)
}

// TestPromised: what the guarantee alone gives, to the pool and to those in it.
func TestPromised(t *testing.T) {
	a, b := operation("a", 100, 0), operation("b", 10, 0)
	p := pool("p", guaranteed(50), promised, holding(a, b))
	for name, vector := range map[string]bool{"scalar": false, "vector": true} {
		tree := tree(p, operation("c", 5, 0))
		tree.Options.VectorFitFactor = vector
		update(t, tree, cluster, begin)
		near(t, name+" pool", p.PromisedFairShare[resource.CPU], 0.5)
		near(t, name+" a", a.PromisedFairShare[resource.CPU], 0.4)
		near(t, name+" b", b.PromisedFairShare[resource.CPU], 0.1)
		near(t, name+" a in fact", a.FairShare[resource.CPU], 0.85)
		near(t, name+" strong part", p.PromisedParts().Strong[resource.CPU], 0.5)
	}
}

// TestMinShare is what a pool and its operations can insist on.
func TestMinShare(t *testing.T) {
	a, b, c := operation("a", 100, 0, weight(2)), operation("b", 5, 0), operation("c", 100, 0)
	p := pool("p", guaranteed(60), holding(a, b, pool("q", guaranteed(20), holding(c))))
	idle := pool("idle", guaranteed(40), holding(operation("d", 10, 0)))
	update(t, tree(p, idle), cluster, begin)
	near(t, "a pool has its guarantee", p.MinShare[resource.CPU], 0.6)
	near(t, "as far as it demands it", idle.MinShare[resource.CPU], 0.1)
	near(t, "its operations divide it by weight", a.MinShare[resource.CPU], 0.4)
	near(t, "as far as they demand it", b.MinShare[resource.CPU], 0.05)
	near(t, "a pool below has its own", c.MinShare[resource.CPU], 0.2)
	near(t, "by its settings an idle pool has all of it", idle.SpecifiedMinShare()[resource.CPU], 0.4)
	near(t, "and so have its operations", b.SpecifiedMinShare()[resource.CPU], 0.2)
}

func TestReordering(t *testing.T) {
	running := func(e *fairshare.Element) { e.Usage = resource.Amounts{CPU: resource.Cores(1)} }
	big := func(id string, set ...func(*fairshare.Element)) *fairshare.Element {
		return operation(id, 70, 0, append(set, gang)...)
	}
	cases := map[string]struct {
		children []*fairshare.Element
		want     []string
	}{
		"a gang that does not fit steps aside":  {[]*fairshare.Element{big("a", rank(1)), operation("b", 30, 0, rank(2), gang)}, []string{"b", "a"}},
		"a running gang does not":               {[]*fairshare.Element{big("a", rank(1), running), operation("b", 30, 0, rank(2), gang)}, nil},
		"what stands behind a non-gang waits":   {[]*fairshare.Element{operation("a", 70, 0, rank(1)), operation("b", 30, 0, rank(2), gang)}, nil},
		"a gang that cannot fit does not count": {[]*fairshare.Element{big("a", rank(1), limited(60)), operation("b", 30, 0, rank(2), gang)}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pool("p", fifo(), guaranteed(60), holding(tc.children...), func(e *fairshare.Element) { e.Pool.FIFOReordering = new(true) })
			tree := tree(p)
			tree.Options.GangStep, tree.Options.FIFOReordering = true, true
			update(t, tree, cluster, begin)
			var got []string
			for _, c := range p.Children {
				if c.EffectiveFIFOIndex >= 0 {
					got = append(got, c.ID)
				}
			}
			slices.SortFunc(got, func(a, b string) int {
				all := byID(tree)
				return int(all[a].EffectiveFIFOIndex - all[b].EffectiveFIFOIndex)
			})
			if !slices.Equal(got, tc.want) {
				t.Errorf("effective order %v, want %v", got, tc.want)
			}
			if p.Children[0].FIFOIndex != 0 || p.Children[1].FIFOIndex != 1 {
				t.Error("the canonical order changes")
			}
		})
	}
}

func TestSatisfaction(t *testing.T) {
	cases := map[string]struct {
		usage, fair, demand resource.Vector
		want                float64
	}{
		"nothing to expect":                       {resource.Vector{.1}, resource.Vector{}, resource.Vector{1}, resource.MaxSatisfaction},
		"half of it":                              {resource.Vector{0, .2}, resource.Vector{0, .4}, resource.Vector{0, 1}, 0.5},
		"twice":                                   {resource.Vector{0, .8}, resource.Vector{0, .4}, resource.Vector{0, 1}, 2},
		"the best of those that can grow":         {resource.Vector{.1, .3}, resource.Vector{.4, .4}, resource.Vector{1, 1}, 0.75},
		"blocked ones do not count":               {resource.Vector{.1, .1}, resource.Vector{.1, .4}, resource.Vector{.1, 1}, 0.25},
		"all are blocked: the worst":              {resource.Vector{.1, .1}, resource.Vector{.2, .4}, resource.Vector{.2, .4}, 0.25},
		"one is above":                            {resource.Vector{.5, .1}, resource.Vector{.4, .4}, resource.Vector{1, 1}, 1.25},
		"of one there ought to be nothing at all": {resource.Vector{.5, .1}, resource.Vector{0, .4}, resource.Vector{0, 1}, resource.MaxSatisfaction},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			near(t, "satisfaction", fairshare.Satisfaction(tc.usage, tc.fair, tc.demand), tc.want)
		})
	}
}

// TestPoolSatisfaction is the least of those that have jobs to start, and the
// pool's own where none has.
func TestPoolSatisfaction(t *testing.T) {
	uses := func(cores float64) func(*fairshare.Element) {
		return func(e *fairshare.Element) { e.Usage = resource.Amounts{CPU: resource.Cores(cores)} }
	}
	a, b := operation("a", 100, 0, uses(20)), operation("b", 10, 0, uses(10))
	p := pool("p", holding(a, b))
	tree := tree(p)
	update(t, tree, cluster, begin)
	near(t, "of the one with jobs to start", p.PoolSatisfaction, 20./90)
	near(t, "and above it", tree.Root.PoolSatisfaction, 20./90)
	a.Demand = a.Usage
	update(t, tree, cluster, begin)
	if p.PoolSatisfaction != p.LocalSatisfaction || p.Schedulable() {
		t.Errorf("nothing to start: %v, local %v", p.PoolSatisfaction, p.LocalSatisfaction)
	}
}

func TestBestAllocationShare(t *testing.T) {
	nodes := []fairshare.NodeMemory{{Bytes: 100, Nodes: 2}, {Bytes: 200, Nodes: 1}}
	total := resource.Amounts{UserSlots: 30, Memory: 400}
	cases := map[string]struct {
		demand resource.Amounts
		want   float64
	}{
		"a job that fits the great node once": {resource.Amounts{UserSlots: 3, Memory: 450}, 150. / 400},
		"small jobs lose little":              {resource.Amounts{UserSlots: 1, Memory: 30}, 360. / 400},
		"no memory":                           {resource.Amounts{UserSlots: 1}, 1},
		"no jobs":                             {resource.Amounts{}, 1},
		"a job that fits nowhere":             {resource.Amounts{UserSlots: 1, Memory: 300}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := fairshare.BestAllocationShare(tc.demand, total, nodes)
			near(t, "memory", got[resource.Memory], tc.want)
			near(t, "cpu", got[resource.CPU], 1)
		})
	}
	if got := fairshare.BestAllocationShare(resource.Amounts{UserSlots: 1, Memory: 1}, resource.Amounts{}, nil); got != resource.Ones {
		t.Errorf("in an empty cluster: %v", got)
	}
}

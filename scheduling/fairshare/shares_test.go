package fairshare_test

import (
	"math"
	"testing"
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// shares are the shares of cpu and memory of elements.
type shares map[string][2]float64

// sharesCase is a tree, and what follows for it from the rules by hand.
type sharesCase struct {
	children []*fairshare.Element
	set      func(*fairshare.Options)
	want     shares
}

// hungry returns an operation that wants ten times the cpu of the cluster.
func hungry(id string, set ...func(*fairshare.Element)) *fairshare.Element {
	return operation(id, 1000, 0, set...)
}

// checkShares updates each tree and compares the fair shares.
func checkShares(t *testing.T, cases map[string]sharesCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tree := tree(tc.children...)
			if tc.set != nil {
				tc.set(&tree.Options)
			}
			update(t, tree, cluster, begin)
			all := byID(tree)
			for id, want := range tc.want {
				near(t, id+" cpu", all[id].FairShare[resource.CPU], want[0])
				near(t, id+" memory", all[id].FairShare[resource.Memory], want[1])
			}
		})
	}
}

// TestSharesByWeight has demand that weights divide.
func TestSharesByWeight(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"all demand fits": {
			children: []*fairshare.Element{operation("a", 10, 100), operation("b", 20, 50)},
			want:     shares{"a": {0.1, 0.1}, "b": {0.2, 0.05}, "<Root>": {0.3, 0.15}},
		},
		"weights divide one resource": {
			children: []*fairshare.Element{hungry("a", weight(3)), hungry("b")},
			want:     shares{"a": {0.75}, "b": {0.25}},
		},
		"what the small one leaves goes to the others": {
			children: []*fairshare.Element{operation("a", 10, 0), hungry("b"), hungry("c", weight(2))},
			want:     shares{"a": {0.1}, "b": {0.3}, "c": {0.6}},
		},
		"dominant shares are equal": {
			children: []*fairshare.Element{operation("a", 400, 1000), operation("b", 100, 4000)},
			want:     shares{"a": {0.8, 0.2}, "b": {0.2, 0.8}},
		},
		"all weights 0": {
			children: []*fairshare.Element{hungry("a", weight(0)), pool("p", weight(0), guaranteed(20), holding(hungry("c")))},
			want:     shares{"a": {0}, "p": {0.2}},
		},
		"usage counts first, then demand": {
			children: []*fairshare.Element{
				operation("a", 100, 0, func(e *fairshare.Element) { e.Usage = resource.Amounts{Memory: 500}; e.Demand.Memory = 500 }), operation("b", 40, 0)},
			want: shares{"a": {0.6, 0.5}, "b": {0.4, 0}},
		},
	})
}

// TestSharesOfScarceResources has resources that run out, or that no job can use.
func TestSharesOfScarceResources(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"one resource that is gone stops all": {
			children: []*fairshare.Element{hungry("a"), operation("m", 0, 1000)},
			want:     shares{"a": {1, 0}, "m": {0, 1}},
		},
		"one resource that is gone stops all, and memory idles": {
			children: []*fairshare.Element{hungry("a", weight(2)), operation("m", 0, 1000)},
			want:     shares{"a": {1, 0}, "m": {0, 0.5}},
		},
		"one resource that is gone stops all, also where rounding leaves a trace of it": {
			children: []*fairshare.Element{
				pool("p", weight(7), holding(operation("s", 1, 0), hungry("a", weight(2)), hungry("b"))), operation("m", 0, 1000)},
			want: shares{"p": {1, 0}, "s": {0.01}, "a": {0.66}, "b": {0.33}, "m": {0, 1. / 7}},
		},
		"memory that no job can use": {
			children: []*fairshare.Element{operation("a", 1, 900, func(e *fairshare.Element) { e.BestAllocation[resource.Memory] = 0.45 })},
			want:     shares{"a": {0.005, 0.45}},
		},
	})
}

// TestSharesAboveGuarantees has pools that strong guarantees and weights divide.
func TestSharesAboveGuarantees(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"weight 0 has its guarantee alone": {
			children: []*fairshare.Element{hungry("a", weight(0)), operation("b", 40, 0), pool("p", weight(0), guaranteed(20), holding(hungry("c")))},
			want:     shares{"a": {0}, "b": {0.4}, "p": {0.2}, "c": {0.2}},
		},
		"weights act above guarantees": {
			children: []*fairshare.Element{pool("a", guaranteed(60), holding(hungry("x"))), pool("b", guaranteed(20), holding(hungry("y")))},
			want:     shares{"a": {0.7}, "b": {0.3}},
		},
		"weights act above guarantees, 3 to 1": {
			children: []*fairshare.Element{pool("a", weight(3), guaranteed(60), holding(hungry("x"))), pool("b", guaranteed(20), holding(hungry("y")))},
			want:     shares{"a": {0.75}, "b": {0.25}},
		},
		"a third pool without guarantee": {
			children: []*fairshare.Element{
				pool("a", guaranteed(60), holding(hungry("x"))), pool("b", guaranteed(20), holding(hungry("y"))), pool("c", holding(hungry("z")))},
			want: shares{"a": {2. / 3}, "b": {0.2 + 1./15}, "c": {1. / 15}},
		},
		"weights inferred from guarantees": {
			children: []*fairshare.Element{
				pool("a", guaranteed(30), unweighted, holding(hungry("x"))), pool("b", guaranteed(10), unweighted, holding(hungry("y")))},
			set:  func(o *fairshare.Options) { o.InferWeight = 10 },
			want: shares{"a": {0.75}, "b": {0.25}},
		},
		"weights that could be inferred are 1 by default": {
			children: []*fairshare.Element{
				pool("a", guaranteed(30), unweighted, holding(hungry("x"))), pool("b", guaranteed(10), unweighted, holding(hungry("y")))},
			want: shares{"a": {0.6}, "b": {0.4}},
		},
	})
}

// TestSharesOfGangs has gangs, which run whole or not at all.
func TestSharesOfGangs(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"a discontinuity leaves cluster idle": {
			children: []*fairshare.Element{
				pool("f", guaranteed(60), fifo(), holding(operation("g", 70, 0, gang))), pool("c", guaranteed(40), holding(hungry("x")))},
			set:  func(o *fairshare.Options) { o.GangStep = true },
			want: shares{"f": {0}, "c": {0.5}},
		},
		"gangs that jump together both wait": {
			children: []*fairshare.Element{operation("a", 60, 0, gang), operation("b", 60, 0, gang)},
			set:      func(o *fairshare.Options) { o.GangStep = true },
			want:     shares{"a": {0}, "b": {0}},
		},
		"one after another, the first one runs": {
			children: []*fairshare.Element{operation("a", 60, 0, gang), operation("b", 60, 0, gang)},
			set:      func(o *fairshare.Options) { o.GangStep, o.VectorFitFactor = true, true },
			want:     shares{"a": {0.6}, "b": {0}},
		},
		"a gang of the whole cluster never starts": {
			children: []*fairshare.Element{operation("a", 100, 0, gang)},
			set:      func(o *fairshare.Options) { o.GangStep = true },
			want:     shares{"a": {0}},
		},
		"a pool without the step takes gangs as others": {
			children: []*fairshare.Element{pool("p", func(e *fairshare.Element) { e.Pool.GangStep = false }, holding(operation("a", 100, 0, gang)))},
			set:      func(o *fairshare.Options) { o.GangStep = true },
			want:     shares{"a": {1}},
		},
	})
}

// TestSharesWithinLimits has operations and pools that limits hold back.
func TestSharesWithinLimits(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"limits of operations and pools": {
			children: []*fairshare.Element{hungry("a", limited(10)), pool("p", limited(30), holding(hungry("b"), hungry("c")))},
			want:     shares{"a": {0.1}, "p": {0.3}, "b": {0.15}},
		},
		"a max share ratio is a part of the parent's limits": {
			children: []*fairshare.Element{pool("p", limited(50), holding(hungry("a", ratio(0.5)), pool("q", ratio(0.2), holding(hungry("b", ratio(1))))))},
			want:     shares{"a": {0.25}, "q": {0.1}, "b": {0.1}, "p": {0.35}},
		},
		"a max share ratio of 0": {
			children: []*fairshare.Element{hungry("a", ratio(0)), operation("b", 5, 0)},
			want:     shares{"a": {0}, "b": {0.05}},
		},
	})
}

// TestSharesInOrder has FIFO pools.
func TestSharesInOrder(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"first in, first out": {
			children: []*fairshare.Element{pool("p", fifo(), holding(
				operation("late", 60, 0, rank(2)), operation("early", 60, 0, rank(1)), operation("heavy", 10, 0, rank(3), weight(2))))},
			want: shares{"heavy": {0.1}, "early": {0.6}, "late": {0.3}},
		},
		"sorted by pending jobs": {
			children: []*fairshare.Element{pool("p", fifo(fairshare.ByPendingJobs, fairshare.ByStartTime), holding(
				operation("many", 60, 0, rank(1), pending(9)), operation("few", 60, 0, rank(2), pending(3))))},
			want: shares{"few": {0.6}, "many": {0.4}},
		},
		"sorted by start time alone": {
			children: []*fairshare.Element{pool("p", fifo(fairshare.ByStartTime), holding(
				operation("light", 60, 0, rank(1)), operation("heavy", 60, 0, rank(2), weight(2))))},
			want: shares{"light": {0.6}, "heavy": {0.4}},
		},
	})
}

// TestSharesOfNothing has trees and pools without operations.
func TestSharesOfNothing(t *testing.T) {
	checkShares(t, map[string]sharesCase{
		"an empty tree":           {want: shares{"<Root>": {0, 0}}},
		"an empty pool":           {children: []*fairshare.Element{pool("p"), hungry("a")}, want: shares{"p": {0, 0}, "a": {1}}},
		"an empty pool with fifo": {children: []*fairshare.Element{pool("p", fifo()), hungry("a")}, want: shares{"p": {0, 0}, "a": {1}}},
	})
}

func ratio(r float64) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.MaxShareRatio = r }
}

func rank(r int64) func(*fairshare.Element) { return func(e *fairshare.Element) { e.Rank = r } }

func pending(n int64) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.PendingJobs = n }
}

func unweighted(e *fairshare.Element) { e.InferWeight = true }

// TestExampleOfThePaper is Ghodsi et al., NSDI 2011, section 4.1: of 9 cpus and
// 18 GB, A runs three tasks of (1 cpu, 4 GB), B two of (3 cpus, 1 GB).
func TestExampleOfThePaper(t *testing.T) {
	const gb = 1 << 30
	total := resource.Amounts{CPU: resource.Cores(9), Memory: 18 * gb}
	a, b := operation("a", 100, 400*gb), operation("b", 300, 100*gb)
	update(t, tree(a, b), total, begin)
	if want := (resource.Vector{0, 3. / 9, 0, 12. / 18, 0}); !a.FairShare.Near(want, resource.Epsilon) {
		t.Errorf("a has %v, want %v", a.FairShare, want)
	}
	if want := (resource.Vector{0, 6. / 9, 0, 2. / 18, 0}); !b.FairShare.Near(want, resource.Epsilon) {
		t.Errorf("b has %v, want %v", b.FairShare, want)
	}
}

func TestEmptyCluster(t *testing.T) {
	tree := tree(pool("p", guaranteed(10), integral(fairshare.Integral{Type: fairshare.Burst, Flow: cluster, Burst: cluster}), holding(operation("a", 1, 1))))
	update(t, tree, cluster, begin)
	volume := tree.Root.Children[0].Pool.Volume
	for _, e := range collect(tree.Root) {
		e.FairShare = resource.Ones
	}
	update(t, tree, resource.Amounts{}, begin.Add(1e9))
	for _, e := range collect(tree.Root) {
		if !e.FairShare.IsZero() {
			t.Errorf("%s has %v of nothing", e.ID, e.FairShare)
		}
	}
	if got := tree.Root.Children[0].Pool.Volume; got != volume {
		t.Errorf("volume %+v in an empty cluster, was %+v", got, volume)
	}
}

func TestWeightsThatCannotBe(t *testing.T) {
	for name, w := range map[string]float64{"negative": -1, "not a number": math.NaN(), "infinite": math.Inf(1)} {
		if _, err := tree(operation("a", 1, 0, weight(w))).Update(cluster, begin); err == nil {
			t.Errorf("a %s weight is taken", name)
		}
	}
}

// TestUpdateAllocatesNothing once its memory has grown.
func TestUpdateAllocatesNothing(t *testing.T) {
	for name, set := range map[string]func(*fairshare.Options){
		"scalar": func(*fairshare.Options) {},
		"vector": func(o *fairshare.Options) { o.VectorFitFactor = true },
		"reordering": func(o *fairshare.Options) {
			o.GangStep, o.FIFOReordering = true, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoad(200, 20, 2, fairshare.FIFO)
			set(&l.tree.Options)
			l.tree.Options.DistributesFreeVolume = true
			collected := collect(l.tree.Root)
			l.tree.Options.CapacityPeriod = 10 * time.Second
			visit(l.tree.Root, func(e *fairshare.Element) {
				e.Gang = e.Pool == nil
				if e.Pool != nil {
					e.Pool.FIFOReordering = new(true)
				}
				if e.Pool != nil && e.Pool.Mode == fairshare.FIFO {
					e.Pool.Integral = fairshare.Integral{Type: fairshare.Burst, Flow: l.total.Scale(.02), Burst: l.total.Scale(.04), AcceptsFreeVolume: true}
				}
			})
			update := func() {
				for i, e := range collected {
					if e.Pool != nil {
						// Every other one overflows, to those in between.
						e.Pool.Volume, e.Pool.LastShareRatio = e.Pool.Capacity.Scale(float64(i%2)), 0
					}
				}
				l.now = l.now.Add(1e9)
				if _, err := l.tree.Update(l.total, l.now); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				update()
			}
			if n := testing.AllocsPerRun(20, update); n > 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

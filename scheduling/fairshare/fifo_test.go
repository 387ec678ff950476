package fairshare_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

func started(rank int64) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.Rank = rank }
}

func waiting(jobs int64) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.PendingJobs = jobs }
}

// subpoolsCase is a FIFO pool with pools in it.
type subpoolsCase struct {
	children []*fairshare.Element
	by       []fairshare.SortKey
	// want is the order, wantCPU what they get of 100 cores.
	want    string
	wantCPU map[string]float64
}

// checkSubpools compares the order of the children and what they get, by the scalar rule and by the vector rule.
func checkSubpools(t *testing.T, cases map[string]subpoolsCase) {
	t.Helper()
	for name, tc := range cases {
		for mode, vector := range map[string]bool{"": false, ", vector mode": true} {
			t.Run(name+mode, func(t *testing.T) {
				p := pool("p0", fifo(tc.by...), guaranteed(100), holding(slices.Clone(tc.children)...))
				tree := tree(p)
				tree.Options.VectorFitFactor = vector
				update(t, tree, cluster, begin)
				var order []string
				for i, c := range p.Children {
					order = append(order, c.ID)
					if int(c.FIFOIndex) != i {
						t.Errorf("%s is at %d, its index is %d", c.ID, i, c.FIFOIndex)
					}
				}
				if got := strings.Join(order, " "); got != tc.want {
					t.Errorf("order %s, want %s", got, tc.want)
				}
				all := byID(tree)
				for id, want := range tc.wantCPU {
					if got := 100 * all[id].FairShare[resource.CPU]; math.Abs(got-want) > 1e-6 {
						t.Errorf("%s gets %v cores, want %v", id, got, want)
					}
				}
			})
		}
	}
}

// TestFIFOSubpools: the pools and the operations of a FIFO pool are served in one order. A
// pool has its own weight, the start of the first operation below it, and the pending jobs
// of all; what it is guaranteed it gets before.
func TestFIFOSubpools(t *testing.T) {
	checkSubpools(t, map[string]subpoolsCase{
		"by start": {
			[]*fairshare.Element{
				pool("a", holding(operation("a1", 60, 0, started(5)))), pool("b", holding(operation("b2", 30, 0, started(9)), operation("b1", 30, 0, started(3)))),
				operation("o", 60, 0, started(4)),
			},
			[]fairshare.SortKey{fairshare.ByStartTime}, "b o a", map[string]float64{"b": 60, "b1": 30, "b2": 30, "o": 40, "a": 0},
		},
		"by the start of an operation further below": {
			[]*fairshare.Element{
				operation("o", 60, 0, started(4)), pool("a", holding(pool("c", holding(operation("c1", 10, 0, started(3)))), operation("a1", 60, 0, started(5)))),
			},
			[]fairshare.SortKey{fairshare.ByStartTime}, "a o", map[string]float64{"a": 70, "c": 10, "a1": 60, "o": 30},
		},
		"empty pools last": {
			[]*fairshare.Element{pool("a"), pool("b", holding(pool("c"))), operation("o", 60, 0, started(4))},
			[]fairshare.SortKey{fairshare.ByStartTime}, "o a b", map[string]float64{"o": 60, "a": 0},
		},
		"at once, pools first": {
			[]*fairshare.Element{operation("o", 60, 0, started(4)), pool("z", holding(operation("z1", 60, 0, started(4)))), pool("b", holding(operation("b1", 10, 0, started(4))))},
			nil, "b z o", map[string]float64{"b": 10, "z": 60, "o": 30},
		},
		"by weight, then start": {
			[]*fairshare.Element{
				pool("a", weight(2), holding(operation("a1", 60, 0, started(5), weight(0.5)))), pool("b", weight(3), holding(operation("b1", 50, 0, started(9)))),
				operation("o", 60, 0, started(1)), operation("p", 60, 0, started(7), weight(2)),
			},
			nil, "b a p o", map[string]float64{"b": 50, "a": 50, "p": 0, "o": 0},
		},
		"by pending jobs": {
			[]*fairshare.Element{
				pool("a", holding(operation("a1", 60, 0, waiting(3)), pool("c", holding(operation("c1", 1, 0, waiting(4)))))), operation("o", 30, 0, waiting(6)), operation("p", 60, 0, waiting(8)),
			},
			[]fairshare.SortKey{fairshare.ByPendingJobs}, "o a p", map[string]float64{"o": 30, "a": 61, "p": 9},
		},
		"a guarantee of the last": {
			[]*fairshare.Element{
				operation("o", 90, 0, started(1)), pool("a", guaranteed(20), holding(operation("a1", 60, 0, started(5)))),
				operation("p", 60, 0, started(7)),
			},
			[]fairshare.SortKey{fairshare.ByStartTime}, "o a p", map[string]float64{"o": 80, "a": 20, "p": 0},
		},
		"a FIFO pool in it": {
			[]*fairshare.Element{
				pool("a", fifo(fairshare.ByStartTime), holding(operation("a2", 60, 0, started(6)), pool("c", holding(operation("c1", 30, 0, started(2)))))), operation("o", 60, 0, started(4)),
			},
			[]fairshare.SortKey{fairshare.ByStartTime}, "a o", map[string]float64{"a": 90, "c": 30, "a2": 60, "o": 10},
		},
	})
}

// TestFIFOReorderingOfSubpools: a gang that does not fit the guarantee steps aside for a
// pool as it does for an operation; what does not fit and is no gang ends that.
func TestFIFOReorderingOfSubpools(t *testing.T) {
	p := pool("p0", fifo(fairshare.ByStartTime), guaranteed(50), holding(
		operation("big", 60, 0, gang, started(1)), pool("a", holding(operation("a1", 30, 0, started(2)))),
		pool("b", holding(operation("b1", 40, 0, started(3)))), operation("small", 5, 0, gang, started(4)),
	), func(e *fairshare.Element) { e.Pool.FIFOReordering = new(true) })
	tree := tree(p, pool("q", guaranteed(50), holding(operation("q1", 50, 0))))
	tree.Options.GangStep, tree.Options.FIFOReordering = true, true
	update(t, tree, cluster, begin)
	all := byID(tree)
	for i, id := range []string{"a", "b", "big", "small"} {
		if e := all[id]; int(e.EffectiveFIFOIndex) != i {
			t.Errorf("%s is at %d, want %d", id, e.EffectiveFIFOIndex, i)
		}
	}
	for id, want := range map[string]float64{"a": 30, "b": 20, "b1": 20, "big": 0, "small": 0, "q": 50} {
		if got := 100 * all[id].FairShare[resource.CPU]; math.Abs(got-want) > 1e-6 {
			t.Errorf("%s gets %v cores, want %v", id, got, want)
		}
	}
}

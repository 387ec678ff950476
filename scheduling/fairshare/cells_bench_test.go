package fairshare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// cellCount and poolCount are the size of BenchmarkCells. operationsPerPool are placed one by one.
const cellCount, poolCount, operationsPerPool = 10, 100, 20

// BenchmarkCells divides a cluster of 10 equal cells among 100 pools of unequal demand, 1.2 times
// what there is. Each operation is in one cell. A cell divides itself by weights: the part of its
// pool's share of the whole that corresponds to the part of the demand that is there. After each
// report of the cells, weights grow by what pools lack. It says how much of the cluster others have
// than those whose fair share it is, and which part of its share the worst pool has.
func BenchmarkCells(b *testing.B) {
	for _, tries := range []int{1, 2, cellCount} {
		for _, reports := range []int{1, 5} {
			b.Run(fmt.Sprintf("emptiest of %d/reports=%d", tries, reports), func(b *testing.B) {
				misplaced, least, runs := 0., 1., uint64(0)
				for b.Loop() {
					more, worst := newCells(b, rand.New(rand.NewPCG(runs, 1)), tries).run(b, reports)
					misplaced, least, runs = misplaced+more, min(least, worst), runs+1
				}
				b.ReportMetric(100*misplaced/float64(runs), "%-misplaced")
				b.ReportMetric(least, "worst-pool")
			})
		}
	}
}

// cells are the demands of pools in cells, and their weights. entitled are the pools' shares of the
// whole.
type cells struct {
	demands, weights [cellCount][]float64
	entitled         []float64
}

// newCells places operations, each in the emptiest of some cells at random.
func newCells(b *testing.B, random *rand.Rand, tries int) *cells {
	demand, sum := make([]float64, poolCount), 0.
	for p := range demand {
		demand[p] = math.Exp(1.2 * random.NormFloat64())
		sum += demand[p]
	}
	equal := make([]float64, poolCount)
	for p := range demand {
		demand[p], equal[p] = demand[p]*1.2/sum, 1
	}
	c := &cells{entitled: byWeight(b, 1, demand, equal)}
	for i := range c.demands {
		c.demands[i], c.weights[i] = make([]float64, poolCount), make([]float64, poolCount)
	}
	var load [cellCount]float64
	for i := range operationsPerPool * poolCount {
		p, at := i%poolCount, random.IntN(cellCount)
		for range tries - 1 {
			if other := random.IntN(cellCount); load[other] < load[at] {
				at = other
			}
		}
		load[at] += c.entitled[p]
		c.demands[at][p] += demand[p] / operationsPerPool
		c.weights[at][p] += c.entitled[p] / operationsPerPool
	}
	return c
}

// run divides the cells, once for each report.
func (c *cells) run(b *testing.B, reports int) (misplaced, worst float64) {
	for range reports {
		has := make([]float64, poolCount)
		for i := range c.demands {
			for p, share := range byWeight(b, 1./cellCount, c.demands[i], c.weights[i]) {
				has[p] += share
			}
		}
		misplaced, worst = 0, 1
		for p := range has {
			misplaced += max(c.entitled[p]-has[p], 0)
			worst = min(worst, has[p]/c.entitled[p])
			for i := range c.weights {
				c.weights[i][p] *= c.entitled[p] / has[p]
			}
		}
	}
	return misplaced, worst
}

// byWeight divides a part of the whole among demands.
func byWeight(b *testing.B, part float64, demands, weights []float64) []float64 {
	const whole = 1e6
	t := tree()
	for i, demand := range demands {
		op := operation(fmt.Sprint(i), demand*whole, 0, weight(max(weights[i], resource.Epsilon)))
		op.Rank = int64(i)
		t.Root.Children = append(t.Root.Children, op)
	}
	update(b, t, resource.Amounts{CPU: resource.Cores(part * whole)}, begin)
	shares := make([]float64, len(demands))
	visit(t.Root, func(e *fairshare.Element) {
		if e.Pool == nil {
			shares[e.Rank] = part * e.FairShare[resource.CPU]
		}
	})
	return shares
}

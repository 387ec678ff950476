package fairshare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// BenchmarkUpdate updates a tree in which demand and usage change all the time. A
// tenth of the pools bursts, a tenth is relaxed, all have strong guarantees over
// half of the cluster; together the operations demand three times what there is.
//
// An update is to take less than 20 ms for 10,000 operations in 1,000 pools, less
// than 300 ms for 100,000, and to allocate nothing.
func BenchmarkUpdate(b *testing.B) {
	for _, operations := range []int{1_000, 10_000, 100_000} {
		for _, pools := range []int{10, 100, 1_000} {
			if pools == operations {
				continue
			}
			for _, depth := range []int{2, 5} {
				for mode, name := range []string{"fair_share", "fifo"} {
					b.Run(fmt.Sprintf("operations=%d/pools=%d/depth=%d/%s", operations, pools, depth, name), func(b *testing.B) {
						benchmarkUpdate(b, newLoad(operations, pools, depth, fairshare.Mode(mode)))
					})
				}
			}
		}
	}
}

// BenchmarkUpdateVector is the vector mode, where children jump one by one.
func BenchmarkUpdateVector(b *testing.B) {
	l := newLoad(10_000, 1_000, 2, fairshare.FairShare)
	l.tree.Options.VectorFitFactor = true
	benchmarkUpdate(b, l)
}

// BenchmarkUpdateChanged updates a tree of 100,000 operations in 1,000 pools in which one operation
// wants more or less, or 1,000 do. Where there is room for all, that changes the shares of those
// alone; where all compete, it changes those of all. With volumes, a fifth of the pools has them, and
// more than it may spend.
//
// The goal is 2 ms after one change.
func BenchmarkUpdateChanged(b *testing.B) {
	for _, room := range []string{"room", "contended"} {
		for _, volumes := range []string{"plain", "volumes"} {
			for _, depth := range []int{1, 2, 5} {
				for _, changes := range []int{1, 1000} {
					b.Run(fmt.Sprintf("%s/%s/depth=%d/changes=%d", room, volumes, depth, changes), func(b *testing.B) {
						l := newLoad(100_000, 1000, depth, fairshare.FairShare)
						if room == "room" {
							l.total = l.total.Times(100)
						}
						visit(l.tree.Root, func(e *fairshare.Element) {
							switch {
							case e.Pool == nil:
							case volumes == "plain":
								e.Pool.Integral = fairshare.Integral{}
							default:
								e.Pool.Volume = resource.VolumeOf(l.total, time.Hour)
							}
						})
						l.benchmarkChanged(b, changes)
					})
				}
			}
		}
	}
}

func (l *load) benchmarkChanged(b *testing.B, changes int) {
	changed := make([]*fairshare.Element, changes)
	again := func() {
		for i := range changed {
			changed[i] = l.changeOne()
		}
		l.now = l.now.Add(200 * time.Millisecond)
	}
	update := func() {
		if _, err := l.tree.UpdateChanged(l.total, l.now, changed); err != nil {
			b.Fatal(err)
		}
	}
	l.update(b)
	for range 10 { // Memory grows to what it needs.
		again()
		update()
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		again()
		b.StartTimer()
		update()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ms/update")
}

func benchmarkUpdate(b *testing.B, l *load) {
	for range 3 { // Memory grows to what it needs.
		l.change()
		l.update(b)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		l.change()
		b.StartTimer()
		l.update(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(l.elements), "ns/element")
}

// load is a tree with operations that come and go.
type load struct {
	tree       *fairshare.Tree
	operations []*fairshare.Element
	elements   int
	total      resource.Amounts
	now        time.Time
	random     *rand.Rand
}

func newLoad(operations, pools, depth int, mode fairshare.Mode) *load {
	l := &load{
		tree:   fairshare.NewTree(fairshare.Default()),
		total:  resource.Amounts{UserSlots: 1e6, CPU: resource.Cores(1e6), GPU: 1e4, Memory: 4e15, Network: 1e6},
		now:    time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		random: rand.New(rand.NewPCG(1, 2)),
	}
	above := []*fairshare.Element{l.tree.Root}
	for level := 1; level <= depth; level++ {
		width := int(math.Round(math.Pow(float64(pools), float64(level)/float64(depth))))
		var siblings []*fairshare.Element
		for i := range width {
			p := fairshare.NewPool(fmt.Sprintf("pool-%d-%d", level, i))
			p.Weight = float64(1 + i%5)
			p.Pool.StrongGuarantee = guarantee(l.total.Scale(0.5 / float64(width)))
			parent := above[i%len(above)]
			parent.Children = append(parent.Children, p)
			siblings = append(siblings, p)
			l.elements++
		}
		above = siblings
	}
	for i, p := range above {
		p.Pool.Mode = mode
		part := l.total.Scale(0.5 / float64(pools))
		switch i % 10 {
		case 0:
			p.Pool.Integral = fairshare.Integral{Type: fairshare.Burst, Flow: part, Burst: part.Scale(2), AcceptsFreeVolume: true}
		case 1:
			p.Pool.Integral = fairshare.Integral{Type: fairshare.Relaxed, Flow: part, AcceptsFreeVolume: true}
		}
	}
	for i := range operations {
		op := fairshare.NewOperation(fmt.Sprintf("operation-%06d", i))
		op.Rank = int64(i)
		op.Weight = float64(1 + i%3)
		p := above[i%len(above)]
		p.Children = append(p.Children, op)
		l.operations = append(l.operations, op)
		l.elements++
		job := resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 + l.random.Int64N(400)), Memory: 1e9 + l.random.Int64N(8e9)}
		l.shape(op, job, int64(operations))
	}
	return l
}

func guarantee(a resource.Amounts) fairshare.Guarantee {
	return fairshare.Guarantee{Amounts: a, Named: [resource.Count]bool{resource.CPU: true}}
}

// change gives every tenth operation another demand and usage.
func (l *load) change() {
	for range len(l.operations) / 10 {
		l.changeOne()
	}
}

// changeOne gives one operation another demand and usage.
func (l *load) changeOne() *fairshare.Element {
	op := l.operations[l.random.IntN(len(l.operations))]
	job := resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 + l.random.Int64N(400)), Memory: 1e9 + l.random.Int64N(8e9)}
	l.shape(op, job, int64(len(l.operations)))
	return op
}

func (l *load) shape(op *fairshare.Element, job resource.Amounts, operations int64) {
	fair := max(1e6/operations/3, 1)
	op.Usage = job.Times(l.random.Int64N(fair))
	op.Demand = op.Usage.Add(job.Times(l.random.Int64N(6 * fair)))
}

func (l *load) update(t testing.TB) {
	l.now = l.now.Add(200 * time.Millisecond)
	update(t, l.tree, l.total, l.now)
}

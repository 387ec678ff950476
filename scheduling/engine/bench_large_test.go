package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// BenchmarkLarge is beyond what one leader serves: 100,000 nodes with 1,000,000 running jobs of
// 10,000 operations in 1,000 pools, which want three times as many. Jobs end and others start, fair
// shares are updated, and all nodes are emptied and filled again. It takes 2 GB of memory.
func BenchmarkLarge(b *testing.B) {
	const nodes, each, parents, leaves, ops = 100_000, 10, 20, 50, 10
	before := heap()
	load := &large{bench: newBench(b, nodes, resource.Amounts{UserSlots: each, CPU: 400 * each, Memory: 128 << 30}, 0)}
	empty := heap()
	for p := range parents {
		parent := load.pool(b, fmt.Sprintf("parent-%02d", p), string(scheduling.RootPool))
		for l := range leaves {
			leaf := load.pool(b, fmt.Sprintf("leaf-%02d-%02d", p, l), string(parent))
			for i := range ops {
				load.operation(b, (p*leaves+l)*ops+i, leaf, 3*nodes*each/(parents*leaves*ops), shapes[i%len(shapes)])
			}
		}
	}
	load.at = begin
	load.update(b, load.at)
	operations := heap()
	load.jobs = make([]placed, 0, nodes*each)
	load.name(nodes * each)
	names := heap()
	load.fill(b, nodes*each)
	tell(b, "%.0f bytes a node, %.0f an operation, %.0f a running job", float64(empty-before)/nodes, float64(operations-empty)/(parents*leaves*ops), float64(heap()-names)/(nodes*each))
	b.Run("fill", func(b *testing.B) {
		var d decided
		for b.Loop() {
			for len(load.jobs) > 0 {
				load.end(b, len(load.jobs)-1)
			}
			load.demand(b)
			load.name(nodes * each)
			load.update(b, load.at)
			d.measure(func() int { return load.fill(b, nodes*each) })
		}
		d.report(b, "1,000,000 jobs on 100,000 empty nodes")
	})
	b.Run("refill", load.refill)
	b.Run("update", load.updates)
}

// heap is what is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// large knows where jobs run.
type large struct {
	*bench
	at    time.Time
	jobs  []placed
	named int
}

type placed struct {
	name scheduling.JobID
	node scheduling.NodeID
}

// name makes names for n jobs, which are not measured, in ascending order.
func (l *large) name(n int) {
	l.names = l.names[:0]
	for range n {
		l.names = append(l.names, scheduling.JobID(fmt.Sprintf("job-%010d", l.named)))
		l.named++
	}
}

// beat commits what is planned for some nodes, and returns how many starts that is.
func (l *large) beat(b *testing.B, nodes []scheduling.NodeID) int {
	plan := l.Heartbeat(l.at, nodes)
	for _, start := range plan.Starts {
		job := placed{l.names[0], start.Node}
		l.names = l.names[1:]
		if err := l.Commit(start.Ticket, job.name, l.at); err != nil {
			b.Fatal(err)
		}
		l.jobs = append(l.jobs, job)
	}
	return len(plan.Starts)
}

// end ends a job, and returns its node.
func (l *large) end(b *testing.B, i int) scheduling.NodeID {
	job := l.jobs[i]
	must(b, l.RemoveAllocation(job.name))
	l.jobs[i] = l.jobs[len(l.jobs)-1]
	l.jobs = l.jobs[:len(l.jobs)-1]
	return job.node
}

// fill fills all nodes, a thousand at a time.
func (l *large) fill(b *testing.B, want int) (starts int) {
	for nodes := range slices.Chunk(l.nodes, 1000) {
		starts += l.beat(b, nodes)
	}
	if starts != want {
		b.Fatalf("%d jobs started, want %d", starts, want)
	}
	return starts
}

// refill ends 1000 jobs at random, and others start in their place.
func (l *large) refill(b *testing.B) {
	var d decided
	chance := rand.New(rand.NewPCG(1, 2))
	nodes := make([]scheduling.NodeID, 1000)
	for b.Loop() {
		for i := range nodes {
			nodes[i] = l.end(b, chance.IntN(len(l.jobs)))
		}
		l.name(len(nodes))
		l.demand(b)
		d.measure(func() int { return l.beat(b, nodes) })
	}
	d.report(b, "jobs end at random and others start")
}

// updates updates fair shares when some operations want more or less.
func (l *large) updates(b *testing.B) {
	for _, changes := range []int{1, 1000, len(l.wants)} {
		b.Run(fmt.Sprintf("changes=%d", changes), func(b *testing.B) {
			var took time.Duration
			pending := int64(200)
			for b.Loop() {
				pending++
				for i := range changes {
					id := scheduling.OperationID(fmt.Sprintf("operation-%05d", i*len(l.wants)/changes))
					must(b, l.SetDemand(id, "task", 0, pending, shapes[i%len(shapes)]))
				}
				l.at = l.at.Add(time.Millisecond)
				began := time.Now()
				l.update(b, l.at)
				took += time.Since(began)
			}
			ms := float64(took) / float64(b.N) / float64(time.Millisecond)
			b.ReportMetric(ms, "ms/update")
			tell(b, "an update after changes of %d of 10,000 operations: %.1f ms, goal 20", changes, ms)
		})
	}
}

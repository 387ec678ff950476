package engine_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// bench is an engine under load: nodes of one shape, operations of several
// shapes spread over pools, all with more pending jobs than can run.
type bench struct {
	*engine.Engine
	nodes []scheduling.NodeID
	jobs  []scheduling.JobID
}

func newBench(b *testing.B, nodes int, node resource.Amounts, pools, operations int, shapes ...resource.Amounts) *bench {
	b.Helper()
	load := &bench{Engine: newEngine(b)}
	for i := range nodes {
		id := scheduling.NodeID(fmt.Sprintf("node-%04d", i))
		load.nodes = append(load.nodes, id)
		load.must(b, load.SetNode(id, node, true))
	}
	for i := range pools {
		load.must(b, load.SetPool(poolName(i), scheduling.RootPool, pooltree.DefaultWeight))
	}
	for i := range operations {
		id := scheduling.OperationID(fmt.Sprintf("operation-%04d", i))
		load.must(b, load.AddOperation(engine.Operation{
			ID: id, Pool: poolName(i % pools), Weight: 1, Started: begin.Add(time.Duration(i)), Enabled: true}))
		load.must(b, load.SetDemand(id, "task", 1<<40, shapes[i%len(shapes)]))
	}
	_, err := load.Tick(begin)
	load.must(b, err)
	return load
}

func poolName(i int) scheduling.PoolName { return scheduling.PoolName(fmt.Sprintf("pool-%03d", i)) }

func (l *bench) must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// heartbeat commits what is planned for all nodes and returns how much that is.
func (l *bench) heartbeat(b *testing.B) int {
	plan := l.Heartbeat(begin, l.nodes)
	for _, start := range plan.Starts {
		job := scheduling.JobID(fmt.Sprintf("job-%d", start.Ticket))
		l.must(b, l.Commit(start.Ticket, job, begin))
		l.jobs = append(l.jobs, job)
	}
	return len(plan.Starts)
}

// BenchmarkHeartbeat plans 10,000 starts on 2,000 empty nodes, for 400
// operations in 40 pools, and takes them back unmeasured.
func BenchmarkHeartbeat(b *testing.B) {
	load := newBench(b, 2000, resource.Amounts{UserSlots: 32, CPU: 3200, Memory: 128 << 30}, 40, 400,
		resource.Amounts{UserSlots: 1, CPU: 100, Memory: 4 << 30}, resource.Amounts{UserSlots: 1, CPU: 200, Memory: 4 << 30},
		resource.Amounts{UserSlots: 1, CPU: 100, Memory: 8 << 30}, resource.Amounts{UserSlots: 1, CPU: 400, Memory: 8 << 30})
	starts := 0
	b.ReportAllocs()
	for b.Loop() {
		plan := load.Heartbeat(begin, load.nodes)
		starts += len(plan.Starts)
		b.StopTimer()
		for _, start := range plan.Starts {
			load.must(b, load.Reject(start.Ticket))
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(starts)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkRefill ends 100 of 6,400 jobs on 200 full nodes, updates the fair
// shares, and fills the nodes again, for 200 operations in few or many pools.
func BenchmarkRefill(b *testing.B) {
	for _, pools := range []int{40, 200} {
		b.Run(fmt.Sprintf("pools=%d", pools), func(b *testing.B) {
			load := newBench(b, 200, resource.Amounts{UserSlots: 32}, pools, 200, resource.Amounts{UserSlots: 1})
			load.heartbeat(b)
			refills, at := 0, begin
			b.ReportAllocs()
			for b.Loop() {
				for range 100 {
					// Any job will do, as long as every run takes the same.
					i := refills * 61 % (len(load.jobs) - 1)
					load.must(b, load.RemoveAllocation(load.jobs[i]))
					load.jobs[i] = load.jobs[len(load.jobs)-1]
					load.jobs = load.jobs[:len(load.jobs)-1]
				}
				at = at.Add(time.Second)
				_, err := load.Tick(at)
				load.must(b, err)
				refills += load.heartbeat(b)
			}
			b.ReportMetric(float64(refills)/b.Elapsed().Seconds(), "refills/s")
		})
	}
}

// TestNoAllocation: an update, and a look at nodes on which nothing can start, take no
// memory, with limits and filters as well.
func TestNoAllocation(t *testing.T) {
	w := newWorld(t, nil, map[scheduling.PoolName]pool{
		"a": {options: options{"resource_limits": options{"user_slots": 3.0}}}, "b": {options: options{"scheduling_tag_filter": "gpu"}}, "c": {options: options{"mode": "fifo"}},
	})
	nodes := []scheduling.NodeID{"n1", "n2"}
	w.node("n1", 8)
	w.node("n2", 8, "gpu")
	for i := range 6 {
		w.operation(scheduling.OperationID(fmt.Sprint("o", i)), scheduling.PoolName("abc"[i%3:i%3+1]), 100, nil)
	}
	w.tick(0)
	w.starts(nodes...)
	if got := testing.AllocsPerRun(100, func() {
		w.tick(time.Millisecond)
		if plan := w.Heartbeat(w.now, nodes); len(plan.Starts) > 0 {
			t.Fatalf("%d jobs start", len(plan.Starts))
		}
	}); got > 0 {
		t.Errorf("%v allocations a round", got)
	}
}

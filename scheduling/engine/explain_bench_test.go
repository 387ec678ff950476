package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// asked has 10,000 full nodes, and an operation of 100 tasks below its fair share that
// finds no room on them.
func asked(b *testing.B) *bench {
	const nodes, each, tasks = 10_000, 10, 100
	load := newBench(b, nodes, resource.Amounts{UserSlots: each, CPU: 100 * each, Memory: each << 30}, nodes*each)
	a, other := load.pool(b, "a", string(scheduling.RootPool)), load.pool(b, "b", string(scheduling.RootPool))
	perJob := resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
	for i := range 10 {
		load.operation(b, i, a, nodes*each, perJob)
	}
	load.update(b, begin)
	for started := 1; started > 0; {
		started = load.heartbeat(b, begin)
	}
	must(b, load.AddOperation(engine.Operation{ID: "op", Pool: other, Weight: 1, Started: begin, Enabled: true}))
	for i := range tasks {
		must(b, load.SetDemand("op", scheduling.TaskName(fmt.Sprintf("task-%03d", i)), 0, 1000, perJob.Times(int64(1+i%each))))
	}
	load.update(b, begin.Add(time.Second))
	return load
}

// BenchmarkExplain asks why an operation waits, and why a pool of 1,000 operations does,
// and says for how long whoever decides is held up: by the longest step, and by all of
// them. Fair shares are updated before each question, so that nothing is known yet.
func BenchmarkExplain(b *testing.B) {
	load := asked(b)
	now := begin.Add(time.Second)
	next := func() {
		now = now.Add(200 * time.Millisecond)
		load.update(b, now)
	}
	b.Run("operation", func(b *testing.B) {
		var seen steps
		for b.Loop() {
			next()
			load.ask(b, &seen, func() (*engine.Inquiry, error) { return load.Inquire("op", now) })
		}
		seen.report(b, "10,000 nodes, 100 tasks")
	})
	perJob := resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
	for i := range 1000 {
		load.operation(b, 100+i, "b", 1, perJob.Times(int64(1+i%10)))
	}
	b.Run("pool", func(b *testing.B) {
		var seen steps
		for b.Loop() {
			next()
			load.ask(b, &seen, func() (*engine.Inquiry, error) { return load.InquirePool("b", now) })
		}
		seen.report(b, "10,000 nodes, 1,000 operations")
	})
}

// BenchmarkEstimate asks when an operation starts a job that is one of 1,000 that wait on 10,000 nodes
// with 100,000 jobs, of which 5,000 have ended.
func BenchmarkEstimate(b *testing.B) {
	load := asked(b)
	perJob := resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
	for i := range 1000 {
		load.operation(b, 100+i, "b", 10, perJob)
	}
	now := begin.Add(10 * time.Second)
	ended := load.jobs[:5000]
	load.jobs = load.jobs[5000:]
	for _, job := range ended {
		must(b, load.RemoveAllocation(job))
	}
	load.update(b, now)
	load.heartbeat(b, now)
	const id = "operation-01000"
	load.update(b, now)
	x, err := load.Explain(id, now)
	must(b, err)
	if x.StartBy != explain.ByEnds {
		b.Fatalf("no estimate by jobs that end: %s", x.StartBy)
	}
	var seen steps
	for b.Loop() {
		now = now.Add(200 * time.Millisecond)
		load.update(b, now)
		load.ask(b, &seen, func() (*engine.Inquiry, error) { return load.Inquire(id, now) })
	}
	seen.report(b, "10,000 nodes, 1,000 waiting operations")
}

// BenchmarkEstimateOfCrowds is BenchmarkEstimate with 100,000 operations of one running job each, and 1,000 that wait.
func BenchmarkEstimateOfCrowds(b *testing.B) {
	const nodes, each = 10_000, 10
	load := newBench(b, nodes, resource.Amounts{UserSlots: each, CPU: 100 * each, Memory: each << 30}, nodes*each)
	a, other := load.pool(b, "a", string(scheduling.RootPool)), load.pool(b, "b", string(scheduling.RootPool))
	perJob := resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
	for i := range nodes * each {
		load.operation(b, i, a, 1, perJob)
	}
	now := begin
	load.update(b, now)
	for started := 1; started > 0; {
		started = load.heartbeat(b, now)
	}
	for i := range 1000 {
		load.operation(b, nodes*each+i, other, 10, perJob)
	}
	now = begin.Add(10 * time.Second)
	ended := load.jobs[:500]
	load.jobs = load.jobs[500:]
	for _, job := range ended {
		must(b, load.RemoveAllocation(job))
	}
	load.update(b, now)
	load.heartbeat(b, now)
	const id = "operation-100900"
	load.update(b, now)
	x, err := load.Explain(id, now)
	must(b, err)
	if x.StartBy != explain.ByEnds {
		b.Fatalf("no estimate by jobs that end: %s: %v", x.StartBy, x.Facts)
	}
	var seen steps
	for b.Loop() {
		now = now.Add(200 * time.Millisecond)
		load.update(b, now)
		load.ask(b, &seen, func() (*engine.Inquiry, error) { return load.Inquire(id, now) })
	}
	seen.report(b, "10,000 nodes, 101,000 operations")
}

// steps are how long the engine was held up by each step of an inquiry, and what was found
// beside it took, each time.
type steps struct {
	engine [][]time.Duration
	beside []time.Duration
}

// report says what each step takes: the median of all times, for others use the machine.
func (s *steps) report(b *testing.B, what string) {
	var longest, all time.Duration
	for _, took := range s.engine {
		slices.Sort(took)
		longest, all = max(longest, took[len(took)/2]), all+took[len(took)/2]
	}
	slices.Sort(s.beside)
	b.ReportMetric(float64(longest.Microseconds()), "us-longest-step")
	tell(b, "%s: the engine is held up for %v at once, goal 1ms, for %v in %d steps; %v beside it", what, longest, all, len(s.engine), s.beside[len(s.beside)/2])
}

// ask goes through an inquiry, and measures each step.
func (l *bench) ask(b *testing.B, seen *steps, begin func() (*engine.Inquiry, error)) {
	n := 0
	step := func(run func()) {
		began := time.Now()
		run()
		if n == len(seen.engine) {
			seen.engine = append(seen.engine, nil)
		}
		seen.engine[n] = append(seen.engine[n], time.Since(began))
		n++
	}
	var q *engine.Inquiry
	var err error
	step(func() { q, err = begin() })
	must(b, err)
	beside := time.Duration(0)
	for done := false; !done; {
		for q.Wants() {
			step(func() { l.Attend(q) })
		}
		began := time.Now()
		done = q.Reason()
		beside += time.Since(began)
	}
	seen.beside = append(seen.beside, beside)
}

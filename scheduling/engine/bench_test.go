package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// told has a line a figure, with its goal, which TestMain prints last.
var told []string

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, line := range told {
		fmt.Println(line)
	}
	os.Exit(code)
}

// tell keeps the last line of a benchmark, which runs several times.
func tell(b *testing.B, format string, args ...any) {
	line := b.Name() + ": " + fmt.Sprintf(format, args...)
	told = slices.DeleteFunc(told, func(other string) bool { return len(other) > len(b.Name()) && other[:len(b.Name())+1] == b.Name()+":" })
	told = append(told, line)
}

// bench is an engine under load that plays the replicated state, without keeping it.
type bench struct {
	*engine.Engine
	nodes []scheduling.NodeID
	// names are ids for jobs, so that making them is not measured.
	names []scheduling.JobID
	used  int
	jobs  []scheduling.JobID
	// wants are the demands as they were.
	wants []func() error
}

func newBench(b *testing.B, nodes int, node resource.Amounts, jobs int) *bench {
	b.Helper()
	load := &bench{Engine: newEngine(b)}
	for i := range nodes {
		id := scheduling.NodeID(fmt.Sprintf("node-%04d", i))
		load.nodes = append(load.nodes, id)
		must(b, load.SetNode(id, node, true))
	}
	for i := range jobs {
		load.names = append(load.names, scheduling.JobID(fmt.Sprintf("job-%07d", i)))
	}
	return load
}

func (l *bench) pool(b *testing.B, name, parent string) scheduling.PoolName {
	must(b, l.SetPool(scheduling.PoolName(name), scheduling.PoolName(parent), 1))
	return scheduling.PoolName(name)
}

func (l *bench) operation(b *testing.B, i int, pool scheduling.PoolName, pending int64, perJob resource.Amounts) {
	id := scheduling.OperationID(fmt.Sprintf("operation-%05d", i))
	must(b, l.AddOperation(engine.Operation{ID: id, Pool: pool, Weight: 1, Started: begin.Add(time.Duration(i)), Enabled: true}))
	l.wants = append(l.wants, func() error { return l.SetDemand(id, "task", 0, pending, perJob) })
	must(b, l.SetDemand(id, "task", 0, pending, perJob))
}

// demand makes the demands what they were.
func (l *bench) demand(b *testing.B) {
	for _, want := range l.wants {
		must(b, want())
	}
}

func (l *bench) update(b *testing.B, at time.Time) {
	_, err := l.Tick(at)
	must(b, err)
}

// heartbeat commits what is planned for all nodes and returns how many starts that is.
func (l *bench) heartbeat(b *testing.B, at time.Time) int {
	plan := l.Heartbeat(at, l.nodes)
	for _, start := range plan.Starts {
		// A name is free again long before its turn comes: jobs end in any order.
		job := l.names[l.used%len(l.names)]
		l.used++
		if err := l.Commit(start.Ticket, job, at); err != nil {
			b.Fatal(err)
		}
		l.jobs = append(l.jobs, job)
	}
	return len(plan.Starts)
}

// decided measures decisions while something runs: how long one takes, and how often
// memory is allocated for it.
type decided struct {
	decisions, mallocs int
	took, cpu          time.Duration
}

// cpuTime is what the process has used of processors.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (d *decided) measure(run func() int) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, cpu := time.Now(), cpuTime()
	d.decisions += run()
	d.took += time.Since(began)
	d.cpu += cpuTime() - cpu
	runtime.ReadMemStats(&after)
	d.mallocs += int(after.Mallocs - before.Mallocs)
}

func (d *decided) report(b *testing.B, what string) {
	rate := float64(d.decisions) / d.took.Seconds()
	b.ReportMetric(rate, "decisions/s")
	b.ReportMetric(float64(d.mallocs)/float64(d.decisions), "mallocs/decision")
	tell(b, "%s: %.0f decisions/s, goal 100000; %.0f in a second of processor time; %.2f allocations of memory a decision, goal 0",
		what, rate, float64(d.decisions)/d.cpu.Seconds(), float64(d.mallocs)/float64(d.decisions))
}

// BenchmarkW1: 2 pools with an operation of 5,000 equal jobs each, on nodes with room for
// all of them, from the first look to the last start.
func BenchmarkW1(b *testing.B) {
	for _, nodes := range []int{500, 1000, 2000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			each := int64(2 * 10000 / nodes)
			load := newBench(b, nodes, resource.Amounts{UserSlots: each, CPU: resource.Hundredths(100 * each), Memory: 10 * each}, 10000)
			for i, name := range []string{"a", "b"} {
				load.operation(b, i, load.pool(b, name, string(scheduling.RootPool)), 5000, resource.Amounts{UserSlots: 1, CPU: 100, Memory: 10})
			}
			load.fill(b, 10000, fmt.Sprintf("W1, 10,000 jobs of 2 operations on %d nodes", nodes))
		})
	}
}

// shapes are those of jobs in W2.
var shapes = []resource.Amounts{
	{UserSlots: 1, CPU: 100, Memory: 4 << 30}, {UserSlots: 1, CPU: 200, Memory: 4 << 30},
	{UserSlots: 1, CPU: 100, Memory: 8 << 30}, {UserSlots: 1, CPU: 400, Memory: 8 << 30},
}

// BenchmarkW2: operations of several shapes in a tree of pools.
func BenchmarkW2(b *testing.B) {
	for _, of := range []struct {
		name                              string
		nodes, parents, leaves, ops, jobs int
	}{{"W2", 2000, 4, 10, 5, 50}, {"W2b", 5000, 20, 20, 5, 25}} {
		b.Run(of.name, func(b *testing.B) {
			total := of.parents * of.leaves * of.ops * of.jobs
			load := newBench(b, of.nodes, resource.Amounts{UserSlots: 64, CPU: 3200, Memory: 128 << 30}, total)
			n := 0
			for p := range of.parents {
				parent := load.pool(b, fmt.Sprintf("parent-%02d", p), string(scheduling.RootPool))
				for l := range of.leaves {
					leaf := load.pool(b, fmt.Sprintf("leaf-%02d-%02d", p, l), string(parent))
					for range of.ops {
						load.operation(b, n, leaf, int64(of.jobs), shapes[n%len(shapes)])
						n++
					}
				}
			}
			load.fill(b, total, fmt.Sprintf("%s, %d jobs of %d operations in %d pools on %d nodes", of.name, total, n, of.parents*(of.leaves+1), of.nodes))
		})
	}
}

// fill starts all jobs, again and again: the first time is not measured, for then all
// memory is there.
func (l *bench) fill(b *testing.B, want int, what string) {
	var d decided
	at := begin
	run := func() (starts int) {
		l.update(b, at)
		for starts < want {
			n := l.heartbeat(b, at)
			if starts += n; n == 0 {
				b.Fatalf("%d jobs started, want %d", starts, want)
			}
		}
		return starts
	}
	empty := func() {
		for _, job := range l.jobs {
			must(b, l.RemoveAllocation(job))
		}
		l.jobs = l.jobs[:0]
		l.demand(b)
		at = at.Add(time.Second)
	}
	run()
	empty()
	for b.Loop() {
		d.measure(run)
		empty()
	}
	d.report(b, what)
}

// BenchmarkW3 ends 100 of 6,400 jobs on 200 full nodes and fills the nodes again, for 200
// operations in few or many pools. Fair shares are updated every 200 ms, as by a leader.
func BenchmarkW3(b *testing.B) {
	for _, pools := range []int{40, 400} {
		b.Run(fmt.Sprintf("pools=%d", pools), func(b *testing.B) {
			load := newBench(b, 200, resource.Amounts{UserSlots: 32}, 1<<20)
			var leaves []scheduling.PoolName
			for i := range pools {
				leaves = append(leaves, load.pool(b, fmt.Sprintf("pool-%03d", i), string(scheduling.RootPool)))
			}
			for i := range 200 {
				load.operation(b, i, leaves[i%pools], 100, resource.Amounts{UserSlots: 1})
			}
			load.update(b, begin)
			load.heartbeat(b, begin)
			load.refill(b, fmt.Sprintf("W3, 100 of 6,400 jobs end, %d pools", pools))
		})
	}
}

func (l *bench) refill(b *testing.B, what string) {
	var d decided
	var rounds []time.Duration
	at, updated, chance := begin, time.Now(), rand.New(rand.NewPCG(1, 2))
	round := func() int {
		for range 100 {
			i := chance.IntN(len(l.jobs))
			must(b, l.RemoveAllocation(l.jobs[i]))
			l.jobs[i] = l.jobs[len(l.jobs)-1]
			l.jobs = l.jobs[:len(l.jobs)-1]
		}
		if time.Since(updated) >= 200*time.Millisecond {
			at, updated = at.Add(time.Since(updated)), time.Now()
			l.update(b, at)
		}
		return l.heartbeat(b, at)
	}
	for b.Loop() {
		before, began := len(l.jobs), d.took
		d.measure(round)
		rounds = append(rounds, d.took-began)
		if len(l.jobs) != before {
			b.Fatalf("%d jobs run, want %d", len(l.jobs), before)
		}
		l.demand(b)
	}
	slices.Sort(rounds)
	p99 := float64(rounds[len(rounds)*99/100]) / float64(time.Millisecond)
	b.ReportMetric(p99, "p99-ms/round")
	d.report(b, fmt.Sprintf("%s: p99 of a round %.2f ms, goal 5", what, p99))
}

// BenchmarkW4: a pool has all nodes full, and one with a guarantee of half of them asks for
// it. Victims go at once.
func BenchmarkW4(b *testing.B) {
	for _, of := range []struct {
		name  string
		nodes int
		goal  time.Duration
	}{{"W4", 100, 100 * time.Millisecond}, {"W4b", 1000, time.Second}} {
		b.Run(of.name, func(b *testing.B) {
			half := of.nodes * 16
			var took []time.Duration
			cpu := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				load := pressed(b, of.nodes)
				b.StartTimer()
				began, before := time.Now(), cpuTime()
				victims, now := load.press(b, half)
				took = append(took, time.Since(began))
				cpu += cpuTime() - before
				if victims != half {
					b.Fatalf("%d victims, want %d", victims, half)
				}
				if now.Sub(begin) > 2*time.Second {
					b.Fatalf("it took %v of its own time", now.Sub(begin))
				}
			}
			slices.Sort(took)
			median := took[len(took)/2]
			b.ReportMetric(float64(median)/float64(time.Millisecond), "ms-after-delay")
			tell(b, "%s, %d victims on %d nodes: delay of 1 s + %.0f ms, goal + %.0f ms; %.0f ms of processor time", of.name, half, of.nodes,
				float64(median)/float64(time.Millisecond), float64(of.goal)/float64(time.Millisecond), float64(cpu)/float64(time.Millisecond)/float64(len(took)))
		})
	}
}

// pressed has all nodes full of one pool, and another that asks for its guarantee.
func pressed(b *testing.B, nodes int) *bench {
	load := newBench(b, nodes, resource.Amounts{UserSlots: 32}, nodes*64)
	w := &world{Engine: load.Engine, t: b, now: begin}
	w.tree(options{
		"main_resource": "user_slots", "fair_share_starvation_timeout": "1s", "preemptive_scheduling_backoff": "0s", "allocation_preemption_timeout": "0s",
	}, map[scheduling.PoolName]pool{"a": {options: options{"strong_guarantee_resources": options{"user_slots": float64(nodes * 16)}}}, "b": {}})
	load.operation(b, 1, "b", int64(nodes*64), resource.Amounts{UserSlots: 1})
	load.update(b, begin)
	for started := 1; started > 0; {
		started = load.heartbeat(b, begin)
	}
	load.operation(b, 0, "a", int64(nodes*16), resource.Amounts{UserSlots: 1})
	load.update(b, begin)
	return load
}

// press lets the starving operation have its part, and returns how many had to go.
func (l *bench) press(b *testing.B, want int) (victims int, now time.Time) {
	now = begin.Add(time.Second + time.Millisecond)
	l.update(b, now)
	for started := 0; started < want; now = now.Add(10 * time.Millisecond) {
		plan := l.Heartbeat(now, l.nodes)
		for _, s := range plan.Starts {
			must(b, l.Commit(s.Ticket, l.names[l.used], now))
			l.used++
		}
		started += len(plan.Starts)
		for _, p := range plan.Preempts {
			must(b, l.Leave(p.Job, engine.LeaveOrder{Ordered: now, Deadline: now, Kind: p.Kind, For: p.For}))
			must(b, l.RemoveAllocation(p.Job))
		}
		victims += len(plan.Preempts)
		if len(plan.Starts)+len(plan.Preempts) == 0 {
			b.Fatalf("%d of %d started, and nothing is planned", started, want)
		}
		l.update(b, now)
	}
	return victims, now
}

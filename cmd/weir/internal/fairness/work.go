package fairness

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// work draws the operations of a pool: most pools want more than their fair share all the time.
func (g *generator) work(l *leaf, workloads map[string]any) {
	if g.is("fifo") && g.percent(70) {
		l.options["mode"] = "fifo"
		if g.percent(30) {
			l.options["fifo_sort_parameters"] = []any{"start_time"}
		}
	}
	l.job = oneOf(g, 1, 1, 2)
	if g.is("large jobs") {
		l.job = oneOf(g, 1, 1, 2, g.cpu/2, g.cpu)
	}
	least, most := g.lengths(l)
	w := map[string]any{"job": map[string]any{"cpu": l.job, "memory": oneOf(g, "64MiB", "1GiB"), "length": map[string]any{"uniform": []any{text(least), text(most)}}}}
	w["options"] = g.operationOptions(w)
	// capacity is how many of its jobs the whole cluster can finish in the simulated time.
	mean := (least + most) / 2
	capacity := float64(g.total()/l.job) * (1 + g.duration.Seconds()/mean.Seconds())
	workloads[l.name] = w
	if g.is("one-job operations") && mean >= 2*time.Minute {
		g.oneByOne(l, w, workloads, capacity)
		return
	}
	operations := g.between(1, oneOf(g, 1, 8, 30))
	if g.percent(20) {
		// This pool is not hungry all the time.
		capacity *= l.part * oneOf(g, 0.2, 0.5, 0.8)
	}
	w["jobs"] = int(capacity/float64(operations)) + 1
	at := make([]any, operations)
	begin, step := g.begin(), time.Duration(oneOf(g, 0, 1, 1, 10, 60))*time.Second
	for i := range at {
		at[i] = text(begin + time.Duration(i)*step)
	}
	if operations > 1 && g.percent(30) {
		// The later half gets another weight.
		later, options := maps.Clone(w), g.operationOptions(w)
		options["weight"] = oneOf(g, 0.5, 2, 3)
		later["pool"], later["options"], later["arrivals"] = l.name, options, map[string]any{"at": at[operations/2:]}
		workloads[l.name+"-later"] = later
		at = at[:operations/2]
	}
	w["arrivals"] = map[string]any{"at": at}
}

// oneByOne makes a pool submit operations of one job each: at first more than fit in its fair
// share, later as many as it can run. A longer queue would slow the simulation down.
func (g *generator) oneByOne(l *leaf, w, workloads map[string]any, capacity float64) {
	begin := text(g.begin())
	every := g.duration.Seconds() / (capacity*l.part + 1)
	w["arrivals"] = map[string]any{"every": fmt.Sprintf("%dms", int(every*1000)), "from": begin}
	first := maps.Clone(w)
	first["pool"], first["arrivals"] = l.name, map[string]any{"at": slices.Repeat([]any{begin}, int(2*l.part*float64(g.total()/l.job))+10)}
	workloads[l.name+"-first"] = first
}

// begin is the time of a pool's first operation: 0 for half of the pools.
func (g *generator) begin() time.Duration {
	if g.percent(50) {
		return 0
	}
	return time.Duration(g.between(1, 40)) * time.Minute / 2
}

// maxJobs bounds roughly how many jobs a scenario starts: more would take too long to simulate.
const maxJobs = 20000

// lengths draws the least and the greatest length of jobs, from seconds to hours. Jobs larger
// than half a node last at most an eighth of the simulated time.
func (g *generator) lengths(l *leaf) (least, most time.Duration) {
	least = oneOf(g, 8*time.Second, 8*time.Second, 30*time.Second, time.Minute, 5*time.Minute, 20*time.Minute, time.Hour)
	if g.kind == "one-job operations" {
		least = max(least, 2*time.Minute)
	}
	floor := time.Duration(float64(g.duration) * float64(g.total()) / float64(l.job) / maxJobs)
	least = max(least, floor).Round(time.Second)
	most = least * time.Duration(oneOf(g, 1, 2, 3))
	if 2*l.job > g.cpu {
		// A share that is not a whole number of nodes evens out only over several such jobs.
		least, most = min(least, g.duration/8), min(most, g.duration/8)
	}
	return least, most
}

// operationOptions draws how the jobs react to preemption.
func (g *generator) operationOptions(w map[string]any) map[string]any {
	o := map[string]any{}
	graceful := g.percent(15)
	if graceful || g.percent(30) {
		w["interruption"] = map[string]any{"leaves_after": map[string]any{"uniform": []any{"1s", oneOf(g, "5s", "20s", "2m")}}}
	}
	if graceful {
		o["preemption_mode"] = "graceful"
	}
	if g.percent(10) {
		o["min_run_time"] = oneOf(g, "10s", "1m")
	}
	return o
}

package preemption_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// grouped is an operation of so many jobs of one slot, one cpu and some memory, which
// has half of what it demands.
func grouped(jobs int) (*preemption.Groups, preemption.Bounds) {
	g := &preemption.Groups{}
	members := make([]preemption.Member, jobs)
	job := resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
	b := preemption.Bounds{Fair: cpuAndSlots(.5), Demand: cpuAndSlots(1), Total: job.Times(int64(jobs)), Threshold: 1, AggressiveThreshold: .2, Aggressive: true}
	b.Fair[resource.Memory], b.Demand[resource.Memory] = .5, 1
	g.SetBounds(b)
	for i := range members {
		members[i] = preemption.Member{Job: scheduling.JobID(fmt.Sprintf("%08d", i)), Started: begin.Add(time.Duration(i/100) * time.Second), Resources: job}
		g.Add(&members[i])
	}
	return g, b
}

// BenchmarkGroups measures a job that goes and one that comes.
func BenchmarkGroups(b *testing.B) {
	g, _ := grouped(10000)
	b.ReportAllocs()
	for b.Loop() {
		m := g.Last()
		g.Remove(m)
		g.Add(m)
	}
}

// BenchmarkAddEarlier measures a job that comes before 10,000 others, after those that come before it: two plans whose
// entries in the log are in the other order.
func BenchmarkAddEarlier(b *testing.B) {
	g, _ := grouped(10000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		g.Add(&preemption.Member{Job: scheduling.JobID(fmt.Sprintf("a%08d", i)), Started: begin.Add(-time.Second), Resources: resource.Amounts{UserSlots: 1}})
	}
}

// BenchmarkSetBounds measures an update that changes the fair share by one job.
func BenchmarkSetBounds(b *testing.B) {
	g, bounds := grouped(10000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		share := .5 + float64(i%2)*1e-4
		bounds.Fair = resource.Vector{share, share, 0, share, 0}
		g.SetBounds(bounds)
	}
}

// BenchmarkVictims measures the choice of four victims on a node of 200 jobs.
func BenchmarkVictims(b *testing.B) {
	g, _ := grouped(200)
	all := make([]*preemption.Member, 0, 200)
	b.ReportAllocs()
	for b.Loop() {
		all = all[:0]
		for m := g.First(); m != nil; m = m.Next() {
			all = append(all, m)
		}
		preemption.Victims(resource.Amounts{UserSlots: 5, CPU: 450}, resource.Amounts{UserSlots: 1, CPU: 100}, all)
	}
}

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// TestPreemptionEnds: while nobody's demand changes and no job ends by itself, preemption
// comes to an end, whoever starves, however jobs and nodes are cut (X8). With
// consider_allocation_on_fair_share_bound_preemptible jobs larger than a fair share take
// turns: it is for those who want that.
func TestPreemptionEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := options{
			"fair_share_starvation_timeout": "2s", "fair_share_aggressive_starvation_timeout": "4s", "preemptive_scheduling_backoff": "1s",
			"enable_aggressive_starvation":    rapid.Bool().Draw(t, "aggressive"),
			"fair_share_starvation_tolerance": rapid.SampledFrom([]float64{0.5, 0.8, 1}).Draw(t, "tolerance"), "allow_preemption_from_starving_operations": rapid.Bool().Draw(t, "from starving"),
		}
		pools := map[scheduling.PoolName]pool{}
		for _, name := range []scheduling.PoolName{"a", "b", "c"} {
			pools[name] = pool{options: options{
				"weight": float64(rapid.IntRange(1, 4).Draw(t, "weight")), "mode": rapid.SampledFrom([]string{"fair_share", "fair_share", "fifo"}).Draw(t, "mode"),
				"strong_guarantee_resources": options{"cpu": float64(rapid.IntRange(0, 4).Draw(t, "guarantee"))},
			}}
		}
		d := newDrive(t, tree, pools)
		d.takes = time.Duration(rapid.IntRange(0, 3).Draw(t, "takes")) * time.Second
		var nodes []scheduling.NodeID
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			id := scheduling.NodeID(fmt.Sprint("n", i))
			nodes = append(nodes, id)
			must(t, d.SetNode(id, resource.Amounts{UserSlots: 100, CPU: resource.Hundredths(100 * rapid.IntRange(2, 8).Draw(t, "cpu")), Memory: int64(rapid.IntRange(20, 80).Draw(t, "memory"))}, true))
		}
		for i := range rapid.IntRange(2, 6).Draw(t, "operations") {
			of := options{}
			if rapid.IntRange(0, 3).Draw(t, "graceful") == 0 {
				of = graceful
			}
			needs := resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 * rapid.IntRange(1, 4).Draw(t, "job cpu")), Memory: int64(rapid.IntRange(0, 20).Draw(t, "job memory"))}
			id := scheduling.OperationID(fmt.Sprint("o", i))
			d.wants(id, rapid.SampledFrom([]scheduling.PoolName{"a", "b", "c"}).Draw(t, "pool"), int64(rapid.IntRange(1, 30).Draw(t, "jobs")), needs, of)
			d.pass(time.Duration(rapid.IntRange(0, 10).Draw(t, "seconds"))*time.Second, time.Second, nodes...)
		}
		// Who has lacked much of its fair share for long is owed more than who lacks a little.
		d.pass(3*time.Minute, time.Second, nodes...)
		d.pass(8*time.Hour, 20*time.Second, nodes...)
		d.victims = nil
		d.pass(2*time.Hour, 20*time.Second, nodes...)
		if len(d.victims) > 0 {
			t.Fatalf("%d still preempted, last %+v", len(d.victims), d.victims[max(len(d.victims)-4, 0):])
		}
	})
}

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
		// What is owed is seldom paid for only after that, once.
		for quiet, spans := 0, 0; quiet < 2; spans++ {
			d.victims = nil
			d.pass(time.Hour, 20*time.Second, nodes...)
			if quiet++; len(d.victims) > 0 {
				quiet = 0
			}
			if spans == 12 {
				t.Fatalf("preempted in the last hour of 20: %+v", d.victims)
			}
		}
	})
}

// TestNobodyIsCrowdedOutForAPartOfAJob: a has jobs of two slots and others have jobs of one. If a
// lacks less than half of a job, none of the others is preempted for it: they would take back
// what a then has beyond its fair share, and a would lack its part of a job again.
func TestNobodyIsCrowdedOutForAPartOfAJob(t *testing.T) {
	for name, tc := range map[string]struct {
		has int64
		// fair is the fair share of a, of 20 slots.
		fair          float64
		want, victims int
	}{
		"an eighth of a job is missing":           {has: 2, fair: 4.25, want: 2},
		"a quarter of a job is missing":           {has: 1, fair: 2.5, want: 1},
		"it has more than its fair share":         {has: 2, fair: 3.75, want: 2},
		"more than half of a job is missing":      {has: 2, fair: 5.25, want: 3, victims: 2},
		"it has none, and three quarters are due": {has: 0, fair: 1.5, want: 1, victims: 2},
	} {
		t.Run(name, func(t *testing.T) {
			tree := soon(options{"enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "10s", "fair_share_starvation_tolerance": 1.0})
			d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {options: options{"weight": tc.fair}}, "b": {options: options{"weight": 20 - tc.fair}}})
			nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4", "n5"}
			for _, n := range nodes {
				d.node(n, 4)
			}
			d.wants("a", "a", tc.has, slotsOf(2), nil)
			d.pass(time.Second, time.Second, nodes...)
			d.many(30, "b", 1, 1, nil)
			d.pass(time.Second, time.Second, nodes...)
			d.pending["a"] = 10
			must(t, d.SetDemand("a", "t", 0, 10, slotsOf(2)))
			d.pass(3*time.Hour, 20*time.Second, nodes...)
			if got := d.runs()["a"]; got != tc.want || len(d.victims) != tc.victims {
				t.Errorf("a has %d jobs, want %d; %d were preempted, want %d: %v", got, tc.want, len(d.victims), tc.victims, d.victims)
			}
		})
	}
}

// TestGangIsCrowdedInAsAWhole: a has only a gang of two jobs of two slots each, and a fair share
// that holds the first of them but not half of the second. Others leave for both or for none.
func TestGangIsCrowdedInAsAWhole(t *testing.T) {
	tree := soon(options{"enable_aggressive_starvation": true, "fair_share_aggressive_starvation_timeout": "10s", "fair_share_starvation_tolerance": 1.0})
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {options: options{"weight": 2.5}}, "b": {options: options{"weight": 17.5}}})
	nodes := []scheduling.NodeID{"n1", "n2", "n3", "n4", "n5"}
	for _, n := range nodes {
		d.node(n, 4)
	}
	d.many(30, "b", 1, 1, nil)
	d.pass(time.Second, time.Second, nodes...)
	d.gang("a", "a", 2, slotsOf(2))
	d.pass(10*time.Minute, time.Second, nodes...)
	if got := d.runs()["a"]; got != 2 || len(d.victims) != 4 {
		t.Errorf("the gang has %d jobs, want 2; %d were preempted, want 4: %v", got, len(d.victims), d.victims)
	}
}

// TestWhatIsPaidForBuysNoPartOfAJob: a had jobs beyond its fair share and lost one of them. It lacks
// an eighth of a cpu since, which balances that only after hours. Even then nobody loses a job
// for it: two cpus more would leave b and c far below their fair shares.
func TestWhatIsPaidForBuysNoPartOfAJob(t *testing.T) {
	of := func(weight, cpu float64) pool {
		return pool{options: options{"weight": weight, "strong_guarantee_resources": options{"cpu": cpu}}}
	}
	d := newDrive(t, options{
		"fair_share_starvation_timeout": "2s", "fair_share_aggressive_starvation_timeout": "4s", "preemptive_scheduling_backoff": "1s",
		"enable_aggressive_starvation": true, "fair_share_starvation_tolerance": 1.0,
	}, map[scheduling.PoolName]pool{"a": of(1, 2), "b": of(4, 0), "c": of(3, 1)})
	d.takes = 3 * time.Second
	nodes := []scheduling.NodeID{"n0", "n1", "n2", "n3"}
	for i, has := range []resource.Amounts{{CPU: 300, Memory: 53}, {CPU: 300, Memory: 51}, {CPU: 700, Memory: 79}, {CPU: 700, Memory: 41}} {
		has.UserSlots = 100
		must(t, d.SetNode(nodes[i], has, true))
	}
	for i, o := range []struct {
		pool              scheduling.PoolName
		cpu, memory, jobs int64
		seconds           int
		of                options
	}{{"c", 1, 9, 2, 0, nil}, {"a", 4, 7, 7, 7, nil}, {"a", 2, 1, 1, 5, graceful}, {"c", 4, 17, 17, 2, graceful}, {"b", 3, 2, 16, 6, nil}, {"a", 2, 3, 30, 0, nil}} {
		needs := resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 * o.cpu), Memory: o.memory}
		d.wants(scheduling.OperationID(fmt.Sprint("o", i)), o.pool, o.jobs, needs, o.of)
		d.pass(time.Duration(o.seconds)*time.Second, time.Second, nodes...)
	}
	d.pass(3*time.Minute, time.Second, nodes...)
	d.pass(time.Hour, 20*time.Second, nodes...)
	d.victims = nil
	d.pass(10*time.Hour, 20*time.Second, nodes...)
	d.wantVictims()
	d.wantRuns(runs{"o0": 2, "o3": 1, "o4": 3, "o5": 2})
}

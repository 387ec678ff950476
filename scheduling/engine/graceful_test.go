package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
)

var graceful = options{"preemption_mode": "graceful"}

// service is a node of 8 slots full of a graceful operation, when another comes that wants
// as much.
func service(t *testing.T, tree, of options) *drive {
	t.Helper()
	d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n", 8)
	d.wants("service", "a", 8, slotsOf(1), of)
	d.pass(2*time.Second, time.Second, "n")
	d.wantRuns(runs{"service": 8})
	d.pending["service"] = 4
	must(t, d.SetDemand("service", "t", 0, 4, slotsOf(1)))
	d.wants("batch", "b", 8, slotsOf(1), nil)
	return d
}

// TestGraceful: what is beyond the fair share is told to go at once, ahead of any
// starvation, the latest first and with the longer timeout, and the other gets it.
func TestGraceful(t *testing.T) {
	d := service(t, options{"allocation_graceful_preemption_timeout": "20m", "fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "1h"}, graceful)
	d.takes = 5 * time.Second
	d.pass(time.Second, time.Second, "n")
	if got := d.kinds()[lifecycle.GracefulPreemption]; got != 4 || len(d.victims) != 4 || d.victims[0].Timeout != 20*time.Minute || d.victims[0].Job != "service-008" {
		t.Fatalf("preempted %+v", d.victims)
	}
	d.pass(10*time.Second, time.Second, "n")
	d.wantRuns(runs{"service": 4, "batch": 4})
	d.pass(time.Minute, time.Second, "n")
	if len(d.victims) != 4 {
		t.Errorf("preempted %+v, want no more", d.victims)
	}
}

// TestGracefulIsBounded by rates and run times, and is nobody else's victim.
func TestGracefulIsBounded(t *testing.T) {
	d := service(t, options{"fair_share_starvation_timeout": "5s"}, options{"preemption_mode": "graceful", "min_run_time": "1m"})
	d.pass(50*time.Second, time.Second, "n")
	d.wantVictims()
	if facts, err := d.Facts("service"); err != nil || facts.Spared[preemption.BlockedByMode] == 0 {
		t.Errorf("spared %v, %v", facts.Spared, err)
	}
	d.pass(15*time.Second, time.Second, "n")
	d.wantVictims("service-008 graceful_preemption", "service-007 graceful_preemption", "service-006 graceful_preemption", "service-005 graceful_preemption")
}

// TestGracefulStartsNoJobThatWouldGo: free resources beyond its fair share are not for it,
// nor any while those that leave still make up for them.
func TestGracefulStartsNoJobThatWouldGo(t *testing.T) {
	d := service(t, nil, graceful)
	d.takes = time.Hour
	// The others use nothing of their part: their nodes are about to be heard again.
	must(t, d.SetNode("n", slotsOf(12), true))
	d.awaited("far", 12, "elsewhere")
	must(t, d.SetOperation(d.record("batch", "b", options{"scheduling_tag_filter": "elsewhere"})))
	d.pass(3*time.Second, time.Second, "n")
	d.wantRuns(runs{"service": 6})
	before := len(d.victims)
	d.pass(4*time.Minute, time.Second, "n")
	if len(d.victims) != before || d.jobs != 8 {
		t.Fatalf("preempted %+v, %d jobs started", d.victims, d.jobs)
	}
	if facts, err := d.Facts("service"); err != nil || facts.Refusals[0].Cause.String() != "withheld" {
		t.Errorf("refusals %+v, %v", facts.Refusals, err)
	}
}

// TestGracefulDoesNotOscillate: a share that moves by less than a job moves nothing, also
// where a job more or less is in it; one that grows by a job is used.
func TestGracefulDoesNotOscillate(t *testing.T) {
	for name, tc := range map[string]struct{ low, high float64 }{
		"within a job": {1, 1.2}, "across a job": {0.9, 1.1}, "more than a job above the other": {0.99, 1.28},
	} {
		t.Run(name, func(t *testing.T) {
			d := service(t, nil, graceful)
			weigh := func(weight float64) {
				d.world.tree(nil, map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"weight": weight}}})
				d.pass(2*time.Second, time.Second, "n")
			}
			d.pass(10*time.Second, time.Second, "n")
			weigh(tc.low)
			weigh(tc.high)
			weigh(tc.low)
			weigh(tc.high)
			victims, jobs := len(d.victims), d.jobs
			for i := range 50 {
				if i%2 == 0 {
					weigh(tc.low)
				} else {
					weigh(tc.high)
				}
			}
			if len(d.victims) != victims || d.jobs != jobs {
				t.Errorf("%d more preempted, %d more started", len(d.victims)-victims, d.jobs-jobs)
			}
			d.wantRuns(runs{"service": 4, "batch": 4})
			// All that there is, is its own again.
			must(t, d.SetDemand("batch", "t", 0, 0, slotsOf(1)))
			must(t, d.RemoveOperation("batch"))
			for job, a := range d.running {
				if a.Operation == "batch" {
					must(t, d.RemoveAllocation(job))
					delete(d.running, job)
				}
			}
			d.pass(3*time.Second, time.Second, "n")
			d.wantRuns(runs{"service": 8})
		})
	}
}

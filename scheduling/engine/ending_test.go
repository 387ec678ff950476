package engine_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// TestNobodyIsLeftWithLess: who starves takes no job from one that would have less of its
// fair share then, though the job may be preempted.
func TestNobodyIsLeftWithLess(t *testing.T) {
	d := newDrive(t, options{
		"fair_share_starvation_timeout": "5s", "fair_share_starvation_tolerance": 1.0, "preemption_satisfaction_threshold": 0.2, "aggressive_preemption_satisfaction_threshold": 0.1,
	}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.node("n", 7)
	d.wants("large", "a", 2, slotsOf(2), nil)
	d.pass(time.Second, time.Second, "n")
	d.pending["large"] = 5
	must(t, d.SetDemand("large", "t", 0, 5, slotsOf(2)))
	d.wants("small", "b", 9, slotsOf(1), nil)
	d.pass(time.Minute, time.Second, "n")
	d.wantVictims()
	d.wantRuns(runs{"large": 2, "small": 3})
}

// TestNoTurns: fair shares of these two depend so much on what they use that each is below
// its own while the other has the job in question.
func TestNoTurns(t *testing.T) {
	d := newDrive(t, options{
		"fair_share_starvation_timeout": "2s", "fair_share_aggressive_starvation_timeout": "4s", "preemptive_scheduling_backoff": "1s",
		"enable_aggressive_starvation": true, "allow_preemption_from_starving_operations": true,
	}, map[scheduling.PoolName]pool{"b": {}, "c": {}})
	must(t, d.SetNode("n", resource.Amounts{UserSlots: 100, CPU: 800, Memory: 53}, true))
	for i, o := range []struct {
		pool              scheduling.PoolName
		cpu, memory, jobs int64
		seconds           int
		of                options
	}{{"c", 1, 13, 2, 6, nil}, {"b", 1, 1, 30, 7, nil}, {"b", 2, 1, 27, 6, nil}, {"c", 3, 2, 5, 5, graceful}, {"b", 3, 11, 24, 9, nil}} {
		needs := resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 * o.cpu), Memory: o.memory}
		d.wants(scheduling.OperationID(fmt.Sprint("o", i)), o.pool, o.jobs, needs, o.of)
		d.pass(time.Duration(o.seconds)*time.Second, time.Second, "n")
	}
	d.pass(time.Minute, time.Second, "n")
	d.victims = nil
	d.pass(2*time.Minute, time.Second, "n")
	d.wantVictims()
}

// TestWhatWasTakenCounts before the next update: several heartbeats after one update take
// no more than one has until then less than its fair share.
func TestWhatWasTakenCounts(t *testing.T) {
	d := twoPools(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "0s", "fair_share_starvation_tolerance": 0.5}, nil, nil, nil)
	for len(d.victims) == 0 {
		d.pass(time.Second, time.Second, "n")
	}
	for range 5 {
		d.beat("n")
	}
	d.wantVictims("greedy-004 preemption", "greedy-003 preemption")
}

// TestWhatLeavesIsDemand: it will be asked for again, so that shares stay as they are.
func TestWhatLeavesIsDemand(t *testing.T) {
	d := claimed(t)
	demand := func() float64 { return d.Snapshot().Operations[0].Shares.DemandShare[0] }
	before := demand()
	d.tick(time.Second)
	if got := demand(); got != before {
		t.Errorf("demand share %v, was %v", got, before)
	}
}

// TestVictimsOfOneJobCountInRates, all of them, or none goes.
func TestVictimsOfOneJobCountInRates(t *testing.T) {
	for rate, want := range map[float64]int{1: 0, 2: 2} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			d := twoPools(t, options{"fair_share_starvation_timeout": "5s"}, options{"preemption_rate_limit": rate}, nil, nil)
			must(t, d.SetDemand("late", "t", 0, 0, slotsOf(1)))
			d.wants("wide", "b", 1, slotsOf(2), nil)
			d.pass(30*time.Second, time.Second, "n")
			if len(d.victims) != want {
				t.Errorf("preempted %+v, want %d", d.victims, want)
			}
		})
	}
}

// TestClaimOnANodeThatNeverCame goes with it.
func TestClaimOnANodeThatNeverCame(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.wants("greedy", "a", 1, slotsOf(1), nil)
	d.wants("late", "b", 1, slotsOf(1), nil)
	must(t, d.AddAllocation(engine.Allocation{Job: "j", Operation: "greedy", Task: "t", Node: "gone", Resources: slotsOf(1), Started: begin}))
	must(t, d.Leave("j", engine.LeaveOrder{Ordered: begin, Deadline: begin.Add(time.Second), Kind: lifecycle.Preemption, For: engine.Beneficiary{Operation: "late", Task: "t", Resources: slotsOf(1)}}))
	must(t, d.RemoveAllocation("j"))
	if len(d.claims()) != 1 {
		t.Fatalf("claims %+v", d.claims())
	}
	d.tick(time.Hour)
	d.wantEnd(engine.ClaimExpired)
	if got := d.Snapshot().Nodes; len(got) != 0 {
		t.Errorf("nodes %+v", got)
	}
}

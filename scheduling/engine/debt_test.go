package engine

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/fairshare"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// TestWhatIsPaidStaysOwed: whoever has crowded others out owes for it until it has had so much
// less, whatever job of it is next, and whatever resource the others lost.
func TestWhatIsPaidStaysOwed(t *testing.T) {
	total := resource.Amounts{UserSlots: 100, CPU: 10000, GPU: 100}
	large, tiny := resource.Amounts{UserSlots: 1, CPU: 1600}, resource.Amounts{UserSlots: 1, CPU: 10}
	for name, tc := range map[string]struct {
		next, lost resource.Amounts
		want       float64
	}{
		"the same job is next":       {large, resource.Amounts{UserSlots: 16, CPU: 1600}, .16},
		"a tiny one is":              {tiny, resource.Amounts{UserSlots: 16, CPU: 1600}, .16},
		"none is":                    {resource.Infinite, resource.Amounts{UserSlots: 16, CPU: 1600}, .16},
		"others lost something else": {large, resource.Amounts{GPU: 30}, .3},
	} {
		s := fairshare.NewOperation("o")
		s.FairShare = resource.Vector{resource.CPU: .2}
		s.UsageShare = s.FairShare
		var d debt
		d.pass(s, resource.CPU, large, 0, total)
		d.pay(tc.lost, time.Hour, total)
		d.pass(s, resource.CPU, tc.next, 200*time.Millisecond, total)
		if got := -d.owed / 3600; got < tc.want-.001 || got > tc.want+.001 {
			t.Errorf("%s: it owes %.3f of the cluster for an hour, want %.3f", name, got, tc.want)
		}
		s.UsageShare = resource.Vector{}
		d.pass(s, resource.CPU, large, 0, total)
		for range 3 {
			d.pass(s, resource.CPU, large, 40*time.Minute, total)
		}
		if d.owed < 0 && name != "others lost something else" {
			t.Errorf("%s: after two hours without it owes %.3f still", name, -d.owed/3600)
		}
	}
}

// TestIdleTimeIsNotOwed: using what others leave for a long time costs no more than one job for
// the horizon.
func TestIdleTimeIsNotOwed(t *testing.T) {
	total := resource.Amounts{UserSlots: 100, CPU: 10000}
	s := fairshare.NewOperation("o")
	s.FairShare, s.UsageShare = resource.Vector{resource.CPU: .2}, resource.Vector{resource.CPU: 1}
	var d debt
	for range 100 {
		d.pass(s, resource.CPU, resource.Amounts{UserSlots: 1, CPU: 100}, 30*time.Minute, total)
	}
	if want := -.01 * debtHorizon.Seconds(); d.lack < want-1e-6 || d.owed < want-1e-6 {
		t.Errorf("lack %v, owed %v, want no less than %v", d.lack, d.owed, want)
	}
}

// TestNothingIsPaidForWhoStays: the order to leave was refused or lost.
func TestNothingIsPaidForWhoStays(t *testing.T) {
	e, err := New(Default())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	one, now := resource.Amounts{UserSlots: 1}, time.Unix(1000, 0)
	must(e.SetNode("n", resource.Amounts{UserSlots: 10}, true))
	must(e.AddOperation(Operation{ID: "o", Enabled: true, Pool: scheduling.RootPool}))
	must(e.SetDemand("o", "t", 0, 1, one))
	for _, job := range []scheduling.JobID{"stays", "goes"} {
		must(e.AddAllocation(Allocation{Job: job, Operation: "o", Task: "t", Node: "n", Resources: one, Started: now}))
		h := e.holdings.allocations[job]
		d := &h.operation.debt
		before := d.owed
		e.holdings.beginLeaving(h, lifecycle.AggressivePreemption, now)
		h.leaving.paid = d.pay(one, time.Hour, e.cluster.total)
		if job == "goes" {
			must(e.Leave(job, LeaveOrder{Ordered: now, Deadline: now, Kind: lifecycle.AggressivePreemption}))
		}
		paid := before - d.owed
		e.Stay(job)
		if left := before - d.owed; paid != 360 || (job == "stays") != (left == 0) {
			t.Errorf("for the job that %s %v was paid, and %v is", job, paid, left)
		}
	}
}

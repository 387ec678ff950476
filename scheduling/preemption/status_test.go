package preemption_test

import (
	"testing"

	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// cpuAndSlots is the same share of both.
func cpuAndSlots(share float64) resource.Vector { return resource.Vector{share, share} }

func TestOperationStatus(t *testing.T) {
	cases := map[string]struct {
		usage, fair, demand resource.Vector
		unschedulable       bool
		least               *resource.Vector
		want                string
	}{
		"far below":                         {usage: cpuAndSlots(.1), fair: cpuAndSlots(.5), demand: cpuAndSlots(1), want: "below_fair_share"},
		"within tolerance":                  {usage: cpuAndSlots(.45), fair: cpuAndSlots(.5), demand: cpuAndSlots(1), want: "normal"},
		"just at the tolerance":             {usage: cpuAndSlots(.4), fair: cpuAndSlots(.5), demand: cpuAndSlots(1), want: "normal"},
		"nothing to start":                  {usage: cpuAndSlots(.1), fair: cpuAndSlots(.5), demand: cpuAndSlots(1), unschedulable: true, want: "normal"},
		"fair share covers the demand":      {usage: cpuAndSlots(.45), fair: cpuAndSlots(.5), demand: cpuAndSlots(.5), want: "below_fair_share"},
		"it covers it but for rounding":     {usage: cpuAndSlots(.45), fair: cpuAndSlots(.5), demand: cpuAndSlots(.50009), want: "below_fair_share"},
		"one resource is above":             {usage: resource.Vector{.6, .1}, fair: cpuAndSlots(.5), demand: cpuAndSlots(1), want: "normal"},
		"what is above is blocked":          {usage: resource.Vector{.5, .1}, fair: cpuAndSlots(.5), demand: resource.Vector{.5, 1}, want: "below_fair_share"},
		"a small job is missing":            {usage: cpuAndSlots(.1), fair: cpuAndSlots(.5), demand: cpuAndSlots(1), least: &resource.Vector{.2, .2}, want: "below_fair_share"},
		"less than a job is missing":        {usage: cpuAndSlots(.1), fair: cpuAndSlots(.5), demand: cpuAndSlots(1), least: &resource.Vector{.6, .2}, want: "normal"},
		"less, but demand would be covered": {usage: cpuAndSlots(.1), fair: cpuAndSlots(.5), demand: cpuAndSlots(.5), least: &resource.Vector{.6, .2}, want: "below_fair_share"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			shares := preemption.Shares{Usage: tc.usage, Fair: tc.fair, Demand: tc.demand}
			if got := preemption.OperationStatus(shares, 0.8, !tc.unschedulable, tc.least); got.String() != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestPoolStatus: unlike that of operations, the tolerance of pools never changes.
func TestPoolStatus(t *testing.T) {
	shares := preemption.Shares{Usage: cpuAndSlots(.45), Fair: cpuAndSlots(.5), Demand: cpuAndSlots(.5)}
	if got := preemption.PoolStatus(shares, 0.8); got != preemption.Normal {
		t.Errorf("within tolerance: %v", got)
	}
	if got := preemption.PoolStatus(shares, 0.95); got != preemption.BelowFairShare {
		t.Errorf("below it: %v", got)
	}
}

func TestNonBlockedDominates(t *testing.T) {
	open := preemption.Shares{Fair: cpuAndSlots(.5), Demand: resource.Vector{1, 1, 1, 1, 1}}
	blocked := preemption.Shares{Fair: cpuAndSlots(.5), Demand: cpuAndSlots(.5)}
	ones := resource.Ones
	if !open.NonBlockedDominates(ones, resource.Vector{}) || open.NonBlockedDominates(cpuAndSlots(1), resource.Vector{}) {
		t.Error("of open resources all count")
	}
	if !blocked.NonBlockedDominates(resource.Vector{0, 0, 1}, resource.Vector{}) || blocked.NonBlockedDominates(resource.Vector{}, resource.Vector{}) {
		t.Error("where all are blocked one is enough, and needed")
	}
}

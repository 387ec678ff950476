package main

import (
	"testing"

	"weir/messages/apipb"
)

// TestWasteText tells what was lost and what was saved, each only where there is some.
func TestWasteText(t *testing.T) {
	for name, test := range map[string]struct {
		waste []*apipb.Waste
		want  string
	}{
		"nothing": {},
		"lost":    {[]*apipb.Waste{{Cause: "preemption", Jobs: 1, CpuSeconds: 1800}}, "preemption: jobs 1, cpu hours 0.5"},
		"saved":   {[]*apipb.Waste{{Cause: "preemption", SavedJobs: 7}}, "preemption: 7 jobs left in time"},
		"lost and saved, by cause": {
			[]*apipb.Waste{{Cause: "node_drain", Jobs: 2, CpuSeconds: 3600, SavedJobs: 3}, {Cause: "preemption", SavedJobs: 1}},
			"node_drain: jobs 2, cpu hours 1, 3 jobs left in time; preemption: 1 job left in time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wasteText(test.waste); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

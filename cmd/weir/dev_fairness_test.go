package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/fairness"
	"weir/cmd/weir/internal/simulate"
)

// TestBrokenPromisesAreShown, with how to run their scenarios again, and are an error.
func TestBrokenPromisesAreShown(t *testing.T) {
	poor := simulate.Outcome{Leaf: true, Hungry: true, Window: time.Hour, Fair: 0.5, Got: 0.1, LargestJob: 0.1, UsedSeconds: 100}
	outcomes := []fairness.Outcome{
		{Scenario: fairness.Scenario{Seed: 11, Kind: "plain"}, Result: &simulate.Result{Duration: time.Hour}},
		{
			Scenario: fairness.Scenario{Seed: 12, Kind: "burst"}, Result: &simulate.Result{Duration: time.Hour, Pools: []simulate.Pool{{Name: "ads", Outcome: poor}}},
			Breaches: []fairness.Breach{{Pool: "ads", Problem: "got too little"}, {Problem: "too much was lost"}},
		},
	}
	var out bytes.Buffer
	if err := showFairness(&out, outcomes); err == nil || err.Error() != "2 guarantees violated" {
		t.Errorf("error %v", err)
	}
	want := "scenario 12, burst: weir dev fairness --scenario 12 --save scenario.yaml\n  ads: got too little\n  all pools: too much was lost\n\nKIND "
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "\nburst          1         2       1          1  0.200   0.300 ") {
		t.Errorf("got\n%s\nwant that it begins with\n%s", got, want)
	}
	poor.LostSeconds = 20
	wasteful := outcomes[1]
	wasteful.Result, wasteful.Breaches = &simulate.Result{Duration: time.Hour, Pools: []simulate.Pool{{Name: "ads", Outcome: poor}}}, nil
	out.Reset()
	if err := showFairness(&out, slices.Repeat([]fairness.Outcome{wasteful}, fairness.Many)); err == nil || !strings.HasPrefix(out.String(), "all scenarios: 0.200 of all usage in 30 clusters was lost") {
		t.Errorf("many that lose much: %v\n%s", err, out.String())
	}
	out.Reset()
	if err := showFairness(&out, outcomes[:1]); err != nil {
		t.Errorf("nothing was broken, error %v", err)
	}
}

package foretell

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/simulate"
)

// simulated is a cluster as weir dev starts it, with the pools of the load.
const simulated = `
duration: 90m
fair_share_update_period: 200ms
heartbeat: 1s
nodes: [{count: 3, cpu: 4, memory: 16GiB}]
pools:
  plain: {weight: 1}
  heavy: {weight: 3}
  guaranteed: {strong_guarantee_resources: {cpu: 2}}
  ordered: {mode: fifo}
trace: load.jsonl
`

// TestLoadIsForetold (X11) runs the load of weir dev estimates in a simulated cluster: nearly 9 of 10 starts
// are within the range that was told, although operations come all the time and differ in how long their
// jobs take. The median error is what chance leaves.
func TestLoadIsForetold(t *testing.T) {
	for seed := range uint64(2) {
		var trace strings.Builder
		for _, s := range load(seed+1, 12, 90*time.Minute) {
			lengths := make([]string, len(s.takes))
			for i, took := range s.takes {
				lengths[i] = fmt.Sprintf("%q", fmt.Sprintf("%dms", took.Milliseconds()))
			}
			fmt.Fprintf(&trace, "{\"at\": \"%dms\", \"pool\": %q, \"lengths\": [%s]}\n", s.at.Milliseconds(), s.pool, strings.Join(lengths, ", "))
		}
		file, err := simulate.Read([]byte(simulated), func(string) ([]byte, error) { return []byte(trace.String()), nil }, simulate.Changes{})
		if err != nil {
			t.Fatal(err)
		}
		file.Estimates = true
		result, err := simulate.Run(t.Context(), file, func(time.Duration) {})
		if err != nil {
			t.Fatal(err)
		}
		for name, of := range map[string]simulate.Foretold{"first": result.Estimates.First, "next": result.Estimates.Next} {
			t.Logf("seed %d, %s job: %d judged, median error %.0f%%, %.0f%% in range", seed+1, name, of.Judged, 100*of.ErrorP50, 100*of.Within)
			if of.Judged < 100 || of.Within < .88 || of.ErrorP50 > .5 {
				t.Errorf("seed %d, %s job: median error %.0f%%, want 50%% at most; %.0f%% of %d in range, want nearly 90%%", seed+1, name, 100*of.ErrorP50, 100*of.Within, of.Judged)
			}
		}
	}
}

package engine_test

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

// TestWhyPoolsLoseJobs: a job that goes because of its pool says which rule it goes by.
func TestWhyPoolsLoseJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b  options
		alone bool
		jobs  int64
		rule  explain.Rule
		text  string
	}{
		"its operations have what is theirs": {nil, nil, true, 8, explain.BeyondPools, "and its latest jobs may be preempted"},
		"others are guaranteed it":           {nil, options{"strong_guarantee_resources": options{"cpu": 4.0, "user_slots": 4.0}}, true, 8, explain.ForGuarantee, "is needed for another pool's guarantee"},
		"others have waited for longer":      {nil, options{"weight": 1.5}, true, 1, explain.ForTurn, "it is the turn of a pool that has lacked its fair share for longer"},
		"its operation has more":             {nil, nil, false, 8, explain.BeyondOperation, "operation a uses"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {options: tc.a}, "b": {options: tc.b}})
			d.node("n", tc.jobs)
			if tc.alone {
				for i := range tc.jobs {
					d.wants(scheduling.OperationID("a"+string(rune('0'+i))), "a", 1, slotsOf(1), nil)
				}
			} else {
				d.wants("a", "a", 8, slotsOf(1), nil)
			}
			d.pass(time.Second, time.Second, "n")
			d.wants("b", "b", 20, slotsOf(1), nil)
			for end := d.now.Add(time.Hour); len(d.victims) == 0 && d.now.Before(end); {
				d.pass(time.Second, time.Second, "n")
			}
			if len(d.victims) == 0 {
				t.Fatal("nobody has to go")
			}
			if v := d.victims[0]; v.Reason.Rule != tc.rule || !strings.Contains(v.Message(), tc.text) {
				t.Errorf("it goes by rule %d, want %d: %s", v.Reason.Rule, tc.rule, v.Message())
			}
		})
	}
}

package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
)

// TestVictimsOnTheNodesThatCount: a pool that may use some nodes alone gets what is its own on
// them, also where the one beside it started its latest jobs elsewhere, unless that one
// is not to be preempted aggressively.
func TestVictimsOnTheNodesThatCount(t *testing.T) {
	sure := options{"scheduling_tag_filter": "!other", "strong_guarantee_resources": options{"cpu": 4.0, "user_slots": 4.0}}
	alike := options{"scheduling_tag_filter": "!other"}
	for name, c := range map[string]struct {
		late, early options
		want        int
	}{
		"its guarantee":                 {sure, nil, 4},
		"its fair share":                {alike, nil, 4},
		"from a pool of protected jobs": {alike, options{"allow_aggressive_preemption": false}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"late": {options: c.late}, "early": {options: c.early}})
			d.node("n", 4)
			d.wants("early", "early", 20, slotsOf(1), nil)
			d.pass(time.Second, time.Second, "n")
			must(t, d.SetNode("m", slotsOf(8), true, "other"))
			d.pass(time.Minute, time.Second, "n", "m")
			d.wants("late", "late", 20, slotsOf(1), nil)
			d.pass(10*time.Minute, time.Second, "n", "m")
			if got := d.runs()["late"]; got != c.want {
				t.Errorf("%d of its jobs run, want %d: %v", got, c.want, d.runs())
			}
		})
	}
}

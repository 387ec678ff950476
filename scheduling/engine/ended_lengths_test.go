package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

// TestLengthsAreUpToTheEnd (X11) has jobs that all run for 60 s and end long after the last update: how
// long they ran is counted up to the next decision, not up to that update.
func TestLengthsAreUpToTheEnd(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"}}})
	d.node("n1", 4)
	d.wants("first", "a", 100, slotsOf(1), nil)
	d.tick(0)
	d.beat("n1")
	for range 3 {
		d.tick(time.Second)
		d.now = d.now.Add(59 * time.Second)
		d.kill("first", 4)
		d.beat("n1")
	}
	d.wants("op", "b", 2, slotsOf(1), nil)
	d.tick(time.Second)
	x, err := d.Explain("op", d.now)
	must(t, err)
	if wait := x.Start.Sub(d.now); x.StartBy != explain.ByEnds || (wait-59*time.Second).Abs() > time.Second {
		t.Errorf("a job starts in %v, %s, want in 59s, when the next jobs end; %s", wait, x.StartBy, textOf(x))
	}
}

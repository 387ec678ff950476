package engine_test

import (
	"reflect"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// TestWhatWasGivenUpIsLeft to the next leader: what a graceful operation was left with
// bounds it there as it did here, in the same age and in those after it.
func TestWhatWasGivenUpIsLeft(t *testing.T) {
	old := service(t, options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "1h"}, graceful)
	old.pass(10*time.Second, time.Second, "n")
	old.wantRuns(runs{"service": 4, "batch": 4})
	// next is an engine of the same operations, jobs and node.
	next := func() *drive {
		d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
		d.node("n", 8)
		d.wants("service", "a", old.pending["service"], slotsOf(1), graceful)
		d.wants("batch", "b", old.pending["batch"], slotsOf(1), nil)
		for _, a := range old.running {
			must(t, d.AddAllocation(a))
		}
		d.tick(time.Second)
		return d
	}
	left := old.Age(10000)
	want := []engine.Taking{{Operation: "service", Usage: slotsOf(4)}}
	if left.Digest == 0 || !reflect.DeepEqual(left.Takings, want) {
		t.Fatalf("left is %+v, want %+v", left, want)
	}
	d := next()
	d.SetAge(left, false)
	if got := d.Age(10000); !reflect.DeepEqual(got, left) {
		t.Errorf("the next one goes on from %+v, want %+v", got, left)
	}
	// Another node: an age later, the bound is still known.
	d = next()
	must(t, d.SetNode("m", resource.Amounts{UserSlots: 1, CPU: 100}, true))
	d.tick(time.Second)
	d.SetAge(left, false)
	want[0].Former = true
	later := d.Age(10000)
	if later.Digest != 0 || !reflect.DeepEqual(later.Takings, want) {
		t.Errorf("with another node it is %+v, want %+v", later, want)
	}
	d = next()
	d.SetAge(later, false)
	if got := d.Age(10000); !reflect.DeepEqual(got, later) {
		t.Errorf("the one after goes on from %+v, want %+v", got, later)
	}
}

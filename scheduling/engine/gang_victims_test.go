package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
)

// anew has all jobs of gangs that have lost one go, as controllers do: they begin anew.
func (d *drive) anew() {
	for _, v := range d.victims {
		if d.viewOf(v.Operation).Size == 0 {
			continue
		}
		for job, a := range d.running {
			if a.Operation == v.Operation {
				delete(d.going, job)
				d.end(job)
			}
		}
	}
}

// TestGangsGoAsAWhole: what is lost with one job of a gang is all of it. So gangs of equal right do
// not take each other's room for ever, and who may take one job from a pool may not take a gang.
func TestGangsGoAsAWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		set  func(d *drive)
		most int
	}{
		"gangs in one pool": {func(d *drive) {
			for _, id := range []scheduling.OperationID{"g1", "g2", "g3", "g4"} {
				d.gang(id, "a", 6, slotsOf(1))
			}
		}, 1},
		"a gang that is a little more than its share": {func(d *drive) {
			d.gang("g1", "a", 9, slotsOf(1))
		}, 0},
		"one that is far more": {func(d *drive) {
			d.gang("g1", "a", 14, slotsOf(1))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.node("n", 8)
			d.node("m", 8)
			tc.set(d)
			d.pass(2*time.Second, time.Second, "n", "m")
			d.wants("single", "b", 100, slotsOf(1), nil)
			gangs := 0
			for range 600 {
				d.victims = nil
				d.pass(time.Second, time.Second, "n", "m")
				for _, v := range d.victims {
					if v.Operation != "single" {
						gangs++
						break
					}
				}
				d.anew()
			}
			if gangs > tc.most {
				t.Errorf("%d times a gang had to go, want %d at most; %v run", gangs, tc.most, d.runs())
			}
			if d.runs()["single"] < 2 {
				t.Errorf("%v run", d.runs())
			}
		})
	}
}

// TestNobodyLeavesAgainForNothing: where not enough can be told to leave for a gang, though its
// fair share has all of it, this is tried once, and no more while nothing changes.
func TestNobodyLeavesAgainForNothing(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}, "held": {options: options{"allow_normal_preemption": false}}})
	d.node("n", 8)
	d.node("m", 8)
	d.wants("held", "held", 6, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n", "m")
	d.wants("single", "b", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n", "m")
	d.gang("g", "a", 7, slotsOf(1))
	d.pass(2*time.Hour, time.Second, "n", "m")
	if got := len(d.victims); got > 7 {
		t.Errorf("%d jobs had to leave for a gang that did not start: %v run", got, d.runs())
	}
}

// TestGangWithJobsInReserve: a gang that its fair share has room for starts by preemption also
// where its operation asks for more.
func TestGangWithJobsInReserve(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}})
	d.node("n", 8)
	d.node("m", 8)
	d.wants("single", "a", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n", "m")
	d.gang("g", "a", 8, slotsOf(1))
	d.pending["g"] = 12
	must(t, d.SetDemand("g", "t", 0, 12, slotsOf(1)))
	d.pass(10*time.Minute, time.Second, "n", "m")
	if d.runs()["g"] != 8 {
		t.Errorf("%v run, want 8 of the gang", d.runs())
	}
}

// TestNobodyLeavesForHalfAGang: a gang that its pool may have all of finds room by preemption,
// also with jobs of 2 of which no pool has a half; for a larger one nobody has to leave.
func TestNobodyLeavesForHalfAGang(t *testing.T) {
	for name, tc := range map[string]struct {
		size, each, victims int64
	}{
		"its fair share":           {8, 1, 8},
		"its fair share, larger":   {4, 2, 8},
		"one more job":             {9, 1, 0},
		"all of the cluster":       {16, 1, 0},
		"one more job, larger":     {5, 2, 0},
		"less than its fair share": {5, 1, 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.node("n", 8)
			d.node("m", 8)
			d.wants("single", "b", 100, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n", "m")
			d.gang("g", "a", tc.size, slotsOf(tc.each))
			d.pass(10*time.Minute, time.Second, "n", "m")
			started := int64(0)
			if tc.victims > 0 {
				started = tc.size
			}
			if got := int64(len(d.victims)); got != tc.victims || d.runs()["g"] != int(started) {
				t.Errorf("%d jobs had to leave, want %d; %v run", got, tc.victims, d.runs())
			}
		})
	}
}

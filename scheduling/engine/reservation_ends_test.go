package engine_test

import (
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// reserved is how many nodes keep something for jobs to come.
func (d *drive) reserved() (n int) {
	for _, n1 := range d.Snapshot().Nodes {
		if n1.Reserved != "" {
			n++
		}
	}
	return n
}

// TestWhatIsKeptGoesWithItsOperation: nothing is kept for an operation that is removed, or for
// the pool that goes with it; whoever asks why it waits is told all the same.
func TestWhatIsKeptGoesWithItsOperation(t *testing.T) {
	for name, after := range map[string]func(d *drive){
		"it is removed":           func(d *drive) { must(d.t, d.RemoveOperation("other")) },
		"it moves":                func(d *drive) { must(d.t, d.SetOperation(d.record("other", "b", nil))) },
		"its pool moves":          func(d *drive) { must(d.t, d.SetPool("c", "b", 1)) },
		"its pool goes after it":  func(d *drive) { must(d.t, d.RemoveOperation("other")); must(d.t, d.RemovePool("c")) },
		"it has nothing to start": func(d *drive) { must(d.t, d.SetDemand("other", "t", 0, 0, slotsOf(2))); d.tick(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}, "c": {}})
			d.node("n", 8)
			d.node("m", 8)
			d.wants("small", "a", 100, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n", "m")
			d.wants("large", "b", 1, slotsOf(3), nil)
			d.wants("other", "c", 10, slotsOf(2), nil)
			d.kill("small", 1)
			d.pass(4*time.Second, time.Second, "n", "m")
			if d.reserved() == 0 {
				t.Fatal("nothing is kept")
			}
			after(d)
			if _, err := d.Explain("large", d.now); err != nil {
				t.Error(err)
			}
			d.tick(time.Second)
			for _, n := range d.Snapshot().Nodes {
				if n.Reserved == "other" || n.Reserved == "c" {
					t.Errorf("%s keeps something for %s still", n.ID, n.Reserved)
				}
			}
		})
	}
}

// TestWhatIsKeptEndsWithAClaim: who starves gets its job by preemption on the node that keeps
// something for it, and nothing more is kept than it is due.
func TestWhatIsKeptEndsWithAClaim(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}, "c": {}})
	d.node("n", 8)
	d.wants("small", "a", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n")
	d.wants("other", "c", 10, slotsOf(2), nil)
	d.kill("small", 1)
	d.pass(3*time.Second, time.Second, "n")
	if d.reserved() == 0 {
		t.Fatal("nothing is kept")
	}
	for range 20 {
		d.pass(time.Second, time.Second, "n")
		if d.runs()["other"] == 2 {
			break
		}
	}
	d.tick(time.Second)
	if d.runs()["other"] != 2 || d.reserved() != 0 {
		t.Errorf("%v run, and on %d nodes something is kept", d.runs(), d.reserved())
	}
}

// TestWhatIsKeptForWhoMayUseIt: where the operation whose turn it is may not use a node, what is
// free there is kept for the next one of its pool.
func TestWhatIsKeptForWhoMayUseIt(t *testing.T) {
	for name, first := range map[string]options{
		"there is no other":            nil,
		"the first needs another node": {"scheduling_tag_filter": "gpu", "weight": 10.0},
		"the first is at its limit":    {"resource_limits": options{"user_slots": 1.0}, "weight": 10.0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, calm(nil), map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.node("n", 8)
			must(t, d.SetNode("g", slotsOf(8), true, "gpu"))
			d.wants("hold", "a", 8, slotsOf(1), options{"scheduling_tag_filter": "gpu"})
			d.wants("small", "a", 1000, slotsOf(1), options{"scheduling_tag_filter": "!gpu"})
			d.pass(2*time.Second, time.Second, "n", "g")
			if first != nil {
				d.wants("first", "b", 10, slotsOf(8), first)
			}
			d.wants("large", "b", 4, slotsOf(3), nil)
			d.pass(2*time.Second, time.Second, "n", "g")
			for range 4 {
				d.kill("small", 1)
				d.pass(time.Second, time.Second, "n", "g")
			}
			if got := d.runs()["large"]; got == 0 {
				t.Errorf("%v run: nothing was kept for large jobs", d.runs())
			}
		})
	}
}

// TestWhatIsKeptCountsAbove: pools that have their part of one that lacks two jobs keep no more
// nodes for it than that, however many they are.
func TestWhatIsKeptCountsAbove(t *testing.T) {
	pools := map[scheduling.PoolName]pool{"p": {}, "z": {}}
	nodes := make([]scheduling.NodeID, 6)
	for i := range nodes {
		nodes[i] = scheduling.NodeID(fmt.Sprint("n", i))
		// Each has its fair share, or more: what p lacks is due to p alone.
		pools[scheduling.PoolName(fmt.Sprint("c", i))] = pool{parent: "p", options: options{"weight": 0.0001}}
	}
	pools["rest"] = pool{parent: "p"}
	d := newDrive(t, calm(nil), pools)
	for i, n := range nodes {
		d.node(n, 8)
		d.wants(scheduling.OperationID(fmt.Sprint("l", i)), scheduling.PoolName(fmt.Sprint("c", i)), 40, slotsOf(3), nil)
	}
	d.pass(time.Second, time.Second, nodes...)
	d.wants("small", "z", 1000, slotsOf(1), nil)
	d.wants("rest", "rest", 1, slotsOf(9), nil)
	d.pass(3*time.Second, time.Second, nodes...)
	most := 0
	for i := range 200 {
		d.kill("small", 1)
		if i%20 == 0 {
			d.kill(scheduling.OperationID(fmt.Sprint("l", i/20%6)), 1)
		}
		d.pass(time.Second, time.Second, nodes...)
		d.tick(time.Second)
		for _, p := range d.Snapshot().Pools {
			if n := d.reserved(); p.Name == "p" && n > 0 && p.Shares.Usage.UserSlots+3*int64(n) > 24+3 {
				t.Fatalf("%d nodes keep something, and the pool uses %d of 24", n, p.Shares.Usage.UserSlots)
			}
		}
		most = max(most, d.reserved())
	}
	if most == 0 {
		t.Error("nothing was ever kept")
	}
}

// TestWhatTheStarvingLeave of what was kept for their pool is kept again, in the same heartbeat: a
// small job that starves takes what it needs, and not more.
func TestWhatTheStarvingLeave(t *testing.T) {
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"a": {}})
	needs := func(slots, memory int64) resource.Amounts { return resource.Amounts{UserSlots: slots, Memory: memory} }
	must(t, d.SetNode("n", needs(7, 1), true))
	must(t, d.SetNode("m", needs(8, 0), true))
	d.wants("holds", scheduling.RootPool, 1, needs(2, 1), nil)
	d.pass(time.Second, time.Second, "n")
	d.wants("waits", scheduling.RootPool, 1, needs(2, 1), nil)
	d.wants("beside", "a", 4, needs(4, 0), nil)
	d.pass(10*time.Second, time.Second, "m")
	d.wants("small", scheduling.RootPool, 9, needs(2, 0), nil)
	d.pass(10*time.Second, time.Second, "m")
	d.wantRuns(runs{"holds": 1, "small": 2, "beside": 1})
	d.beat("n")
	d.wantRuns(runs{"holds": 1, "small": 3, "beside": 1})
	if d.reserved() != 1 {
		t.Error("the rest is kept for nobody")
	}
	must(t, d.RemoveOperation("waits"))
	d.beat("n")
	d.wantRuns(runs{"holds": 1, "small": 4, "beside": 1})
}

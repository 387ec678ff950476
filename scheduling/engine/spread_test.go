package engine_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// serves adds an operation whose n jobs go to different nodes.
func (d *drive) serves(id scheduling.OperationID, in scheduling.PoolName, n int64, needs resource.Amounts, document options) {
	d.t.Helper()
	record := d.record(id, in, document)
	record.Spread = []scheduling.TaskName{"t"}
	must(d.t, d.AddOperation(record))
	d.now = d.now.Add(time.Millisecond)
	d.pending[id], d.needs[id] = n, needs
	must(d.t, d.SetDemand(id, "t", 0, n, needs))
}

// on counts the jobs of an operation that need not leave, by node.
func (d *drive) on(id scheduling.OperationID) map[scheduling.NodeID]int {
	got := map[scheduling.NodeID]int{}
	for job, a := range d.running {
		if _, goes := d.going[job]; !goes && a.Operation == id {
			got[a.Node]++
		}
	}
	return got
}

// TestSpread (F.14.1) has a service of six beside a batch, on three nodes.
func TestSpread(t *testing.T) {
	type placed = map[scheduling.NodeID]int
	all := []scheduling.NodeID{"n1", "n2", "n3"}
	for name, tc := range map[string]struct {
		tree options
		do   func(d *drive)
		want placed
	}{
		"as many on each node": {nil, func(d *drive) { d.pass(time.Second, 100*time.Millisecond, all...) }, placed{"n1": 2, "n2": 2, "n3": 2}},
		"whichever is looked at first": {nil, func(d *drive) {
			for _, n := range []scheduling.NodeID{"n3", "n3", "n1", "n1", "n2", "n3", "n3", "n2", "n1"} {
				d.beat(n)
			}
		}, placed{"n1": 2, "n2": 2, "n3": 2}},
		"one that is not looked at has the rest wait": {nil, func(d *drive) { d.pass(time.Second, 100*time.Millisecond, "n1", "n2") }, placed{"n1": 1, "n2": 1}},
		"but not for long":                            {nil, func(d *drive) { d.pass(8*time.Second, 100*time.Millisecond, "n1", "n2") }, placed{"n1": 3, "n2": 3}},
		"a node that takes no jobs is not waited for": {nil, func(d *drive) {
			must(d.t, d.SetNode("n3", slotsOf(10), false))
			d.pass(time.Second, 100*time.Millisecond, "n1", "n2")
		}, placed{"n1": 3, "n2": 3}},
		"nor one that has no room": {nil, func(d *drive) {
			must(d.t, d.SetNode("n3", slotsOf(1), true))
			d.pass(time.Second, 100*time.Millisecond, all...)
		}, placed{"n1": 2, "n2": 3, "n3": 1}},
		"nor one that it may not use": {nil, func(d *drive) {
			must(d.t, d.SetNode("n3", slotsOf(10), true, "gpu"))
			d.pass(time.Second, 100*time.Millisecond, all...)
		}, placed{"n1": 3, "n2": 3}},
		"who leaves does not count": {nil, func(d *drive) {
			d.pass(time.Second, 100*time.Millisecond, all...)
			must(d.t, d.SetNode("n3", slotsOf(10), false))
			for job, a := range d.running {
				if a.Node == "n3" {
					d.end(job)
				}
			}
			d.pass(time.Second, 100*time.Millisecond, all...)
			must(d.t, d.SetNode("n3", slotsOf(10), true))
			for job, a := range d.running {
				if a.Node == "n1" {
					d.going[job] = d.now.Add(time.Hour)
				}
			}
		}, placed{"n2": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, tc.tree, map[scheduling.PoolName]pool{"a": {}})
			for _, n := range all {
				d.node(n, 10)
			}
			filter := options{"scheduling_tag_filter": "!gpu"}
			d.serves("service", "a", 6, slotsOf(1), filter)
			d.tick(0)
			tc.do(d)
			if got := d.on("service"); !maps.Equal(got, tc.want) {
				t.Errorf("its jobs are on %v, want %v", got, tc.want)
			}
		})
	}
}

// TestSpreadIsKept lets nodes be looked at in any order while others run beside: no job of a
// service starts on a node while another one has room for it and fewer of them, and all start in
// the end that have room.
func TestSpreadIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrive(t, nil, map[scheduling.PoolName]pool{"a": {}, "b": {}})
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 8), 2, 5).Draw(t, "sizes")
		var nodes []scheduling.NodeID
		for i, size := range sizes {
			nodes = append(nodes, scheduling.NodeID(fmt.Sprint("n", i)))
			d.node(nodes[i], size)
		}
		services := []scheduling.OperationID{"s1", "s2"}
		d.serves("s1", "a", rapid.Int64Range(1, 10).Draw(t, "jobs"), slotsOf(1), nil)
		d.serves("s2", "b", rapid.Int64Range(0, 5).Draw(t, "more jobs"), slotsOf(1), nil)
		d.wants("batch", "b", rapid.Int64Range(0, 20).Draw(t, "batch"), slotsOf(1), nil)
		d.tick(0)
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			if rapid.IntRange(0, 9).Draw(t, "an end") == 0 && len(d.running) > 0 {
				for job := range maps.Keys(d.running) {
					if a := d.running[job]; a.Operation == "batch" && d.going[job].IsZero() {
						d.end(job)
						break
					}
				}
			}
			d.tick(10 * time.Millisecond)
			n := rapid.SampledFrom(nodes).Draw(t, "node")
			before := map[scheduling.OperationID]int{}
			for _, id := range services {
				before[id] = d.on(id)[n]
			}
			d.beat(n)
			for _, id := range services {
				checkSpread(t, d, id, n, before[id], nodes, sizes)
			}
		}
		d.pass(60*time.Second, 500*time.Millisecond, nodes...)
		if waiting := d.pending["s1"] + d.pending["s2"] + d.pending["batch"]; waiting > 0 && free(d, nodes, sizes) > 0 {
			t.Fatalf("%d jobs wait though there is room: %v", waiting, d.on("s1"))
		}
	})
}

// checkSpread checks what a look at n has started of a service.
func checkSpread(t *rapid.T, d *drive, id scheduling.OperationID, n scheduling.NodeID, before int, nodes []scheduling.NodeID, sizes []int64) {
	placed := d.on(id)
	if placed[n] <= max(before, 1) {
		return
	}
	for i, m := range nodes {
		if used := usedOn(d, m); m != n && used.Add(d.needs[id]).Fits(slotsOf(sizes[i])) && placed[m] < placed[n]-1 {
			t.Fatalf("%s has %v, and one was started on %s though %s has room: %v of %d used", id, placed, n, m, used, sizes[i])
		}
	}
}

func usedOn(d *drive, n scheduling.NodeID) (used resource.Amounts) {
	for _, a := range d.running {
		if a.Node == n {
			used = used.Add(a.Resources)
		}
	}
	return used
}

// free counts the slots that nobody uses.
func free(d *drive, nodes []scheduling.NodeID, sizes []int64) (slots int64) {
	for i, n := range nodes {
		slots += sizes[i] - usedOn(d, n).UserSlots
	}
	return slots
}

package scheduler

import (
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/engine"
)

// wants tells the tree of demand as an entry of the log, of jobs of task s.
func (w *world) wants(op *statepb.Operation, group, pending int64) {
	w.t.Helper()
	d := state.DemandChanged{ID: scheduling.OperationID(op.GetId()), Task: "s", Group: group, Pending: pending}
	if err := w.tree.SetDemand(op, d); err != nil {
		w.t.Fatalf("set demand: %v", err)
	}
}

// grants returns the grants of the last plan, by dedicated memory.
func (w *world) grants() map[int64]int {
	got := map[int64]int{}
	for _, p := range w.plans {
		for _, command := range p.Commands {
			if start, ok := command.(*commandpb.StartAllocations); ok {
				for _, g := range start.GetGrants() {
					got[g.GetDedicatedMemory()]++
					if d := g.GetDedicatedMemory(); d != 0 && d != g.GetResources().GetMemory() {
						w.t.Fatalf("a job that is to get %d of memory gets %d", d, g.GetResources().GetMemory())
					}
				}
			}
		}
	}
	w.plans = nil
	return got
}

// TestDemandOfGroups: jobs that get memory of their own are granted with it, and nodes
// are offered when a job needs less than it did.
func TestDemandOfGroups(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 4)
	w.run("a", "", 9)
	w.deliver(len(w.log))
	w.offer("n1")
	op, _ := w.Operation("a")
	w.wants(op, 0, 5)
	w.wants(op, 1200, 2)
	w.plan(1)
	if got := w.grants(); got[1200] != 2 || got[0] != 1 {
		t.Fatalf("granted by dedicated memory %v, want 2 of 1200 and 1 of what was learned", got)
	}
	if w.tree.Waiting() {
		t.Fatal("nodes wait to be looked at")
	}
	w.wants(op, 0, 5)
	if w.tree.Waiting() {
		t.Fatal("nodes are offered though nothing is easier than it was")
	}
	for _, task := range op.GetTasks() {
		task.JobResources.Memory = 250
	}
	w.wants(op, 0, 5)
	w.plan(1)
	if got := w.grants(); got[0] != 1 {
		t.Fatalf("granted %v, want the one for which there is a slot now that jobs need less", got)
	}
	w.wants(op, 1200, 0)
	if _, kept := w.tree.known["a"][allocation.TaskID{Name: "s", Group: 1200}]; kept {
		t.Error("a group of no jobs is kept")
	}
}

// TestSeedOfGroups: a new leader goes on with the groups that the state has.
func TestSeedOfGroups(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 4)
	w.run("a", "", 9)
	seed := w.seed()
	seed.Demand = []state.DemandChanged{{ID: "a", Task: "s", Pending: 1}, {ID: "a", Task: "s", Group: 1200, Pending: 1}}
	var err error
	if w.tree, err = NewTree(engine.Default(), seed); err != nil {
		t.Fatal(err)
	}
	w.offer("n1")
	w.plan(1)
	if got := w.grants(); got[1200] != 1 || got[0] != 1 {
		t.Fatalf("granted by dedicated memory %v, want one of each", got)
	}
}

package scheduler

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/allocation"
)

// story is what happens to a tree.
type story struct {
	events func(w *world)
	// wantUsed is what the engine counts as used in the end, of slots.
	wantUsed int64
}

// tell checks what a tree makes of stories. Each begins with the nodes n1 (2 slots,
// offered) and n2 (2 slots, not heard), and the running operation a (3 jobs and
// another); the tree has seen all of it.
func tell(t *testing.T, stories map[string]story) {
	t.Helper()
	for name, test := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.register("n1", 1, 2)
			w.register("n2", 1, 2)
			w.run("a", "", 3)
			w.deliver(len(w.log))
			w.offer("n1")
			test.events(w)
			w.heal()
			checkQuiet(w)
			var used int64
			for _, op := range w.tree.Snapshot().Operations {
				used += op.Shares.Usage.UserSlots
			}
			if used != test.wantUsed {
				t.Errorf("%d slots are used, want %d", used, test.wantUsed)
			}
			checkNothingRefused(w)
		})
	}
}

// TestTreeAndPlans has answers to plans that come early, late or not at all, and entries that
// come when what they name is gone.
func TestTreeAndPlans(t *testing.T) {
	tell(t, map[string]story{
		"starts in flight are used": {func(w *world) { w.plan(1) }, 2},
		"a lost plan is taken back": {func(w *world) {
			w.plan(1)
			w.settle(w.plans[0], lost)
			w.plans = nil
		}, 0},
		"an answer before its entry changes nothing": {func(w *world) {
			w.plan(1)
			w.settle(w.plans[0], w.commit(w.plans[0]))
			w.plans = nil
			if w.tree.Snapshot().InFlight != 2 {
				w.t.Fatalf("%d in flight, want 2 until the entry comes", w.tree.Snapshot().InFlight)
			}
		}, 2},
		"a plan that was taken for lost is counted when it comes": {func(w *world) {
			w.plan(1)
			w.settle(w.plans[0], lost)
			w.commit(w.plans[0])
			w.plans = nil
		}, 2},
		"what the state refuses is taken back": {func(w *world) {
			w.plan(1)
			w.must(&commandpb.SuspendOperation{OperationId: "a", User: "ann"})
		}, 0},
		"a job that ends before the tree hears of its start": {func(w *world) {
			w.plan(1)
			w.settle(w.plans[0], w.commit(w.plans[0]))
			w.plans = nil
			w.finish("a", "completed", w.allocations("a")[:1])
		}, 1},
		"the entry of a start comes when its operation is forgotten": {func(w *world) {
			w.plan(1)
			w.must(&commandpb.SuspendOperation{OperationId: "a", User: "ann"}, &commandpb.ResumeOperation{OperationId: "a", User: "ann"})
			w.settle(w.plans[0], w.commit(w.plans[0]))
			w.plans = nil
			w.must(&commandpb.AbortOperation{OperationId: "a", User: "ann", Reason: "enough"})
			w.finish("a", "aborted", w.allocations("a"))
			w.step("a")
			w.forget("a")
		}, 0},
		"an operation is started, ended and forgotten before the tree hears of it": {func(w *world) {
			w.run("b", "", 1)
			w.must(&commandpb.AbortOperation{OperationId: "b", User: "ann", Reason: "enough"})
			w.step("b")
			w.forget("b")
		}, 0},
	})
}

// TestTreeAndPools has pools that come, go and are renamed, and operations that move.
func TestTreeAndPools(t *testing.T) {
	tell(t, map[string]story{
		"a pool comes and goes before the tree hears of it": {func(w *world) {
			w.must(create("p", "", 1))
			w.run("b", "p", 1)
			w.must(&commandpb.AbortOperation{OperationId: "b", User: "ann", Reason: "enough"})
			w.step("b")
			w.must(remove("p"))
		}, 0},
		"a removed pool stays while starts of it are in flight": {func(w *world) {
			w.must(create("p", "", 1))
			w.run("b", "p", 5)
			w.deliver(len(w.log))
			w.plan(1)
			w.must(&commandpb.AbortOperation{OperationId: "b", User: "ann", Reason: "enough"})
			w.step("b")
			w.must(remove("p"))
			w.deliver(len(w.log))
		}, 1},
		"a renamed pool takes its operations along": {func(w *world) {
			w.must(create("p", "", 100))
			w.run("b", "p", 5)
			w.deliver(len(w.log))
			w.must(rename("p", "q"))
			w.deliver(len(w.log))
			w.plan(1)
		}, 2},
		"an operation that moves is moved": {func(w *world) {
			w.must(create("p", "", 1), move("a", "p"))
			w.deliver(len(w.log))
			w.plan(1)
		}, 2},
		"an operation that moved before the tree heard of its start": {func(w *world) {
			w.run("b", "", 5)
			w.must(create("p", "", 1), move("b", "p"), create("q", "", 1), move("b", "q"), remove("p"))
			w.deliver(1)
			w.deliver(len(w.log))
			w.plan(1)
		}, 2},
		"an ephemeral pool comes and goes with its operation": {func(w *world) {
			w.run("b", "mine", 5)
			w.deliver(3)
			w.must(move("b", "default"))
			w.deliver(len(w.log))
			w.plan(1)
		}, 2},
	})
}

// TestTreeAmongOthers has nodes that go to another tree and come back, and operations that run in both.
func TestTreeAmongOthers(t *testing.T) {
	tell(t, map[string]story{
		"a node that goes to another tree is given nothing": {func(w *world) {
			w.secondTree()
			w.register("n1", 1, 2, "gpu")
			w.deliver(len(w.log))
			w.plan(1)
		}, 0},
		"a node that comes from another tree is given jobs": {func(w *world) {
			w.secondTree()
			w.register("n2", 1, 2, "gpu")
			w.deliver(len(w.log))
			w.register("n2", 1, 2)
			w.deliver(len(w.log))
			w.offer("n2")
			w.plan(2)
		}, 4},
		"a job planned for a node that goes to another tree": {func(w *world) {
			w.secondTree()
			w.must(&commandpb.AbortOperation{OperationId: "a", User: "ann"})
			w.step("a")
			w.start("b", "", 3, "default", "gpu")
			for w.step("b") {
			}
			w.deliver(len(w.log))
			w.offer("n1")
			w.plan(1)
			w.register("n1", 1, 2, "gpu")
		}, 0},
		"jobs that another tree starts are not used here": {func(w *world) {
			w.secondTree()
			w.register("n2", 1, 2, "gpu")
			w.start("b", "", 3, "default", "gpu")
			for w.step("b") {
			}
			w.deliver(len(w.log))
			w.must(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{
				{JobId: "theirs", OperationId: "b", Task: "s", Node: "n2", NodeIncarnation: 1, Resources: oneJob()}}})
			w.deliver(len(w.log))
			if b := w.tree.known["b"][allocation.TaskID{Name: "s"}].pending; b != 2 {
				w.t.Fatalf("%d jobs wait, want 2", b)
			}
		}, 0},
		"an operation that waits for the tree gets nothing in it": {func(w *world) {
			w.secondTree()
			w.register("n2", 1, 2, "gpu")
			w.start("b", "", 3, "default", "gpu")
			w.must(&commandpb.AbortOperation{OperationId: "a", User: "ann"})
			w.step("a")
			for op, _ := w.Operation("b"); op.GetState() != "pending"; op, _ = w.Operation("b") {
				w.step("b")
			}
			w.must(&commandpb.AdvanceOperation{OperationId: "b", Term: 1, From: "pending", To: "materializing", Trees: []string{"gpu"}})
			w.step("b")
			w.deliver(len(w.log))
			w.offer("n1")
			w.plan(1)
		}, 0},
	})
}

// TestTreeAndOptions has options of operations and of the tree that change.
func TestTreeAndOptions(t *testing.T) {
	tell(t, map[string]story{
		"limits of an operation hold in the tree": {func(w *world) {
			w.must(&commandpb.UpdateOperation{OperationId: "a", User: "ann", Changes: []*commandpb.OperationChange{{Options: &commandpb.Changes{
				Values: map[string]*structpb.Value{"max_share_ratio": structpb.NewNumberValue(0.5), "resource_limits/user_slots": structpb.NewNumberValue(7)}}}}})
			w.run("b", "", 1)
			w.deliver(len(w.log))
			for _, op := range w.tree.Snapshot().Operations {
				limits, ratio := op.Options.ResourceLimits, op.Options.MaxShareRatio
				if (op.ID == "a") != (limits != nil && limits.Amounts.UserSlots == 7 && *ratio == 0.5) {
					w.t.Fatalf("operation %s has limits %v and ratio %v", op.ID, limits, ratio)
				}
			}
		}, 0},
		"single jobs are gangs while the tree says so": {func(w *world) {
			w.must(&commandpb.StartOperation{OperationId: "g", User: "ann", Spec: &statepb.OperationSpec{
				Type: "vanilla", Tasks: []*statepb.TaskSpec{{Name: "s", JobCount: 1}}}})
			gang := func() (gang bool) {
				w.deliver(len(w.log))
				for _, op := range w.tree.Snapshot().Operations {
					gang = gang || op.ID == "g" && op.Gang
				}
				return gang
			}
			if !gang() {
				w.t.Fatalf("a single job is no gang")
			}
			w.must(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: map[string]*structpb.Value{
				"consider_single_allocation_vanilla_operations_as_gang": structpb.NewBoolValue(false)}}}}))
			if gang() {
				w.t.Fatalf("a single job is a gang though the tree does not want it")
			}
		}, 0},
	})
}

// TestTreeAndNodes has nodes that start again, are not heard, or wait to be looked at.
func TestTreeAndNodes(t *testing.T) {
	tell(t, map[string]story{
		"a node that starts anew gets nothing in its old name": {func(w *world) {
			w.plan(1)
			w.register("n1", 2, 2)
		}, 0},
		"a node that nobody has heard gets nothing": {func(w *world) { w.plan(2) }, 2},
		"more demand looks at every node": {func(w *world) {
			w.offer("n2")
			w.plan(2)
			w.heal()
			if w.tree.Waiting() {
				w.t.Fatalf("nodes wait to be looked at though nothing has changed")
			}
			w.register("n1", 1, 3)
			w.deliver(len(w.log))
			w.run("b", "", 1)
			w.deliver(len(w.log))
			if !w.tree.Waiting() {
				w.t.Fatalf("an operation runs and no node is looked at")
			}
			w.plan(2)
		}, 5},
		"a node withdrawn while it waits is left out": {func(w *world) {
			if err := w.tree.Withdraw("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
				w.t.Fatalf("withdraw: %v", err)
			}
			w.plan(1)
		}, 0},
	})
}

// TestPreemptionsOfAnOvercommittedNode expects that a node that has shrunk is told
// to give back what its jobs hold beyond it.
func TestPreemptionsOfAnOvercommittedNode(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 2)
	w.run("a", "", 3)
	w.deliver(len(w.log))
	w.offer("n1")
	w.plan(1)
	w.heal()
	w.register("n1", 1, 1)
	w.deliver(len(w.log))
	for range 30 {
		w.now = w.now.Add(1e9)
		w.offer("n1")
		w.plan(1)
		if len(w.plans) > 0 {
			break
		}
	}
	if len(w.plans) != 1 {
		t.Fatal("a node with one slot and two jobs has nothing to give back")
	}
	preempt, ok := w.plans[0].Commands[0].(*commandpb.PreemptAllocations)
	if !ok || len(preempt.GetPreemptions()) != 1 || preempt.GetPreemptions()[0].GetOrder().GetPreemption() != "resource_overcommit" {
		t.Fatalf("got %v, want one job of operation a to be preempted", w.plans[0].Commands)
	}
	w.commit(w.plans[0])
	a, _ := w.Operation("a")
	stopped := 0
	for _, allocation := range w.allocations("a") {
		if a.StopOrderFor(allocation) != nil {
			stopped++
		}
	}
	if stopped != 1 {
		t.Errorf("%d jobs are told to stop, want 1", stopped)
	}
}

// TestNodesTakeTurns in being offered, a part of them at a time.
func TestNodesTakeTurns(t *testing.T) {
	for n := range 12 {
		tree := &Tree{nodes: roster{ready: map[string]bool{}, queued: map[string]bool{}}}
		for i := range n {
			id := fmt.Sprint("n", i)
			tree.nodes.ready[id], tree.nodes.order = true, append(tree.nodes.order, id)
		}
		for turn := range 5 {
			before := len(tree.nodes.queue)
			tree.nodes.offerNext(0.2)
			if got := len(tree.nodes.queue) - before; got > n/5+1 {
				t.Errorf("turn %d of %d nodes: %d are offered", turn, n, got)
			}
		}
		if len(tree.nodes.queue) != n {
			t.Errorf("of %d nodes, %v are offered in five turns", n, tree.nodes.queue)
		}
	}
}

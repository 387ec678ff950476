package scheduler

import (
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestNodeWithoutPorts: the state refuses jobs that need ports there. The node is offered to others at once, and not to
// those jobs again.
func TestNodeWithoutPorts(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 2)
	w.must(&commandpb.StartOperation{OperationId: "ports", User: "ann", Spec: &statepb.OperationSpec{Type: "vanilla", Tasks: []*statepb.TaskSpec{{
		Name: "main", JobCount: 3, Argv: []string{"true"}, CpuLimitHundredths: 100, MemoryLimit: 1 << 20, PortCount: 1,
	}}}})
	for w.step("ports") {
	}
	w.deliver(len(w.log))
	w.offer("n1")
	w.plan(1)
	planned, waiting := len(w.plans[0].Jobs), w.tree.Waiting()
	w.settle(w.plans[0], w.commit(w.plans[0]))
	w.plans = nil
	if planned == 0 || waiting || len(w.allocations("ports")) > 0 {
		t.Fatalf("%d starts were planned, and %d granted; nodes wait: %v", planned, len(w.allocations("ports")), waiting)
	}
	if !w.tree.Waiting() {
		t.Error("the node is not offered to others")
	}
	w.run("other", "", 2)
	w.deliver(len(w.log))
	w.plan(1)
	w.settle(w.plans[0], w.commit(w.plans[0]))
	w.plans = nil
	if got := len(w.allocations("other")); got != 2 {
		t.Errorf("%d jobs of another operation were granted, want 2", got)
	}
}

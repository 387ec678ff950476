package scheduler

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// starving makes a world in which operation a has all four slots of node n1, and
// operation b, which came later, has been below its fair share for long enough.
func starving(t *testing.T) *world {
	w := newWorld(t)
	w.register("n1", 1, 4)
	w.must(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: map[string]*structpb.Value{
		"fair_share_starvation_timeout": structpb.NewStringValue("30s"), "allocation_preemption_timeout": structpb.NewStringValue("20s"),
	}}}}))
	w.run("a", "", 6)
	w.deliver(len(w.log))
	w.offer("n1")
	w.plan(1)
	w.heal()
	w.run("b", "", 6)
	w.deliver(len(w.log))
	w.plan(1)
	w.heal()
	if len(w.allocations("a")) != 4 || len(w.allocations("b")) != 0 {
		t.Fatalf("a has %d jobs and b %d, want 4 and none", len(w.allocations("a")), len(w.allocations("b")))
	}
	w.now = w.now.Add(29 * time.Second)
	w.offer("n1")
	w.plan(1)
	if len(w.plans) != 0 {
		t.Fatalf("planned %v before b starves", w.plans[0].Commands)
	}
	for ; len(w.plans) == 0 && w.now.Before(noon.Add(5*time.Minute)); w.now = w.now.Add(time.Second) {
		w.offer("n1")
		w.plan(1)
	}
	if len(w.plans) != 1 || len(w.plans[0].Victims) != 1 {
		t.Fatalf("planned %+v, want one job of a to go", w.plans)
	}
	return w
}

func (w *world) claims() int { return len(w.tree.Snapshot().Claims) }

func (w *world) leaving() (leaving int) {
	for _, op := range w.tree.Snapshot().Operations {
		leaving += op.Leaving
	}
	return leaving
}

// TestBelowSince (W1): who starves is shown with since when it has been below its share; others are not.
func TestBelowSince(t *testing.T) {
	w := starving(t)
	view := w.tree.view(Config{Tree: scheduling.DefaultTree}, &actorpb.SchedulerViewRequest{}, w.now)
	told := map[string]string{}
	for _, e := range view.GetElements() {
		if e.BelowSince != nil {
			told[e.GetId()] = e.GetStarvationStatus()
			if below := w.now.Sub(e.GetBelowSince().AsTime()); below < 30*time.Second || below > 5*time.Minute {
				t.Errorf("%s is below its share for %v, want what made it starve", e.GetId(), below)
			}
		}
	}
	if len(told) != 1 || told["b"] != "starving" {
		t.Errorf("below their shares: %v, want b alone, which starves", told)
	}
}

func TestWhatAVictimLeavesIsForWhomItLeft(t *testing.T) {
	w := starving(t)
	preempt := w.plans[0].Commands[0].(*commandpb.PreemptAllocations)
	order := preempt.GetPreemptions()[0].GetOrder()
	if order.GetPreemption() != "preemption" || order.GetInterruption() != "preemption" || order.GetGraceMillis() != 20_000 ||
		order.GetPreemptedFor().GetOperationId() != "b" || order.GetMessage() == "" || preempt.GetTerm() != 1 {
		t.Errorf("the order is %v, want 20 s to make room for b", order)
	}
	victim := w.plans[0].Victims[0]
	w.heal()
	if w.claims() != 1 || w.leaving() != 1 {
		t.Fatalf("%d claims, %d jobs that leave, want one each", w.claims(), w.leaving())
	}
	// A new leader holds the same; neither preempts anything more meanwhile.
	rebuilt := w.rebuild()
	if got := rebuilt.Snapshot(); len(got.Claims) != 1 || got.Claims[0].Operation != "b" || got.Claims[0].Node != "n1" {
		t.Fatalf("a new leader holds %+v, want the claim of b on n1", got.Claims)
	}
	w.tree = rebuilt
	for range 10 {
		w.now = w.now.Add(time.Second)
		w.offer("n1")
		w.plan(1)
	}
	if len(w.plans) != 0 {
		t.Fatalf("planned %v while the victim leaves", w.plans[0].Commands)
	}
	a, _ := w.state.Allocation(scheduling.JobID(victim))
	w.finish("a", "completed", []*statepb.Allocation{a})
	w.deliver(len(w.log))
	w.plan(1)
	if len(w.plans) != 1 || len(w.plans[0].Jobs) != 1 {
		t.Fatalf("planned %+v, want one job of b", w.plans)
	}
	w.heal()
	if len(w.allocations("b")) != 1 || w.claims() != 0 || w.leaving() != 0 {
		t.Errorf("b has %d jobs, %d claims, %d jobs that leave; want one job and nothing else", len(w.allocations("b")), w.claims(), w.leaving())
	}
}

func TestPreemptionsThatAreNotCommitted(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"a lost plan": func(w *world) { w.settle(w.plans[0], lost) },
		"its beneficiary wants no more": func(w *world) {
			w.must(&commandpb.AbortOperation{OperationId: "b", User: "ann"})
			w.settle(w.plans[0], w.commit(w.plans[0]))
		},
		"another leads": func(w *world) {
			w.must(&commandpb.BeginTerm{Term: 2, Replica: "r2", ClusterId: "c1"})
			w.settle(w.plans[0], w.commit(w.plans[0]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := starving(t)
			story(w)
			w.plans = nil
			w.deliver(len(w.log))
			if w.leaving() != 0 || w.claims() != 0 {
				t.Errorf("%d jobs leave, %d claims, want none", w.leaving(), w.claims())
			}
		})
	}
}

func TestAPreemptionThatWasTakenForLost(t *testing.T) {
	w := starving(t)
	w.settle(w.plans[0], lost)
	w.commit(w.plans[0])
	w.plans = nil
	w.deliver(len(w.log))
	if w.leaving() != 1 || w.claims() != 1 {
		t.Errorf("%d jobs leave, %d claims, want one each", w.leaving(), w.claims())
	}
}

func TestJobsThatUsersTellToGoLeave(t *testing.T) {
	for name, test := range map[string]struct {
		order func(w *world)
		want  int
	}{
		"one by one": {func(w *world) {
			w.must(&commandpb.StopJobs{OperationId: "a", JobIds: []string{w.allocations("a")[0].GetJobId()}, Order: &statepb.StopOrder{
				Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 60_000,
			}})
		}, 1},
		"with their node":      {func(w *world) { w.must(&commandpb.DrainNode{Node: "n1", User: "ann", InterruptMillis: 60_000}) }, 4},
		"with their operation": {func(w *world) { w.must(&commandpb.AbortOperation{OperationId: "a", User: "ann"}) }, 4},
		"with their operation, in their own time": {func(w *world) {
			w.must(&commandpb.AbortOperation{OperationId: "a", User: "ann", InterruptMillis: 60_000})
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := starving(t)
			w.settle(w.plans[0], lost)
			w.plans = nil
			test.order(w)
			w.deliver(len(w.log))
			if w.leaving() != test.want {
				t.Errorf("%d jobs leave, want %d", w.leaving(), test.want)
			}
			w.tree = w.rebuild()
			if w.leaving() != test.want {
				t.Errorf("a new leader thinks that %d jobs leave, want %d", w.leaving(), test.want)
			}
		})
	}
}

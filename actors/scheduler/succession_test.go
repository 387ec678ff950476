package scheduler

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
)

// hungry is a full node of four slots, of which a greedy operation has all, and a late one
// in another pool that starves after ten seconds.
func hungry(t *testing.T) (w *world, since time.Time) {
	t.Helper()
	w = newWorld(t)
	w.set(map[string]string{"fair_share_starvation_timeout": "10s", "preemptive_scheduling_backoff": "1s"})
	w.must(create("a", "", 1), create("b", "", 1))
	w.register("n1", 1, 4)
	w.run("greedy", "a", 10)
	w.deliver(len(w.log))
	w.offer("n1")
	w.plan(1)
	w.heal()
	w.run("late", "b", 10)
	w.deliver(len(w.log))
	if err := w.tree.Tick(w.now); err != nil {
		t.Fatal(err)
	}
	return w, w.now
}

func (w *world) hungerOf(tree *Tree, id string) preemption.Clock {
	w.t.Helper()
	for _, op := range tree.Snapshot().Operations {
		if string(op.ID) == id {
			return op.Shares.Clock
		}
	}
	w.t.Fatalf("no operation %s", id)
	return preemption.Clock{}
}

// TestANewLeaderGoesOnFromTheClocks: who starves does so when it would have under the old
// leader, once all nodes are back, and not before.
func TestANewLeaderGoesOnFromTheClocks(t *testing.T) {
	w, since := hungry(t)
	w.must(w.checkpoint(w.tree))
	if again := w.checkpoint(w.tree); again != nil {
		t.Errorf("proposed again: %v", again)
	}
	next := w.rebuild()
	tick := func(after time.Duration) (old, now preemption.Clock) {
		t.Helper()
		for _, tree := range []*Tree{w.tree, next} {
			if err := tree.Tick(since.Add(after)); err != nil {
				t.Fatal(err)
			}
		}
		return w.hungerOf(w.tree, "late"), w.hungerOf(next, "late")
	}
	// The node has not been heard: nobody can say who is below its share.
	if _, now := tick(time.Second); now != (preemption.Clock{}) || w.checkpoint(next) != nil {
		t.Errorf("a leader without nodes finds %+v, and keeps %v", now, w.checkpoint(next))
	}
	if err := next.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  preemption.Starvation
	}{{2 * time.Second, preemption.NonStarving}, {10 * time.Second, preemption.NonStarving}, {10*time.Second + time.Millisecond, preemption.Starving}} {
		if old, now := tick(step.after); old != now || now.Starvation != step.want || !now.Since.Equal(since) {
			t.Errorf("after %v: %+v at the old leader, %+v at the new one, want %v", step.after, old, now, step.want)
		}
	}
	// What it finds, the next one finds too: only what has changed is told.
	m, ok := w.checkpoint(next).(*commandpb.CheckpointVolumes)
	if !ok || len(m.GetClocks()) != 2 || m.GetClocks()[0].GetPoolId() == 0 || m.GetClocks()[1].GetOperationId() != "late" || m.GetClocks()[1].GetStarvation() != "starving" {
		t.Fatalf("the new leader tells %v", m)
	}
	w.must(m)
	third := w.rebuild()
	if err := third.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	if err := third.Tick(since.Add(11 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := w.hungerOf(third, "late"); got.Starvation != preemption.Starving {
		t.Errorf("under the third leader it is %+v", got)
	}
}

// TestClocksThatStop are dropped: of who has got its share, at the old leader or at the
// new one, and of who has gone.
func TestClocksThatStop(t *testing.T) {
	w, since := hungry(t)
	w.must(w.checkpoint(w.tree))
	kept := func() int { return len(w.Kept(scheduling.DefaultTree).GetClocks()) }
	if kept() != 2 {
		t.Fatalf("%d clocks are kept, want those of the operation and its pool", kept())
	}
	// It is well at the new leader's first look: its clock begins anew when it is below again.
	suspend := &commandpb.SuspendOperation{OperationId: "late", User: "ann"}
	resume := &commandpb.ResumeOperation{OperationId: "late", User: "ann"}
	next := w.rebuild()
	if err := next.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	w.tree = next
	w.must(suspend)
	w.deliver(len(w.log))
	for _, msg := range []proto.Message{nil, resume} {
		if msg != nil {
			w.must(msg)
			w.deliver(len(w.log))
		}
		if err := next.Tick(since.Add(9 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.hungerOf(next, "late"); !got.Since.Equal(since.Add(9 * time.Second)) {
		t.Errorf("below since %v, want since it was below again", got.Since)
	}
	w.must(suspend)
	w.deliver(len(w.log))
	if err := next.Tick(since.Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	w.must(w.checkpoint(next))
	if kept() != 0 || w.checkpoint(next) != nil {
		t.Errorf("%d clocks are kept of who is well", kept())
	}
}

// TestAClockThatIsAhead: what another leader's clock said of the future begins now.
func TestAClockThatIsAhead(t *testing.T) {
	w, since := hungry(t)
	m := w.checkpoint(w.tree).(*commandpb.CheckpointVolumes)
	for _, k := range m.GetClocks() {
		k.BelowSince.Seconds += 3600
	}
	w.must(m)
	next := w.rebuild()
	if err := next.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	if err := next.Tick(since); err != nil {
		t.Fatal(err)
	}
	if got := w.hungerOf(next, "late"); !got.Since.Equal(since) {
		t.Errorf("below since %v, want %v", got.Since, since)
	}
}

// TestANewLeaderGoesOnWithTheAge: who took from another is barred from what it lost while
// all stays as it was, and no longer.
func TestANewLeaderGoesOnWithTheAge(t *testing.T) {
	demand := func(w *world) {
		w.run("more", "b", 1)
	}
	for name, tc := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"all is as it was":  {func(*world) {}, true},
		"more is asked for": {demand, false},
		"a node has come":   {func(w *world) { w.register("n2", 1, 4) }, false},
		"an operation weighs more": {func(w *world) {
			w.must(&commandpb.UpdateOperation{OperationId: "late", User: "ann", Changes: []*commandpb.OperationChange{
				{Options: &commandpb.Changes{Values: map[string]*structpb.Value{"weight": structpb.NewNumberValue(3)}}}}})
		}, false},
		"the tree was edited": {func(w *world) { w.must(create("c", "", 1)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, since := hungry(t)
			at := since
			for range 15 {
				at = at.Add(time.Second)
				w.now = at
				w.tree.OfferAll()
				w.plan(1)
				w.heal()
			}
			if err := w.tree.Tick(w.now); err != nil {
				t.Fatal(err)
			}
			took := w.tree.engine.Age(state.MaxTakings)
			if len(took.Takings) != 1 || took.Takings[0].Operation != "late" || took.Takings[0].From != "greedy" || took.Digest == 0 {
				t.Fatalf("the age is %+v, want late to have taken from greedy", took)
			}
			w.must(w.checkpoint(w.tree))
			tc.change(w)
			next := w.rebuild()
			if err := next.Tick(w.now); err != nil {
				t.Fatal(err)
			}
			record := w.Kept(scheduling.DefaultTree).GetAge()
			if got := next.engine.Age(state.MaxTakings); len(got.Takings) != len(record.GetTakings()) {
				t.Errorf("while nodes are awaited the age is %+v, want %v", got, record)
			}
			for _, node := range w.nodes() {
				if err := next.Offer(node.GetId(), node.GetResources().Amounts()); err != nil {
					t.Fatal(err)
				}
			}
			if err := next.Tick(w.now.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			got := next.engine.Age(state.MaxTakings)
			if goesOn := len(got.Takings) == 1 && got.Takings[0] == took.Takings[0]; goesOn != tc.want || !tc.want && len(got.Takings) != 0 {
				t.Errorf("the age is %+v, want it to go on: %v", got, tc.want)
			}
			// Operations get other controllers when a replica has gone, and are as they were.
			op, _ := w.Operation("late")
			if err := next.SetOperation(op, lifecycle.Running, false); err != nil {
				t.Fatal(err)
			}
			if again := next.engine.Age(state.MaxTakings); len(again.Takings) != len(got.Takings) {
				t.Errorf("the age is %+v after nothing has changed", again)
			}
			// What it finds is what the next one is told.
			if m, _ := w.checkpoint(next).(*commandpb.CheckpointVolumes); tc.want && m.GetAge() != nil || !tc.want && record != nil && m.GetAge() == nil {
				t.Errorf("the new leader tells %v", m)
			}
		})
	}
}

package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// saver makes the pool "saver", into which two slots flow.
func saver() *commandpb.EditTree {
	options, err := structpb.NewStruct(map[string]any{"integral_guarantees": map[string]any{
		"guarantee_type": "relaxed", "resource_flow": map[string]any{"user_slots": 2},
	}})
	if err != nil {
		panic(err)
	}
	return editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "saver", Options: options}}})
}

// TestVolumesAreKept expects a checkpoint every five seconds while a pool has volume,
// one at a time, and none before.
func TestVolumesAreKept(t *testing.T) {
	onStage(t, func(s *stage) {
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		s.offerBoth()
		s.lose()
		s.lose()
		s.proposals = nil
		wait(12 * time.Second)
		if len(s.proposals) > 0 {
			t.Fatalf("%v were proposed of a tree without volumes", s.proposals)
		}
		s.must(saver())
		s.send(Committed{Index: s.index, Events: s.world.log[len(s.world.log)-1].events, Done: func() {}})
		wait(12 * time.Second)
		if len(s.proposals) != 1 {
			t.Fatalf("%d checkpoints without an answer, want 1: %v", len(s.proposals), s.proposals)
		}
		kept, ok := s.proposals[0].(*commandpb.CheckpointVolumes)
		if !ok || len(kept.GetVolumes()) != 1 || kept.GetVolumes()[0].GetPool() != "saver" || !(kept.GetVolumes()[0].GetUserSlots() > 0) {
			t.Fatalf("proposed %v", s.proposals[0])
		}
		s.lose()
		wait(6 * time.Second)
		if len(s.proposals) != 2 {
			t.Errorf("%d checkpoints, want another one after the first was lost", len(s.proposals))
		}
	})
}

// TestANewLeaderGoesOnFromTheVolumes restores a checkpoint: the time since then flows
// in, no more and no less.
func TestANewLeaderGoesOnFromTheVolumes(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 4)
	w.must(saver())
	w.deliver(len(w.log))
	w.offer("n1")
	begin := w.now
	tick := func(tree *Tree, at time.Duration) float64 {
		t.Helper()
		if err := tree.Tick(begin.Add(at)); err != nil {
			t.Fatal(err)
		}
		_, volumes := tree.engine.Volumes()
		for _, v := range volumes {
			if v.Pool == scheduling.PoolName("saver") {
				return v.Volume.UserSlots
			}
		}
		return 0
	}
	tick(w.tree, 0)
	before := tick(w.tree, 10*time.Second)
	w.must(w.tree.Checkpoint(1))
	next, err := NewTree(engine.Default(), w.seed())
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	old, now := tick(w.tree, 25*time.Second), tick(next, 25*time.Second)
	if before <= 0 || now != old {
		t.Errorf("volume %v at the checkpoint, then %v at the old leader and %v at the new one", before, old, now)
	}
}

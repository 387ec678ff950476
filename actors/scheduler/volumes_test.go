package scheduler

import (
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

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
// one at a time. Before that there are only clocks to keep, until they are.
func TestVolumesAreKept(t *testing.T) {
	onStage(t, func(s *stage) {
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		s.offerBoth()
		s.lose()
		s.lose()
		s.forget()
		for range 2 {
			wait(6 * time.Second)
			m, ok := s.proposals[0].(*commandpb.CheckpointVolumes)
			if !ok || len(s.proposals) != 1 || len(m.GetVolumes()) > 0 || len(m.GetClocks()) != 2 {
				t.Fatalf("%v were proposed of a tree without volumes, and two that are below their share", s.proposals)
			}
			s.lose()
			s.forget()
		}
		wait(6 * time.Second)
		// It is committed, though the answer is lost.
		s.must(s.proposals[0])
		s.lose()
		s.forget()
		wait(12 * time.Second)
		if len(s.proposals) > 0 {
			t.Fatalf("%v were proposed when all is kept", s.proposals)
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
	w.must(w.checkpoint(w.tree))
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

// TestVolumesAreKeptBeforeATransfer expects the volumes of the moment when another
// replica is to lead, even when some have been proposed just now, and the answer when
// the outcome is known.
func TestVolumesAreKeptBeforeATransfer(t *testing.T) {
	onStage(t, func(s *stage) {
		s.offerBoth()
		s.lose()
		s.lose()
		s.must(saver())
		s.send(Committed{Index: s.index, Events: s.world.log[len(s.world.log)-1].events, Done: func() {}})
		<-time.After(11 * time.Second)
		synctest.Wait()
		before := len(s.outcomes)
		if before == 0 {
			t.Fatal("no checkpoint is in flight")
		}
		<-time.After(500 * time.Millisecond)
		at := time.Now()
		kept := false
		s.send(KeepVolumes{Done: func() { kept = true }})
		s.want(before + 1)
		last, ok := s.proposals[len(s.proposals)-1].(*commandpb.CheckpointVolumes)
		if !ok || !last.GetTime().AsTime().Equal(at) {
			t.Errorf("proposed %v, want the volumes as of %v", s.proposals[len(s.proposals)-1], at)
		}
		for range before {
			s.lose()
		}
		if kept {
			t.Error("kept before the outcome is known")
		}
		s.lose()
		if !kept {
			t.Error("not told when the outcome is known")
		}
	})
}

// TestVolumesBeginWithTheirPool has a leader begin before the one that saw the pool made
// has kept anything: what has flown in since then is there.
func TestVolumesBeginWithTheirPool(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 4)
	w.must(saver())
	made := w.now
	next := w.rebuild()
	if err := next.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
		t.Fatal(err)
	}
	if err := next.Tick(made.Add(2500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, volumes := next.engine.Volumes(); len(volumes) != 1 || math.Abs(volumes[0].Volume.UserSlots-5) > 1e-9 {
		t.Errorf("after 2.5 s of two slots the volumes are %+v", volumes)
	}
}

// TestVolumesFollowARename renames a pool while a checkpoint of it is in flight: the
// engine goes on with what the pool has, and so does a new leader with what was kept.
// The edit changes as well what is a gang.
func TestVolumesFollowARename(t *testing.T) {
	for name, late := range map[string]bool{"the tree hears of each edit": false, "the tree hears of all edits at once": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.register("n1", 1, 4)
			w.must(saver())
			w.run("op", "saver", 1)
			w.deliver(len(w.log))
			w.offer("n1")
			tick := func(tree *Tree) map[scheduling.PoolName]float64 {
				if err := tree.Tick(w.now.Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				_, volumes := tree.engine.Volumes()
				got := map[scheduling.PoolName]float64{}
				for _, v := range volumes {
					got[v.Pool] = v.Volume.UserSlots
				}
				return got
			}
			if err := w.tree.Tick(w.now); err != nil {
				t.Fatal(err)
			}
			before := tick(w.tree)["saver"]
			inFlight := w.checkpoint(w.tree)
			edit := rename("saver", "moved")
			edit.Edits = append(edit.Edits, &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: map[string]*structpb.Value{
				"consider_single_allocation_vanilla_operations_as_gang": structpb.NewBoolValue(false)}}}})
			for _, msg := range []*commandpb.EditTree{edit, rename("moved", "kept"), create("saver", "", 1)} {
				w.must(msg)
				if !late {
					w.deliver(len(w.log))
				}
			}
			w.must(inFlight)
			w.deliver(len(w.log))
			checkQuiet(w)
			if before <= 0 {
				t.Fatal("the pool has saved nothing")
			}
			now := tick(w.tree)
			next := w.rebuild()
			if err := next.Offer("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
				t.Fatal(err)
			}
			then := tick(next)
			if now["kept"] < before || now["saver"] != 0 || !maps.Equal(now, then) {
				t.Errorf("before %v, then %v, and %v at a new leader", before, now, then)
			}
		})
	}
}

// TestPoolsAreRecordedEverySecond expects a point for each second, however many updates
// there are.
func TestPoolsAreRecordedEverySecond(t *testing.T) {
	onStage(t, func(s *stage) {
		first := s.recorded[0]
		for range 40 {
			<-time.After(250 * time.Millisecond)
			s.send(KeepVolumes{Done: func() {}})
		}
		for i, second := range s.recorded {
			if second != first+int64(i) {
				t.Fatalf("recorded seconds %v", s.recorded)
			}
		}
		if len(s.recorded) < 10 {
			t.Errorf("%d seconds were recorded of ten", len(s.recorded))
		}
	})
}

// TestVolumesOverAnyTransfers has leader follow leader, some of which leave no last
// words: what a pool has is what it had, with what flows in and without what it used.
func TestVolumesOverAnyTransfers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		nodes := []string{"n1", "n2", "n3"}
		for _, node := range nodes {
			w.register(node, 1, 4)
		}
		w.must(saver())
		w.run("op", "saver", rapid.Int32Range(1, 20).Draw(t, "jobs"))
		w.deliver(len(w.log))
		begin := w.now
		leader := w.tree
		offer := func(node string) {
			if err := leader.Offer(node, w.NodeRecord(node).GetResources().Amounts()); err != nil {
				t.Fatal(err)
			}
		}
		for _, node := range nodes {
			offer(node)
		}
		var at time.Duration
		tick := func() {
			if err := leader.Tick(begin.Add(at)); err != nil {
				t.Fatal(err)
			}
		}
		volume := func() float64 {
			_, volumes := leader.engine.Volumes()
			for _, v := range volumes {
				if v.Pool == "saver" {
					return v.Volume.UserSlots
				}
			}
			return 0
		}
		tick()
		want := volume()
		for range rapid.IntRange(1, 12).Draw(t, "terms") {
			for range rapid.IntRange(1, 30).Draw(t, "ticks") {
				d := time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond
				want += flowLessUse(leader) * d.Seconds()
				want = max(want, 0)
				at += d
				tick()
			}
			w.must(w.checkpoint(leader))
			// For a while nobody leads, and then nodes come back one by one: all of that
			// time flows in and is paid too.
			flow := flowLessUse(leader)
			var err error
			if leader, err = NewTree(engine.Default(), w.seed()); err != nil {
				t.Fatal(err)
			}
			for _, node := range rapid.Permutation(nodes).Draw(t, "order") {
				d := time.Duration(rapid.IntRange(0, 2000).Draw(t, "gap ms")) * time.Millisecond
				want += flow * d.Seconds()
				at += d
				tick()
				if w.checkpoint(leader) != nil {
					t.Fatalf("volumes are to be kept before %s is back", node)
				}
				offer(node)
			}
			want = max(want, 0)
			tick()
			got := volume()
			if got < 0 || math.Abs(got-want) > 0.01*max(want, 1) {
				t.Fatalf("after %v the volume is %v, want %v", at, got, want)
			}
		}
	})
}

// flowLessUse is by how many slots a second the volume of the saver grows as things
// are: two flow in, and the integral part of its fair share is paid.
func flowLessUse(t *Tree) float64 {
	for _, p := range t.engine.Pools() {
		if p.Name == "saver" {
			return 2 - p.Shares.Attributes.Parts.Integral.MaxComponent()*12
		}
	}
	return 0
}

package scheduler

import (
	"testing"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/explain"
)

// gang leads a new operation to running: one task of jobs of which so many run together.
func (w *world) gang(id, pool string, jobs, size int32) {
	w.t.Helper()
	w.must(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: &statepb.OperationSpec{
		Type: "vanilla", Pool: pool, MaxFailedJobCount: 100, Tasks: []*statepb.TaskSpec{{Name: "s", JobCount: jobs, Gang: &statepb.GangSpec{Size: size}}},
	}})
	for w.step(id) {
	}
}

// round has all nodes looked at, and what follows be committed and seen. It returns
// how many jobs of an operation were granted, and how many of these together.
func (w *world) round(id string) (granted, together int) {
	w.t.Helper()
	for _, node := range w.nodes() {
		w.offer(node.GetId())
	}
	for w.tree.Waiting() {
		w.plan(9)
		for _, p := range w.plans {
			for _, command := range p.Commands {
				start, _ := command.(*commandpb.StartAllocations)
				for _, g := range start.GetGrants() {
					if g.GetOperationId() == id {
						granted++
						if g.GetAllOrNone() {
							together++
						}
					}
				}
			}
			answers := w.commit(p)
			for _, answer := range answers.Grants {
				if answer.GetRefusal() != "" {
					w.t.Fatalf("grant of %s: %s", answer.GetJobId(), answer.GetMessage())
				}
			}
			w.settle(p, answers)
		}
		w.plans = nil
		w.deliver(len(w.log))
	}
	return granted, together
}

// TestGang: all jobs of a gang are granted by one command; when one of them is lost, the
// others have to end before any is granted again, and then all are.
func TestGang(t *testing.T) {
	w := newWorld(t)
	for _, node := range []string{"n1", "n2", "n3"} {
		w.register(node, 1, 4)
	}
	w.run("small", "", 12)
	w.deliver(len(w.log))
	w.round("small")
	w.gang("gang", "", 7, 6)
	w.deliver(len(w.log))
	small := w.allocations("small")
	for n := 2; n <= 6; n += 2 {
		w.finish("small", "completed", small[n-2:n])
		w.deliver(len(w.log))
		granted, together := w.round("gang")
		if n < 6 && granted != 0 || n == 6 && (granted != 6 || together != 6) {
			t.Fatalf("with room for %d, %d jobs of a gang of 6 are granted, %d together", n, granted, together)
		}
	}
	ranked := w.allocations("gang")
	w.finish("gang", "failed", ranked[:1])
	w.deliver(len(w.log))
	for _, a := range w.allocations("gang") {
		if a.GetStop().GetReason() != "operation_incarnation_changed" {
			t.Fatalf("job %s of rank %d is told %v", a.GetJobId(), a.GetGangRank(), a.GetStop())
		}
	}
	for n := 1; n < 6; n++ {
		if granted, _ := w.round("gang"); granted != 0 {
			t.Fatalf("%d jobs are granted while %d of the incarnation before run", granted, 6-n)
		}
		w.finish("gang", "aborted", ranked[n:n+1])
		w.deliver(len(w.log))
	}
	// The other task of small has a job, which has taken what the gang left first.
	w.finish("small", "completed", small[6:7])
	w.deliver(len(w.log))
	if granted, together := w.round("gang"); granted != 6 || together != 6 {
		t.Fatalf("%d jobs of the next incarnation are granted, %d together; want 6", granted, together)
	}
	w.finish("small", "completed", small[7:8])
	w.deliver(len(w.log))
	if granted, together := w.round("gang"); granted != 1 || together != 0 {
		t.Fatalf("%d jobs in reserve are granted, %d together; want 1, by itself", granted, together)
	}
	if op, _ := w.Operation("gang"); op.GetTasks()[0].GetGang().GetIncarnation() != 2 {
		t.Errorf("the gang is %v, want incarnation 2", op.GetTasks()[0].GetGang())
	}
	checkQuiet(w)
}

// TestGangCompletes: ranks that have completed are not missing, to this leader and to
// the next.
func TestGangCompletes(t *testing.T) {
	w := newWorld(t)
	w.register("n1", 1, 3)
	w.gang("gang", "", 5, 3)
	w.deliver(len(w.log))
	if granted, together := w.round("gang"); granted != 3 || together != 3 {
		t.Fatalf("%d granted, %d together, want 3", granted, together)
	}
	w.finish("gang", "completed", w.allocations("gang")[:2])
	w.deliver(len(w.log))
	w.tree = w.rebuild()
	if granted, together := w.round("gang"); granted != 2 || together != 0 {
		t.Errorf("%d jobs in reserve are granted, %d together; want 2, each by itself", granted, together)
	}
	checkQuiet(w)
}

// gangView is the gang of an operation, as the engine has it.
func (w *world) gangView(id scheduling.OperationID) explain.Gang {
	for _, op := range w.tree.Snapshot().Operations {
		if op.ID == id {
			return op.Tasks[0].Gang
		}
	}
	return explain.Gang{}
}

// inReserve is a full node on which the ranks of a gang run, and a job of greedy has been
// told to go for one more, which is in reserve.
func inReserve(t *testing.T, ranks int32) *world {
	t.Helper()
	w := newWorld(t)
	w.set(map[string]string{
		"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "5s", "waiting_for_resources_on_node_timeout": "1h",
		"best_allocation_share_update_period": "1ms",
	})
	w.must(create("a", "", 1), create("b", "", 1))
	w.register("n1", 1, 2+2*int64(ranks))
	w.runOf("greedy", "a", 10, 1)
	w.heal()
	w.beat(time.Second)
	w.gang("gang", "b", ranks+1, ranks)
	w.heal()
	for tries := 0; len(w.allocations("gang")) < int(ranks) || len(w.goers("greedy")) == 0; tries++ {
		if len(w.allocations("gang")) == 0 {
			w.finish("greedy", "aborted", w.goers("greedy"))
		}
		if w.beat(time.Second); tries > 60 {
			t.Fatal("nobody goes for the job in reserve")
		}
	}
	return w
}

// TestGangTakesWhatWasHeldForReserve: the only rank is lost while room is held for the
// job in reserve. The gang gathers it, to this leader and to the next: none who goes for
// the job goes in vain.
func TestGangTakesWhatWasHeldForReserve(t *testing.T) {
	for name, elected := range map[string]bool{"the same leader": false, "another leader": true} {
		t.Run(name, func(t *testing.T) {
			w := inReserve(t, 1)
			w.beat(50 * time.Second)
			w.finish("gang", "failed", w.allocations("gang"))
			w.heal()
			checkQuiet(w)
			if elected {
				w.elect()
			}
			if got := w.gangView("gang"); got.Missing != 1 || got.Gathered != 1 {
				t.Fatalf("the gang is %+v, want 1 of 1 gathered", got)
			} else if left := got.Until.Sub(w.now); !elected && left < 50*time.Second {
				t.Errorf("it gathers for %s, want the time of one that has just begun", left)
			}
			w.finish("greedy", "aborted", w.goers("greedy"))
			w.heal()
			if granted, together := w.round("gang"); granted != 1 || together != 1 {
				t.Errorf("%d granted, %d together; want the one rank, as a gang", granted, together)
			}
		})
	}
}

// TestRankThatCompletesEndsNoClaim: what is held for a job in reserve is that still when
// a rank completes, which is not missing.
func TestRankThatCompletesEndsNoClaim(t *testing.T) {
	w := inReserve(t, 2)
	w.finish("gang", "completed", w.allocations("gang")[:1])
	w.heal()
	w.tree.engine.Heartbeat(w.now, nil)
	if got := w.gangView("gang"); got.Missing != 0 || got.Gathered != 0 || len(w.tree.Snapshot().Claims) != 1 {
		t.Errorf("the gang is %+v, and %+v is held; want none missing, and a claim", got, w.tree.Snapshot().Claims)
	}
	checkQuiet(w)
}

// TestGangOfNodesThatANewLeaderAwaits: to a new leader a gang counts that fits on nodes that
// were online and have not been heard, until one of them is known to take no jobs.
func TestGangOfNodesThatANewLeaderAwaits(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(w *world)
		want bool
	}{
		"none of them is heard": {func(*world) {}, true},
		"one of them is heard":  {func(w *world) { w.offer("n1") }, true},
		"one of them takes no jobs": {func(w *world) {
			if err := w.tree.Withdraw("n1", w.NodeRecord("n1").GetResources().Amounts()); err != nil {
				w.t.Fatalf("withdraw: %v", err)
			}
		}, false},
		"one of them is lost":    {func(w *world) { w.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1}) }, false},
		"one of them is drained": {func(w *world) { w.must(&commandpb.DrainNode{Node: "n1", User: "ann"}) }, false},
		"one of them is forgotten": {func(w *world) {
			w.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1}, &commandpb.RemoveNode{Node: "n1", User: "ann"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.register("n1", 1, 4)
			w.register("n2", 1, 4)
			w.register("n3", 1, 1)
			w.gang("gang", "", 7, 6)
			w.tree, w.log = w.rebuild(), nil
			w.offer("n3")
			tc.then(w)
			w.deliver(len(w.log))
			if err := w.tree.Tick(w.now); err != nil {
				t.Fatal(err)
			}
			ops := w.tree.Snapshot().Operations
			if got := len(ops) == 1 && ops[0].Shares.Attributes.LimitedDemand.UserSlots > 0; got != tc.want {
				t.Errorf("the gang asks for jobs: %t, want %t", got, tc.want)
			}
			if w.tree.nodes.awaited["n1"] != (name == "none of them is heard") {
				t.Errorf("awaited are %v", w.tree.nodes.awaited)
			}
		})
	}
}

package actors

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// claims counts what is held in the tree.
func (r *testReplica) claims() (n int) {
	r.store.View(func(s *state.State) { n = len(s.Claims(scheduling.DefaultTree)) })
	return n
}

// TestNextLeaderHoldsWhatWasHeld cuts the leader off when a job that was preempted has
// gone, and the one that it went for could not start yet, for its node is drained. Under
// the next leader that one has the room, and nobody has to go again.
func TestNextLeaderHoldsWhatWasHeld(t *testing.T) {
	c := startCluster(t, 3, nil)
	first, other := c.leader(), c.follower()
	a := startAgent(t, c, "n1")
	greedy, starved := c.controlledBy(other, "greedy"), c.controlledBy(other, "starved")
	starve(t, other, greedy, starved, a, "10m")
	var victim string
	for job, stop := range other.stops(greedy) {
		if stop.GetPreemption() != "" {
			victim = job
		}
	}
	other.must(t, &commandpb.DrainNode{Node: "n1", User: "oda", Time: timestamppb.Now()},
		&commandpb.StopJobs{OperationId: greedy, JobIds: []string{victim}, Order: &statepb.StopOrder{
			Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 1, Time: timestamppb.Now()}})
	eventually(t, "the preempted job has gone", func() bool { return len(other.jobsOf(greedy)) == 3 })
	if got := other.claims(); got != 1 {
		t.Fatalf("%d claims, want one for the starved operation", got)
	}

	leader := c.without(first).leader()
	term, _ := leader.store.Leadership()
	eventually(t, "the agent is registered with the new leader", func() (again bool) {
		a.set(func() { again = a.term == term.Term })
		return again
	})
	if got := leader.claims(); got != 1 || len(leader.jobsOf(starved)) != 0 {
		t.Fatalf("%d claims, and jobs %v, want one claim and no job", got, leader.jobsOf(starved))
	}
	leader.must(t, &commandpb.UndrainNode{Node: "n1", Time: timestamppb.Now()})
	eventually(t, "the starved operation has its job", func() bool { return len(leader.jobsOf(starved)) == 1 })
	if got := leader.claims(); got != 0 {
		t.Errorf("%d claims after the start", got)
	}
	if got := leader.operation(starved).GetPreemptedOthers()["preemption"]; got != 1 {
		t.Errorf("%d jobs had to go for it, want 1", got)
	}
	a.finish()
	for _, id := range []string{greedy, starved} {
		leader.await(t, id, "completed")
	}
}

// TestRemovedNode has a node forgotten: one that is lost goes at once, with what it was
// thought to run, one that lives only when it is drained and empty. Who is heard again under
// the name registers a new node, which gets jobs.
func TestRemovedNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, nodesAreLost)
	r := c.leader()
	remove := func(force bool) string {
		return r.propose(t, &commandpb.RemoveNode{Node: "n1", User: "oda", Force: force, Time: timestamppb.Now()}).GetRefusal().GetCode()
	}
	known := func() bool { return r.records.NodeRecord("n1") != nil }
	lost := startAgent(t, c, "n1")
	r.submit(t, "op", 2)
	eventually(t, "both jobs run", func() bool { return len(lost.running()) == 2 })
	if got := remove(true); got != state.CodeNodeInUse {
		t.Fatalf("removal of a node with jobs: %q", got)
	}
	lost.stop()
	eventually(t, "the node is offline", func() bool { return r.records.NodeRecord("n1").GetState() == statepb.NodeOffline })
	if got := remove(false); got != "" || known() {
		t.Fatalf("removal of a node that is offline: %q, known %t", got, known())
	}
	back := startAgent(t, c, "n1")
	eventually(t, "the jobs run on the node that is back", func() bool { return len(back.running()) == 2 })
	back.finish()
	r.await(t, "op", "completed")

	r.must(t, &commandpb.DrainNode{Node: "n1", User: "oda", Time: timestamppb.Now()})
	if got := remove(true); got != "" {
		t.Fatalf("removal of a node that is drained and empty: %q", got)
	}
	eventually(t, "its agent has registered it anew", func() bool { return known() && r.records.NodeRecord("n1").GetDrain() == nil })
	r.submit(t, "again", 2)
	r.await(t, "again", "completed")
}

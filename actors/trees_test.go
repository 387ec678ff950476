package actors

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// must proposes commands that are carried out.
func (r *testReplica) must(t *testing.T, messages ...proto.Message) {
	t.Helper()
	for _, msg := range messages {
		if refusal := r.propose(t, msg).GetRefusal(); refusal != nil {
			t.Fatalf("%T: %s", msg, refusal.GetMessage())
		}
	}
}

func startIn(id string, jobs int32, pool string, trees ...string) *commandpb.StartOperation {
	return &commandpb.StartOperation{OperationId: id, User: "ann", Time: timestamppb.Now(), Spec: &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10, PoolTrees: trees, Pool: pool,
		Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: jobs, Shell: "work", CpuLimitHundredths: 100, MemoryLimit: 1 << 20}},
	}}
}

// jobsOn counts the jobs of an operation by node.
func (r *testReplica) jobsOn(id string) map[string]int {
	on := map[string]int{}
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfOperation(scheduling.OperationID(id)) {
			on[a.GetNode()]++
		}
	})
	return on
}

// TestTreesComeAndGo makes a second tree while the cluster works, runs an operation
// in both, lets it into the second one later, and removes it again.
func TestTreesComeAndGo(t *testing.T) {
	c := startCluster(t, 1, nil)
	leader := c.leader()
	cpus, gpus := startAgent(t, c, "n1"), startAgent(t, c, "g1", "gpu")
	text, number := structpb.NewStringValue, structpb.NewNumberValue
	change := func(name string, value *structpb.Value) *commandpb.EditTree {
		return &commandpb.EditTree{Time: timestamppb.Now(), Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Change{
			Change: &commandpb.Changes{Values: map[string]*structpb.Value{name: value}}}}}}
	}
	leader.must(t, change("nodes_filter", text("!gpu")),
		&commandpb.CreateTree{Tree: "gpu", Time: timestamppb.Now(), Options: &structpb.Struct{Fields: map[string]*structpb.Value{
			"nodes_filter": text("gpu"), "max_running_operation_count_per_pool": number(1)}}},
		startIn("first", 1, "", "gpu"))
	eventually(t, "the tree gpu runs its operation", func() bool { return leader.jobsOn("first")["g1"] == 1 })
	leader.must(t, startIn("both", 8, "", "default", "gpu"))
	eventually(t, "the other tree alone runs the operation of both", func() bool {
		op := leader.operation("both")
		return leader.jobsOn("both")["n1"] == 4 && op.In("gpu").GetPendingReason() != ""
	})
	if on := leader.jobsOn("both"); on["g1"] != 0 {
		t.Errorf("jobs by node: %v, want none on g1 while the tree gpu is full", on)
	}
	leader.must(t, &commandpb.AbortOperation{OperationId: "first", User: "ann", Time: timestamppb.Now()})
	eventually(t, "the tree gpu lets it run", func() bool {
		op := leader.operation("both")
		return leader.jobsOn("both")["g1"] == 4 && op.In("gpu").GetAdmitted() && op.GetPendingReason() == ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for tree, want := range map[string]int{"": 2, "gpu": 1, "mars": 0} {
		view, err := leader.SchedulerView(ctx, &actorpb.SchedulerViewRequest{Tree: tree})
		if err != nil || len(view.GetNodes()) != want {
			t.Errorf("tree %q: %d nodes are seen, want %d (%v)", tree, len(view.GetNodes()), want, err)
		}
	}
	cpus.finish()
	gpus.finish()
	leader.await(t, "both", "completed")
	leader.await(t, "first", "aborted")
	leader.must(t, &commandpb.RemoveTree{Tree: "gpu", Time: timestamppb.Now()}, change("nodes_filter", nil))
	eventually(t, "the tree and its actors have gone", func() bool {
		view, err := leader.SchedulerView(ctx, &actorpb.SchedulerViewRequest{})
		return err == nil && len(view.GetNodes()) == 2 && len(view.GetElements()) > 0 && view.GetElements()[0].GetTree() == "default"
	})
	// An ephemeral pool comes and goes, on nodes that the tree has got back.
	leader.must(t, startIn("own", 8, "anns"))
	leader.await(t, "own", "completed")
	if pools, _ := leader.records.Pools("default"); pools.Has("anns") {
		t.Error("the ephemeral pool is still there")
	}
}

// TestViewsAreAddedUp of all trees, any number of times: schedulers show the same view
// to all who ask between two updates.
func TestViewsAreAddedUp(t *testing.T) {
	view := func(tree string, slots int64) *actorpb.SchedulerView {
		return &actorpb.SchedulerView{
			Term: 3, Total: &statepb.Resources{UserSlots: slots}, Updated: timestamppb.Now(),
			Elements: []*actorpb.ElementView{{Tree: tree, Id: "<Root>"}}, Nodes: []*actorpb.NodeView{{Id: "node of " + tree}},
		}
	}
	seen := []*actorpb.SchedulerView{view("default", 4), view("gpu", 2)}
	for range 2 {
		var all *actorpb.SchedulerView
		add := gather(len(seen), func(v *actorpb.SchedulerView) { all = v })
		for _, v := range seen {
			add(v)
		}
		if all.GetTerm() != 3 || all.GetTotal().GetUserSlots() != 6 || all.GetUpdated() == nil || len(all.GetElements()) != 2 || len(all.GetNodes()) != 2 {
			t.Errorf("added up: %v", all)
		}
	}
}

package api

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// Snapshot answers with all that fair shares in a tree follow from. What jobs use
// and want is the leader's word; without it there is no answer.
func (s trees) Snapshot(ctx context.Context, req *connect.Request[apipb.SnapshotRequest]) (*connect.Response[apipb.SnapshotResponse], error) {
	const what = "snapshot pool tree"
	out := &apipb.SnapshotResponse{}
	err := s.read(ctx, what, func(st *state.State) error {
		t, err := findTree(st, what, req.Msg.GetTree())
		out.Tree = string(t.name)
		return err
	})
	if err != nil {
		return nil, err
	}
	view, err := s.cfg.Leader.SchedulerView(ctx, &actorpb.SchedulerViewRequest{Tree: out.GetTree()})
	if err != nil {
		return nil, s.unavailable(what, err)
	}
	out.Time = view.GetTime()
	if out.GetTime() == nil {
		out.Time = timestamppb.New(s.cfg.Now())
	}
	err = s.read(ctx, what, func(st *state.State) error {
		t, err := findTree(st, what, out.GetTree())
		if err != nil {
			return err
		}
		snapshot(out, st, t, view)
		return nil
	})
	return answer(out, err)
}

// snapshot fills in what the state and the leader's scheduler know of a tree.
func snapshot(out *apipb.SnapshotResponse, st *state.State, t treeIn, view *actorpb.SchedulerView) {
	out.Revision, out.Options = t.record.GetRevision(), orEmpty(t.record.GetOptions())
	volumes := make(map[string]*statepb.PoolVolume)
	for _, v := range t.record.GetVolumes() {
		volumes[v.GetPool()] = v
	}
	elements := make(map[string]*actorpb.ElementView)
	for _, e := range view.GetElements() {
		switch {
		case e.GetTree() != out.GetTree():
		case !e.GetPool():
			elements[e.GetId()] = e
		case e.GetVolume() != nil:
			volumes[e.GetId()] = e.GetVolume()
		}
	}
	records := make(map[string]*statepb.Pool, len(t.record.GetPools()))
	for _, p := range t.record.GetPools() {
		records[p.GetName()] = p
	}
	for _, p := range t.pools.ParentsFirst() {
		out.Pools = append(out.Pools, &apipb.SnapshotPool{
			Name: string(p.Name), Parent: string(p.Parent), Options: orEmpty(records[string(p.Name)].GetOptions()), Volume: volumeOf(volumes[string(p.Name)]),
		})
	}
	for op := range st.InProgress() {
		if shown := snapshotOperation(op, t, elements[op.GetId()]); shown != nil {
			out.Operations = append(out.Operations, shown)
		}
	}
	for _, n := range st.Nodes() {
		if n.GetTree() == out.GetTree() && n.GetState() == statepb.NodeOnline && n.GetDrain() == nil {
			out.Nodes = append(out.Nodes, &apipb.SnapshotNode{Id: n.GetId(), Resources: resourcesOf(n.GetResources().Amounts()), Tags: n.GetTags()})
		}
	}
}

// snapshotOperation shows an operation that takes part in the sharing of the tree;
// nil: it does not.
func snapshotOperation(op *statepb.Operation, t treeIn, e *actorpb.ElementView) *apipb.SnapshotOperation {
	in := op.In(string(t.name))
	now, err := lifecycle.ParseState(op.GetState())
	if e == nil || err != nil || !now.CountsAsRunning() || !in.GetAdmitted() {
		return nil
	}
	return &apipb.SnapshotOperation{
		Id: op.GetId(), Title: op.GetSpec().GetTitle(), Pool: in.GetPool(), Options: orEmpty(in.GetOptions()),
		Usage: resourcesOf(e.GetUsage().Amounts()), Demand: resourcesOf(e.GetDemand().Amounts()), PendingJobs: e.GetPendingJobs(),
		Gang: gang(op.GetSpec(), t.pools.Settings()), StartTime: op.GetStartTime(),
	}
}

// gang reports whether the jobs of an operation are needed all at once (F.2).
func gang(spec *statepb.OperationSpec, s pooltree.Settings) bool {
	single := spec.GetType() == lifecycle.Vanilla && len(spec.GetTasks()) == 1 && spec.GetTasks()[0].GetJobCount() == 1
	return spec.GetIsGang() || s.SingleJobVanillaIsGang && single
}

func volumeOf(v *statepb.PoolVolume) *apipb.Volume {
	if v == nil {
		return nil
	}
	return &apipb.Volume{
		UserSlots: v.GetUserSlots(), Cpu: float64(v.GetCpuHundredths()) / 100, Gpu: v.GetGpu(), Memory: v.GetMemory(), Network: v.GetNetwork(),
		LastShareRatio: v.GetLastShareRatio(),
	}
}

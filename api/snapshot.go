package api

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// Snapshot returns all inputs of the fair shares of a tree. Operations may be of a later moment than pools and
// nodes. Volumes come from the leader,
// or from the last checkpoint if the leader cannot be reached.
func (s trees) Snapshot(ctx context.Context, req *connect.Request[apipb.SnapshotRequest]) (*connect.Response[apipb.SnapshotResponse], error) {
	const what = "snapshot pool tree"
	tree := req.Msg.GetTree()
	if tree == "" {
		s.cfg.Store.View(func(st *state.State) { tree = string(st.DefaultTree()) })
	}
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{Tree: tree})
	if err != nil {
		return nil, err
	}
	out := &apipb.SnapshotResponse{}
	var t treeIn
	err = s.read(ctx, what, func(st *state.State) (err error) {
		if t, err = findTree(st, what, tree); err == nil {
			snapshot(out, st, t, view)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.latestFirst(0, operationsCounted, true, func(st *state.State, some []*statepb.Operation) bool {
		seen := askerOf(ctx).sight(st)
		for _, op := range some {
			// A pool may be new since the pools were read.
			if shown := snapshotOperation(st, op, t); shown != nil && t.pools.Has(scheduling.PoolName(shown.GetPool())) {
				hideTexts(seen, op, shown)
				out.Operations = append(out.Operations, shown)
			}
		}
		return true
	})
	slices.Reverse(out.Operations)
	return connect.NewResponse(out), nil
}

// snapshot fills out from the state of a tree, but for operations, and from the volumes in view.
func snapshot(out *apipb.SnapshotResponse, st *state.State, t treeIn, view *actorpb.SchedulerView) {
	out.Tree, out.Revision, out.Options = string(t.name), t.record.GetRevision(), orEmpty(t.record.GetOptions())
	out.Time = t.record.GetVolumesTime()
	volumes := make(map[string]*statepb.PoolVolume)
	for _, v := range t.record.GetVolumes() {
		volumes[v.GetPool()] = v
	}
	for _, e := range view.GetElements() {
		if e.GetTree() == out.GetTree() && e.GetVolume() != nil {
			volumes[e.GetId()], out.Time = e.GetVolume(), view.GetUpdated()
		}
	}
	records := make(map[string]*statepb.Pool, len(t.record.GetPools()))
	for _, p := range t.record.GetPools() {
		records[p.GetName()] = p
	}
	for _, p := range t.pools.ParentsFirst() {
		out.Pools = append(out.Pools, &apipb.SnapshotPool{
			Name: string(p.Name), Parent: string(p.Parent), EphemeralUser: string(p.Ephemeral), Options: orEmpty(records[string(p.Name)].GetOptions()), Volume: volumeOf(volumes[string(p.Name)]),
		})
	}
	for _, n := range st.Nodes() {
		if n.GetTree() == out.GetTree() && n.GetState() == statepb.NodeOnline && n.GetDrain() == nil {
			out.Nodes = append(out.Nodes, &apipb.SnapshotNode{Id: n.GetId(), Resources: resourcesOf(n.GetResources().Amounts()), Tags: n.GetTags()})
		}
	}
}

// hideTexts removes the title of an operation that the caller may not read, and the names of its
// tasks.
func hideTexts(seen sight, op *statepb.Operation, shown *apipb.SnapshotOperation) {
	if seen.reads(op) {
		return
	}
	shown.Title = ""
	for i, task := range shown.GetTasks() {
		task.Name = fmt.Sprint(i + 1)
	}
}

// snapshotOperation shows an operation that shares in the tree; nil if it does not.
func snapshotOperation(st *state.State, op *statepb.Operation, t treeIn) *apipb.SnapshotOperation {
	in := op.In(string(t.name))
	now, err := lifecycle.ParseState(op.GetState())
	if err != nil || !now.CountsAsRunning() || !in.GetAdmitted() {
		return nil
	}
	var usage resource.Amounts
	for _, a := range st.AllocationsOfOperation(scheduling.OperationID(op.GetId())) {
		if n, ok := st.Node(scheduling.NodeID(a.GetNode())); ok && n.GetTree() == string(t.name) {
			usage = usage.Add(a.GetResources().Amounts())
		}
	}
	out := &apipb.SnapshotOperation{
		Id: op.GetId(), Title: op.GetSpec().GetTitle(), Pool: in.GetPool(), Options: orEmpty(in.GetOptions()), Usage: resourcesOf(usage),
		Enabled: now == lifecycle.Running && !op.GetSuspended(), Gang: op.GetSpec().Gang(t.pools.Settings()), StartTime: op.GetStartTime(),
	}
	for _, task := range op.GetTasks() {
		if pending := task.GetCounters().GetPending(); pending > 0 && !now.Finishing() {
			out.Tasks = append(out.Tasks, &apipb.SnapshotTask{
				Name: task.GetName(), Pending: pending, JobResources: resourcesOf(task.GetJobResources().Amounts()),
			})
		}
	}
	return out
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

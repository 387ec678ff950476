package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/document"
	"weir/api/poolfile"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// WhatIf computes the fair shares of a tree before and after changes, which are not made. The call computes in
// its turn, as all do.
func (s trees) WhatIf(ctx context.Context, req *connect.Request[apipb.WhatIfRequest]) (*connect.Response[apipb.WhatIfResponse], error) {
	const what = "what if"
	changes, err := whatIfChanges(req.Msg)
	if err != nil {
		return nil, invalid("%s: %v", what, err)
	}
	out := &apipb.WhatIfResponse{}
	now, err := s.described(ctx, what, req.Msg.GetTree(), out)
	if err != nil {
		return nil, err
	}
	changed, err := now.With(changes...)
	if err != nil {
		return nil, invalid("%s: %v", what, err)
	}
	before, err := now.Solve()
	if err != nil {
		return nil, err
	}
	after := before
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(changes) > 0 {
		if after, err = changed.Solve(); err != nil {
			return nil, invalid("%s: %v", what, err)
		}
	}
	if out.Before, err = whatIfShares(before, now.Pools, req.Msg.GetOperations()); err != nil {
		return nil, err
	}
	if out.After, err = whatIfShares(after, changed.Pools, req.Msg.GetOperations()); err != nil {
		return nil, err
	}
	if req.Msg.GetFile() {
		text, err := poolfile.Of(scheduling.TreeName(out.GetTree()), changed.Pools).Write()
		if err != nil {
			return nil, err
		}
		out.File = string(text)
	}
	return connect.NewResponse(out), nil
}

// maxNodesAdded bounds the nodes that a request adds: each takes its time, as those of the cluster do.
const maxNodesAdded = 20_000

// whatIfChanges returns the changes that a request asks for.
func whatIfChanges(m *apipb.WhatIfRequest) (out []whatif.Change, err error) {
	for _, op := range m.GetStart() {
		started := whatif.Operation{
			ID: scheduling.OperationID(op.GetId()), Pool: scheduling.PoolName(op.GetPool()), Gang: op.GetGang(), Usage: givenAmounts(op.GetUsage()),
			Tasks: []whatif.Task{{Pending: op.GetPending(), PerJob: givenAmounts(op.GetJobResources())}},
		}
		if started.Options, err = pooltree.ReadOperationOptions(op.GetOptions().AsMap()); err != nil {
			return nil, fmt.Errorf("start operation %q: %w", op.GetId(), err)
		}
		out = append(out, whatif.Change{AddOperation: &started})
	}
	for _, id := range m.GetEnd() {
		out = append(out, whatif.Change{RemoveOperation: scheduling.OperationID(id)})
	}
	added := int64(0)
	for _, n := range m.GetNodes() {
		if added += min(max(n.GetCount(), 0), maxNodesAdded+1); added > maxNodesAdded {
			return nil, fmt.Errorf("add nodes: there are more than %d", maxNodesAdded)
		}
		out = append(out, whatif.Change{AddNodes: &whatif.Node{Count: n.GetCount(), Resources: givenAmounts(n.GetResources()), Tags: n.GetTags()}})
	}
	edited, err := whatIfEdits(m.GetEdits())
	return append(out, edited...), err
}

// whatIfEdits returns the changes that edits stand for.
func whatIfEdits(edits []*apipb.TreeEdit) (out []whatif.Change, err error) {
	for _, e := range edits {
		for _, options := range []*structpb.Struct{e.GetTreeOptions(), e.GetCreate().GetOptions(), e.GetChange().GetOptions()} {
			if _, err := document.FromStruct("options", options); err != nil {
				return nil, err
			}
		}
		switch e := e.GetEdit().(type) {
		case *apipb.TreeEdit_TreeOptions:
			eachSetting("", e.TreeOptions, func(s whatif.Setting) { out = append(out, whatif.Change{SetTree: &s}) })
		case *apipb.TreeEdit_Create:
			p := pooltree.Pool{Name: scheduling.PoolName(e.Create.GetName()), Parent: scheduling.PoolName(cmp.Or(e.Create.GetParent(), string(scheduling.RootPool)))}
			if p.Options, err = pooltree.ReadPoolOptions(e.Create.GetOptions().AsMap()); err != nil {
				return nil, fmt.Errorf("create pool %q: %w", p.Name, err)
			}
			out = append(out, whatif.Change{AddPool: &p})
		case *apipb.TreeEdit_Change:
			if e.Change.Parent != nil {
				out = append(out, whatif.Change{Set: &whatif.Setting{
					Of: e.Change.GetName(), Path: "parent", Value: cmp.Or(e.Change.GetParent(), string(scheduling.RootPool)),
				}})
			}
			eachSetting(e.Change.GetName(), e.Change.GetOptions(), func(s whatif.Setting) { out = append(out, whatif.Change{Set: &s}) })
		case *apipb.TreeEdit_Remove:
			out = append(out, whatif.Change{RemovePool: scheduling.PoolName(e.Remove)})
		case *apipb.TreeEdit_Rename:
			return nil, fmt.Errorf("rename pool %q: a new name changes no share: leave it out", e.Rename.GetFrom())
		default:
			return nil, fmt.Errorf("an edit is empty: set tree_options, create, change or remove")
		}
	}
	return out, nil
}

func givenAmounts(r *apipb.Resources) resource.Amounts {
	return resource.Amounts{UserSlots: r.GetUserSlots(), CPU: resource.Cores(r.GetCpu()), GPU: r.GetGpu(), Memory: r.GetMemory(), Network: r.GetNetwork()}
}

// eachSetting calls visit for the new values of options, by path.
func eachSetting(of string, options *structpb.Struct, visit func(whatif.Setting)) {
	for _, path := range slices.Sorted(maps.Keys(options.GetFields())) {
		visit(whatif.Setting{Of: of, Path: path, Value: options.GetFields()[path].AsInterface()})
	}
}

// described returns all inputs of the fair shares of a tree, and writes its name and revision into out.
// Operations may be of a later moment than pools and nodes. Volumes come from the leader, or
// from the last checkpoint if the leader cannot be reached.
func (s trees) described(ctx context.Context, what, tree string, out *apipb.WhatIfResponse) (whatif.Cluster, error) {
	if tree == "" {
		s.cfg.Store.View(func(st *state.State) { tree = string(st.DefaultTree()) })
	}
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{Tree: tree, WithoutNodes: true})
	if err != nil {
		return whatif.Cluster{}, err
	}
	var c whatif.Cluster
	var t treeIn
	err = s.read(ctx, what, func(st *state.State) (err error) {
		if t, err = findTree(st, what, tree); err == nil {
			out.Tree, out.Revision = string(t.name), t.record.GetRevision()
			c = whatif.Cluster{Pools: t.pools, Nodes: whatIfNodes(st, t)}
			c.At, c.Volumes = whatIfVolumes(t, view, s.cfg.Now())
			out.Time = timestamppb.New(c.At)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	s.latestFirst(0, operationsCounted, true, func(st *state.State, some []*statepb.Operation) bool {
		for _, op := range some {
			var one whatif.Operation
			var shares bool
			if one, shares, err = whatIfOperation(st, op, t); err != nil {
				return false
			}
			// A pool may be new since the pools were read.
			if shares && t.pools.Has(one.Pool) {
				c.Operations = append(c.Operations, one)
			}
		}
		return true
	})
	slices.Reverse(c.Operations)
	return c, err
}

// whatIfNodes returns the nodes of a tree that may run jobs.
func whatIfNodes(st *state.State, t treeIn) (out []whatif.Node) {
	for _, n := range st.Nodes() {
		if n.GetTree() == string(t.name) && n.GetState() == statepb.NodeOnline && n.GetDrain() == nil {
			out = append(out, whatif.Node{Name: n.GetId(), Count: 1, Resources: n.GetResources().Amounts(), Tags: n.GetTags()})
		}
	}
	return out
}

// whatIfVolumes returns the volumes of the pools of a tree, and as of when they are; now if there are none.
func whatIfVolumes(t treeIn, view *actorpb.SchedulerView, now time.Time) (at time.Time, out []engine.PoolVolume) {
	at = now
	if t.record.GetVolumesTime() != nil {
		at = t.record.GetVolumesTime().AsTime()
	}
	volumes := make(map[string]*statepb.PoolVolume)
	for _, v := range t.record.GetVolumes() {
		volumes[v.GetPool()] = v
	}
	for _, e := range view.GetElements() {
		if e.GetTree() == string(t.name) && e.GetVolume() != nil {
			volumes[e.GetId()], at = e.GetVolume(), view.GetUpdated().AsTime()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		if t.pools.Has(scheduling.PoolName(name)) {
			out = append(out, engine.PoolVolume{Pool: scheduling.PoolName(name), LastShareRatio: v.GetLastShareRatio(), Volume: resource.Volume{
				UserSlots: v.GetUserSlots(), CPU: resource.Hundredths(v.GetCpuHundredths()), GPU: v.GetGpu(), Memory: v.GetMemory(), Network: v.GetNetwork(),
			}})
		}
	}
	return at, out
}

// whatIfOperation returns what an operation has and wants in a tree, unless it does not share in it.
func whatIfOperation(st *state.State, op *statepb.Operation, t treeIn) (out whatif.Operation, shares bool, err error) {
	in := op.In(string(t.name))
	now, err := lifecycle.ParseState(op.GetState())
	if err != nil || !now.CountsAsRunning() || !in.GetAdmitted() {
		return out, false, nil
	}
	out = whatif.Operation{
		ID: scheduling.OperationID(op.GetId()), Pool: scheduling.PoolName(in.GetPool()),
		Idle: now != lifecycle.Running || op.GetSuspended(), Gang: op.GetSpec().Gang(t.pools.Settings()), Started: op.GetStartTime().AsTime(),
	}
	if out.Options, err = pooltree.ReadOperationOptions(in.GetOptions().AsMap()); err != nil {
		return out, false, fmt.Errorf("operation %s: %w", op.GetId(), err)
	}
	for _, a := range st.AllocationsOfOperation(out.ID) {
		if n, ok := st.Node(scheduling.NodeID(a.GetNode())); ok && n.GetTree() == string(t.name) {
			out.Usage = out.Usage.Add(a.GetResources().Amounts())
		}
	}
	for _, task := range op.GetTasks() {
		if pending := task.GetCounters().GetPending(); pending > 0 && !now.Finishing() {
			out.Tasks = append(out.Tasks, whatif.Task{Pending: pending, PerJob: task.GetJobResources().Amounts()})
		}
	}
	return out, true, nil
}

// whatIfShares shows the fair shares of a cluster with these pools, with or without those of operations.
func whatIfShares(r whatif.Result, pools pooltree.Tree, operations bool) (*apipb.WhatIfShares, error) {
	out := &apipb.WhatIfShares{Resources: resourcesOf(r.Total), Alerts: r.Alerts}
	for _, o := range r.Overcommitted {
		out.Overcommitted = append(out.Overcommitted, &apipb.Overcommit{
			Resource: o.Resource.String(), Guaranteed: o.Guaranteed, Total: o.Overcommit.Total, Message: o.String(),
			Pools: mapped(o.Pools, func(name scheduling.PoolName) string { return string(name) }),
		})
	}
	for _, share := range r.Shares {
		if !share.Pool && !operations {
			continue
		}
		shown := &apipb.WhatIfShare{
			Pool: share.Pool, Name: share.Name, Parent: string(share.Parent), FairRatio: share.FairRatio, Volume: share.Volume,
			Fair: shareVector(share.Fair), Guarantee: shareVector(share.Guarantee), Usage: shareVector(share.Usage), Demand: shareVector(share.Demand),
		}
		if p, ok := pools.Pool(scheduling.PoolName(share.Name)); ok && share.Pool {
			set, err := structpb.NewStruct(option.Write(p.Options))
			if err != nil {
				return nil, fmt.Errorf("show pool %q: %w", p.Name, err)
			}
			shown.Options, shown.EphemeralUser = set, string(p.Ephemeral)
		}
		out.Shares = append(out.Shares, shown)
	}
	return out, nil
}

func shareVector(v resource.Vector) *apipb.ShareVector {
	return &apipb.ShareVector{UserSlots: v[resource.UserSlots], Cpu: v[resource.CPU], Gpu: v[resource.GPU], Memory: v[resource.Memory], Network: v[resource.Network]}
}

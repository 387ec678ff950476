package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/document"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// pools implements PoolService.
type pools struct{ *server }

// treeIn is a tree with its record, pools and counts.
type treeIn struct {
	name   scheduling.TreeName
	record *statepb.PoolTree
	pools  pooltree.Tree
	counts pooltree.Counts
}

// findTree returns a tree by name; the default tree if name is empty.
func findTree(st *state.State, what, name string) (treeIn, error) {
	t := treeIn{name: scheduling.TreeName(cmp.Or(name, string(st.DefaultTree())))}
	var ok bool
	if t.record, ok = st.Tree(t.name); !ok {
		return t, fail(connect.CodeNotFound, state.CodeUnknownTree, "%s: no pool tree %q; there are: %s", what, t.name, strings.Join(treeNames(st), ", "))
	}
	t.pools, t.counts, _ = st.Pools(t.name)
	return t, nil
}

// has returns an error unless a tree has a pool.
func (t treeIn) has(what string, pool scheduling.PoolName) error {
	if t.pools.Has(pool) {
		return nil
	}
	return fail(connect.CodeNotFound, state.CodeUnknownPool, "%s: there is no pool %q in tree %q", what, pool, t.name)
}

// shown returns a pool as the state knows it; without its options and those that hold for it if brief is set.
func (t treeIn) shown(p pooltree.Pool, brief bool) (*apipb.Pool, error) {
	effective, err := t.pools.Effective(p.Name)
	if err != nil {
		return nil, err
	}
	count := t.counts[p.Name]
	out := &apipb.Pool{
		Tree: string(t.name), Name: string(p.Name), Parent: string(p.Parent), EphemeralUser: string(p.Ephemeral),
		OperationCount: saturated(count.Operations), RunningOperationCount: saturated(count.Running),
		EffectiveWeight: effective.Weight, EffectiveMaxOperationCount: saturated(effective.MaxOperationCount),
		EffectiveMaxRunningOperationCount: saturated(effective.MaxRunningOperationCount),
	}
	if p.Name == scheduling.RootPool {
		// The root has no options of its own; those of the tree bound its counts.
		settings := t.pools.Settings()
		out.EffectiveMaxOperationCount, out.EffectiveMaxRunningOperationCount = saturated(settings.MaxOperationCount), saturated(settings.MaxRunningOperationCount)
	}
	if brief {
		return out, nil
	}
	if out.Effective, err = structpb.NewStruct(effective.Document()); err != nil {
		return nil, fmt.Errorf("show pool %q: %w", p.Name, err)
	}
	if p.Name == scheduling.RootPool {
		out.Options = &structpb.Struct{}
		return out, nil
	}
	i, _ := slices.BinarySearchFunc(t.record.GetPools(), string(p.Name), func(r *statepb.Pool, name string) int { return cmp.Compare(r.GetName(), name) })
	out.Options = orEmpty(t.record.GetPools()[i].GetOptions())
	return out, nil
}

// orEmpty returns a copy of options, an empty object if they are nil.
func orEmpty(options *structpb.Struct) *structpb.Struct {
	if options == nil {
		return &structpb.Struct{}
	}
	return proto.CloneOf(options)
}

// list returns the pools of a tree for which pick returns true, parents before children.
// It calls pick for the root first. brief leaves out options. Pools beyond answerBytes are left out; the answer says how many,
// and after which one they are.
func (s pools) list(ctx context.Context, what, tree string, brief bool, pick func(scheduling.PoolName) bool) (*apipb.ListPoolsResponse, error) {
	out := &apipb.ListPoolsResponse{}
	err := s.read(ctx, what, func(st *state.State) error {
		t, err := findTree(st, what, tree)
		if err != nil {
			return err
		}
		out.Tree, out.Revision, out.TreeOptions = string(t.name), t.record.GetRevision(), orEmpty(t.record.GetOptions())
		left := s.cfg.Limits.AnswerBytes
		for _, p := range append([]pooltree.Pool{{Name: scheduling.RootPool}}, t.pools.ParentsFirst()...) {
			if !pick(p.Name) {
				continue
			}
			if out.GetNext() != "" {
				out.LeftOut++
				continue
			}
			shown, err := t.shown(p, brief)
			if err != nil {
				return err
			}
			if left -= proto.Size(shown) + poolViewBytes; left < 0 && len(out.GetPools()) > 0 {
				out.Next, out.LeftOut = out.GetPools()[len(out.GetPools())-1].GetName(), 1
				continue
			}
			out.Pools = append(out.Pools, shown)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	elements, err := s.elements(ctx, what, out.GetTree())
	if err != nil {
		return nil, err
	}
	out.Alerts = slices.Clone(elements[string(scheduling.RootPool)].GetAlerts())
	for _, shown := range out.GetPools() {
		if e, ok := elements[shown.GetName()]; ok {
			addPoolView(shown, e)
			if shown.GetName() != string(scheduling.RootPool) {
				out.Alerts = append(out.Alerts, e.GetAlerts()...)
			}
		}
	}
	return out, nil
}

// poolViewBytes is about what addPoolView adds to a pool.
const poolViewBytes = 500

// addPoolView adds the leader's scheduler's view of a pool.
func addPoolView(shown *apipb.Pool, e *actorpb.ElementView) {
	shown.FairShare, shown.UsageShare, shown.DemandShare = &e.FairShare, &e.UsageShare, &e.DemandShare
	shown.Usage, shown.Demand = resourcesOf(e.GetUsage().Amounts()), resourcesOf(e.GetDemand().Amounts())
	shown.ClaimedShare, shown.Claimed = &e.ClaimedShare, resourcesOf(e.GetClaimed().Amounts())
	shown.DominantResource, shown.StrongGuaranteeShare = e.GetDominantResource(), &e.StrongGuaranteeShare
	shown.SchedulingStatus, shown.StarvationStatus, shown.BelowSince = e.GetSchedulingStatus(), e.GetStarvationStatus(), e.GetBelowSince()
	if e.GetVolume() != nil {
		shown.AccumulatedResourceRatioVolume, shown.IntegralPoolCapacity = &e.VolumeRatio, &e.VolumeCapacityRatio
	}
}

// List shows all pools of a tree, or those after one.
func (s pools) List(ctx context.Context, req *connect.Request[apipb.ListPoolsRequest]) (*connect.Response[apipb.ListPoolsResponse], error) {
	const what = "list pools"
	after := scheduling.PoolName(req.Msg.GetAfter())
	passed := after == ""
	out, err := s.list(ctx, what, req.Msg.GetTree(), req.Msg.GetBrief(), func(name scheduling.PoolName) bool {
		switch {
		case !passed:
			passed = name == after
			return false
		case name == scheduling.RootPool:
			return req.Msg.GetWithRoot()
		}
		return true
	})
	if err == nil && !passed {
		err = fail(connect.CodeNotFound, state.CodeUnknownPool, "%s: there is no pool %q in tree %q any more: list them again from the first", what, after, out.GetTree())
	}
	return answer(out, err)
}

// Get shows one pool, which may be the root.
func (s pools) Get(ctx context.Context, req *connect.Request[apipb.GetPoolRequest]) (*connect.Response[apipb.GetPoolResponse], error) {
	all, err := s.list(ctx, "get pool", req.Msg.GetTree(), false, func(name scheduling.PoolName) bool { return string(name) == req.Msg.GetName() })
	if err != nil {
		return nil, err
	}
	if len(all.GetPools()) == 0 {
		return nil, fail(connect.CodeNotFound, state.CodeUnknownPool, "get pool: there is no pool %q in tree %q", req.Msg.GetName(), all.GetTree())
	}
	return connect.NewResponse(&apipb.GetPoolResponse{Pool: all.GetPools()[0], Revision: all.GetRevision()}), nil
}

// Edit applies all edits to a tree, or none of them.
func (s pools) Edit(ctx context.Context, req *connect.Request[apipb.EditTreeRequest]) (*connect.Response[apipb.EditTreeResponse], error) {
	m := req.Msg
	command, err := s.editCommand(ctx, m)
	if err != nil {
		return nil, err
	}
	result, err := s.propose(ctx, "edit pool tree", command)
	if err != nil {
		return nil, err
	}
	tree := m.GetTree()
	if tree == "" {
		s.cfg.Store.View(func(st *state.State) { tree = string(st.DefaultTree()) })
	}
	return connect.NewResponse(&apipb.EditTreeResponse{Revision: result.GetTree().GetRevision(), Tree: tree}), nil
}

// editCommand returns the command that a request stands for.
func (s *server) editCommand(ctx context.Context, m *apipb.EditTreeRequest) (*commandpb.EditTree, error) {
	command := &commandpb.EditTree{
		Tree: m.GetTree(), ExpectedRevision: m.GetExpectedRevision(), User: userOf(ctx),
	}
	for _, e := range m.GetEdits() {
		if err := checkEdit(e); err != nil {
			return nil, fail(connect.CodeInvalidArgument, state.CodeInvalidPool, "%v", err)
		}
		command.Edits = append(command.Edits, editOf(e))
	}
	return command, nil
}

// checkEdit rejects unknown pool options. The check is here because the log must still
// accept options that an earlier version had.
func checkEdit(e *apipb.TreeEdit) error {
	for _, options := range []*structpb.Struct{e.GetTreeOptions(), e.GetCreate().GetOptions(), e.GetChange().GetOptions()} {
		if _, err := document.FromStruct("options", options); err != nil {
			return fmt.Errorf("edit pool tree: %w", err)
		}
	}
	switch e := e.GetEdit().(type) {
	case *apipb.TreeEdit_Create:
		if _, err := pooltree.ReadPoolOptions(e.Create.GetOptions().AsMap()); err != nil {
			return fmt.Errorf("create pool %q: %w", e.Create.GetName(), err)
		}
	case *apipb.TreeEdit_Change:
		for _, path := range slices.Sorted(maps.Keys(e.Change.GetOptions().GetFields())) {
			if err := option.Put(map[string]any{}, pooltree.PoolOptions{}, path, nil); err != nil {
				return fmt.Errorf("set pool %q: %w", e.Change.GetName(), err)
			}
		}
	}
	return nil
}

// editOf converts an edit of a request into one of a command. An empty edit stays empty, so that the
// command is refused.
func editOf(e *apipb.TreeEdit) *commandpb.TreeEdit {
	switch e := e.GetEdit().(type) {
	case *apipb.TreeEdit_TreeOptions:
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: changesOf(e.TreeOptions)}}
	case *apipb.TreeEdit_Create:
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{
			Name: e.Create.GetName(), Parent: e.Create.GetParent(), Options: e.Create.GetOptions(),
		}}}
	case *apipb.TreeEdit_Change:
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{
			Name: e.Change.GetName(), Parent: e.Change.Parent, Options: changesOf(e.Change.GetOptions()),
		}}}
	case *apipb.TreeEdit_Rename:
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: e.Rename.GetFrom(), To: e.Rename.GetTo()}}}
	case *apipb.TreeEdit_Remove:
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: e.Remove}}
	default:
		return &commandpb.TreeEdit{}
	}
}

// changesOf returns the new values of options by path.
func changesOf(values *structpb.Struct) *commandpb.Changes {
	return &commandpb.Changes{Values: values.GetFields()}
}

// hearsAll is how long, beyond the lease of agents, a leader may take until it knows of all nodes that they are there or lost.
const hearsAll = time.Minute

// mostOf returns nine tenths of the cores of those nodes of a tree that may have jobs, in hundredths, if the leader whose
// view it is has only begun.
func (s *server) mostOf(tree string, view *actorpb.SchedulerView) (cpu int64) {
	s.cfg.Store.View(func(st *state.State) {
		lease := time.Duration(state.PaceOf(st).GetLeaseMillis()) * time.Millisecond
		leads := view.GetTime().AsTime().Sub(st.Term().GetTime().AsTime())
		if view.GetTerm() == st.Term().GetTerm() && leads > hearsAll+lease {
			return
		}
		for _, n := range st.Nodes() {
			if n.GetTree() == tree && n.GetState() == statepb.NodeOnline && n.GetDrain() == nil {
				cpu += n.GetResources().GetCpuHundredths()
			}
		}
	})
	return cpu / 10 * 9
}

// elements returns the leader's scheduler's view of the pools of a tree, by name; empty if
// the leader cannot be reached, or has not heard of most nodes yet: shares are parts of what these have together.
func (s *server) elements(ctx context.Context, what, tree string) (map[string]*actorpb.ElementView, error) {
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{Tree: tree, WithoutNodes: true})
	elements := make(map[string]*actorpb.ElementView, len(view.GetElements()))
	if known := view.GetTotal(); known != nil && known.GetCpuHundredths() < s.mostOf(tree, view) {
		return elements, err
	}
	for _, e := range view.GetElements() {
		if e.GetPool() && e.GetTree() == tree {
			elements[e.GetId()] = e
		}
	}
	return elements, err
}

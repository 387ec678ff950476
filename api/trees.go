package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// trees implements TreeService.
type trees struct{ *server }

// treeOf shows a tree.
func treeOf(st *state.State, name string) (*apipb.Tree, error) {
	t, err := findTree(st, "get pool tree", name)
	if err != nil {
		return nil, err
	}
	effective, err := structpb.NewStruct(effectiveTree(t.pools.Options()))
	if err != nil {
		return nil, fmt.Errorf("show pool tree %q: %w", t.name, err)
	}
	count := t.counts[scheduling.RootPool]
	out := &apipb.Tree{
		Name: string(t.name), Revision: t.record.GetRevision(), Default: t.name == st.DefaultTree(), Options: orEmpty(t.record.GetOptions()),
		Effective: effective, Pools: int32(len(t.record.GetPools())), OperationCount: saturated(count.Operations),
		RunningOperationCount: saturated(count.Running), ModifiedTime: t.record.GetModifiedTime(),
	}
	var total resource.Amounts
	for _, n := range st.Nodes() {
		if n.GetTree() != out.GetName() {
			continue
		}
		out.Nodes++
		if n.GetState() == statepb.NodeOnline {
			out.NodesOnline++
			total = total.Add(n.GetResources().Amounts())
		}
	}
	out.Resources = resourcesOf(total)
	return out, nil
}

// List shows all trees.
func (s trees) List(ctx context.Context, _ *connect.Request[apipb.ListTreesRequest]) (*connect.Response[apipb.ListTreesResponse], error) {
	out := &apipb.ListTreesResponse{}
	err := s.read(ctx, "list pool trees", func(st *state.State) error {
		for _, t := range st.Trees() {
			shown, err := treeOf(st, t.GetName())
			if err != nil {
				return err
			}
			out.Trees = append(out.Trees, shown)
		}
		return nil
	})
	return answer(out, err)
}

// Get shows one tree.
func (s trees) Get(ctx context.Context, req *connect.Request[apipb.GetTreeRequest]) (*connect.Response[apipb.GetTreeResponse], error) {
	out := &apipb.GetTreeResponse{}
	err := s.read(ctx, "get pool tree", func(st *state.State) (err error) {
		out.Tree, err = treeOf(st, req.Msg.GetTree())
		return err
	})
	return answer(out, err)
}

// Create creates a tree.
func (s trees) Create(ctx context.Context, req *connect.Request[apipb.CreateTreeRequest]) (*connect.Response[apipb.CreateTreeResponse], error) {
	result, err := s.propose(ctx, "create pool tree", &commandpb.CreateTree{
		Tree: req.Msg.GetTree(), Options: req.Msg.GetOptions(), User: userOf(ctx),
	})
	return answer(&apipb.CreateTreeResponse{Revision: result.GetTree().GetRevision()}, err)
}

// Set changes options of a tree.
func (s trees) Set(ctx context.Context, req *connect.Request[apipb.SetTreeRequest]) (*connect.Response[apipb.SetTreeResponse], error) {
	result, err := s.propose(ctx, "set pool tree", &commandpb.EditTree{
		Tree: req.Msg.GetTree(), ExpectedRevision: req.Msg.GetExpectedRevision(), User: userOf(ctx),
		Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Change{Change: changesOf(req.Msg.GetOptions())}}},
	})
	return answer(&apipb.SetTreeResponse{Revision: result.GetTree().GetRevision()}, err)
}

// Remove removes an empty tree.
func (s trees) Remove(ctx context.Context, req *connect.Request[apipb.RemoveTreeRequest]) (*connect.Response[apipb.RemoveTreeResponse], error) {
	_, err := s.propose(ctx, "remove pool tree", &commandpb.RemoveTree{Tree: req.Msg.GetTree(), User: userOf(ctx)})
	return answer(&apipb.RemoveTreeResponse{}, err)
}

// SetDefault sets the tree of operations that name none.
func (s trees) SetDefault(ctx context.Context, req *connect.Request[apipb.SetDefaultTreeRequest]) (*connect.Response[apipb.SetDefaultTreeResponse], error) {
	_, err := s.propose(ctx, "set default pool tree", &commandpb.SetDefaultTree{Tree: req.Msg.GetTree(), User: userOf(ctx)})
	return answer(&apipb.SetDefaultTreeResponse{}, err)
}

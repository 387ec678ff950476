package api

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// pools implements PoolService.
type pools struct{ *server }

// list returns the pools of the tree, parents before children, and its revision.
func (s pools) list(ctx context.Context, what string) (all []*apipb.Pool, revision uint64, err error) {
	err = s.read(ctx, what, func(st *state.State) error {
		record, _ := st.Tree(scheduling.DefaultTree)
		tree, counts, _ := st.Pools(scheduling.DefaultTree)
		revision = record.GetRevision()
		byName := map[string]*statepb.Pool{}
		for _, p := range record.GetPools() {
			byName[p.GetName()] = p
		}
		for _, p := range tree.ParentsFirst() {
			effective, err := tree.Effective(p.Name)
			if err != nil {
				return err
			}
			shown := poolOf(byName[string(p.Name)])
			count := counts[p.Name]
			shown.OperationCount, shown.RunningOperationCount = int32(count.Operations), int32(count.Running)
			shown.EffectiveWeight = effective.Weight
			shown.EffectiveMaxOperationCount = int32(effective.MaxOperationCount)
			shown.EffectiveMaxRunningOperationCount = int32(effective.MaxRunningOperationCount)
			all = append(all, shown)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	elements := s.elements(ctx, true)
	for _, shown := range all {
		if e, ok := elements[shown.GetName()]; ok {
			shown.FairShare, shown.UsageShare, shown.DemandShare = &e.FairShare, &e.UsageShare, &e.DemandShare
			shown.Usage, shown.DominantResource = resourcesOf(e.GetUsage().Amounts()), e.GetDominantResource()
			shown.Demand = resourcesOf(e.GetDemand().Amounts())
		}
	}
	return all, revision, nil
}

// poolOf shows what was set of a pool.
func poolOf(p *statepb.Pool) *apipb.Pool {
	return &apipb.Pool{
		Name: p.GetName(), Parent: p.GetParent(), Weight: clonePointer(p.Weight),
		MaxRunningOperationCount: clonePointer(p.MaxRunningOperationCount), MaxOperationCount: clonePointer(p.MaxOperationCount),
	}
}

func clonePointer[T any](v *T) *T {
	if v == nil {
		return nil
	}
	copied := *v
	return &copied
}

// List shows all pools.
func (s pools) List(ctx context.Context, _ *connect.Request[apipb.ListPoolsRequest]) (*connect.Response[apipb.ListPoolsResponse], error) {
	all, revision, err := s.list(ctx, "list pools")
	return answer(&apipb.ListPoolsResponse{Pools: all, Revision: revision}, err)
}

// Get shows one pool.
func (s pools) Get(ctx context.Context, req *connect.Request[apipb.GetPoolRequest]) (*connect.Response[apipb.GetPoolResponse], error) {
	all, revision, err := s.list(ctx, "get pool")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p *apipb.Pool) bool { return p.GetName() == req.Msg.GetName() })
	if i < 0 {
		return nil, fail(connect.CodeNotFound, state.CodeUnknownPool, fmt.Sprintf("get pool: there is no pool %q", req.Msg.GetName()))
	}
	return connect.NewResponse(&apipb.GetPoolResponse{Pool: all[i], Revision: revision}), nil
}

// record turns what a client gives of a pool into its record. Nothing is a pool
// without a name.
func record(p *apipb.Pool) *statepb.Pool {
	if p == nil {
		return &statepb.Pool{}
	}
	return &statepb.Pool{
		Name: p.GetName(), Parent: p.GetParent(), Weight: p.Weight,
		MaxRunningOperationCount: p.MaxRunningOperationCount, MaxOperationCount: p.MaxOperationCount,
	}
}

// Create makes a pool.
func (s pools) Create(ctx context.Context, req *connect.Request[apipb.CreatePoolRequest]) (*connect.Response[apipb.CreatePoolResponse], error) {
	result, err := s.propose(ctx, "create pool", &commandpb.CreatePool{
		Tree: string(scheduling.DefaultTree), Pool: record(req.Msg.GetPool()), Time: timestamppb.New(s.cfg.Now()),
	})
	return answer(&apipb.CreatePoolResponse{Revision: result.GetPool().GetRevision()}, err)
}

// Set changes the named settings of a pool.
func (s pools) Set(ctx context.Context, req *connect.Request[apipb.SetPoolRequest]) (*connect.Response[apipb.SetPoolResponse], error) {
	result, err := s.propose(ctx, "set pool", &commandpb.SetPool{
		Tree: string(scheduling.DefaultTree), Pool: record(req.Msg.GetPool()), Fields: req.Msg.GetFields(),
		ExpectedRevision: req.Msg.GetExpectedRevision(), Time: timestamppb.New(s.cfg.Now()),
	})
	return answer(&apipb.SetPoolResponse{Revision: result.GetPool().GetRevision()}, err)
}

// Remove removes an empty pool.
func (s pools) Remove(ctx context.Context, req *connect.Request[apipb.RemovePoolRequest]) (*connect.Response[apipb.RemovePoolResponse], error) {
	result, err := s.propose(ctx, "remove pool", &commandpb.RemovePool{
		Tree: string(scheduling.DefaultTree), Name: req.Msg.GetName(), Time: timestamppb.New(s.cfg.Now()),
	})
	return answer(&apipb.RemovePoolResponse{Revision: result.GetPool().GetRevision()}, err)
}

// elements returns what the leader's scheduler sees of pools or operations, by
// name; nothing while it cannot be reached.
func (s *server) elements(ctx context.Context, pools bool) map[string]*actorpb.ElementView {
	ctx, cancel := extra(ctx)
	defer cancel()
	view, err := s.cfg.Leader.SchedulerView(ctx)
	if err != nil {
		s.cfg.Logger.Debug("what the scheduler sees is not known", "error", err)
		return nil
	}
	elements := make(map[string]*actorpb.ElementView, len(view.GetElements()))
	for _, e := range view.GetElements() {
		if e.GetPool() == pools {
			elements[e.GetId()] = e
		}
	}
	return elements
}

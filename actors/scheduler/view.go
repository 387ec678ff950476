package scheduler

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// view turns a snapshot of the engine into what others are shown: ratios by
// dominant resource (F.1.6).
func view(cfg Config, s engine.Snapshot, now time.Time) *actorpb.SchedulerView {
	v := &actorpb.SchedulerView{Time: timestamppb.New(now), Term: cfg.Term, Total: statepb.NewResources(s.Total)}
	for _, pool := range s.Pools {
		element := elementView(cfg, pool.Shares, s.Total)
		element.Id, element.Pool, element.Parent = string(pool.Name), true, string(pool.Parent)
		v.Elements = append(v.Elements, element)
	}
	for _, op := range s.Operations {
		element := elementView(cfg, op.Shares, s.Total)
		element.Id, element.Parent = string(op.ID), string(op.Pool)
		element.RunningJobs = int64(op.Allocations)
		var demand resource.Amounts
		for _, task := range op.Tasks {
			element.PendingJobs += task.Effective
			demand = demand.Add(task.PerJob.Times(task.Effective))
		}
		element.Demand = statepb.NewResources(op.Shares.Usage.Add(demand))
		v.Elements = append(v.Elements, element)
	}
	for _, node := range s.Nodes {
		v.Nodes = append(v.Nodes, &actorpb.NodeView{
			Id: string(node.ID), Usage: statepb.NewResources(node.Usage), Limits: statepb.NewResources(node.Limits),
		})
	}
	return v
}

func elementView(cfg Config, shares engine.Shares, total resource.Amounts) *actorpb.ElementView {
	dominant := resource.Dominant(shares.Usage, total)
	return &actorpb.ElementView{
		Tree:             string(cfg.Tree),
		Weight:           shares.Weight,
		FairShare:        shares.FairShare.MaxComponent(),
		UsageShare:       shares.UsageShare.MaxComponent(),
		DemandShare:      shares.DemandShare.MaxComponent(),
		DominantResource: dominant.String(),
		Usage:            statepb.NewResources(shares.Usage),
	}
}

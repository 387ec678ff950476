package scheduler

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// view returns the view of the engine: all of it, or one element with its attributes. Ratios are
// by dominant resource (F.1.6).
func (t *Tree) view(cfg Config, of *actorpb.SchedulerViewRequest, now time.Time) *actorpb.SchedulerView {
	one := ofOne(of)
	var s engine.Snapshot
	if one {
		s = engine.SnapshotOf(t.engine, scheduling.PoolName(of.GetPool()), scheduling.OperationID(of.GetOperation()))
	} else {
		s = t.Snapshot()
	}
	v := &actorpb.SchedulerView{Time: timestamppb.New(now), Term: cfg.Term, Total: statepb.NewResources(s.Total), Updated: timestamppb.New(s.At)}
	for _, pool := range s.Pools {
		element := poolView(cfg, pool, s)
		if one {
			element.Attributes = attributesOf(pool.Attributes(s.Total))
		}
		v.Elements = append(v.Elements, element)
	}
	for _, op := range s.Operations {
		element := operationView(cfg, op, s)
		if one {
			element.Attributes = attributesOf(op.Attributes(s.Total))
		}
		v.Elements = append(v.Elements, element)
	}
	for _, node := range s.Nodes {
		v.Nodes = append(v.Nodes, &actorpb.NodeView{
			Id: string(node.ID), Usage: statepb.NewResources(node.Usage), Limits: statepb.NewResources(node.Limits),
		})
	}
	return v
}

// ofOne reports whether a view of only one element is requested.
func ofOne(of *actorpb.SchedulerViewRequest) bool {
	return of.GetPool() != "" || of.GetOperation() != ""
}

func poolView(cfg Config, p engine.PoolView, s engine.Snapshot) *actorpb.ElementView {
	element := elementView(cfg, p.Shares, s.Total)
	element.Id, element.Pool, element.Parent = string(p.Name), true, string(p.Parent)
	element.Demand = statepb.NewResources(p.Shares.DemandShare.Amounts(s.Total))
	element.StrongGuaranteeShare = p.Shares.Attributes.StrongGuaranteeShare.MaxComponent()
	element.Alerts = p.Alerts
	if element.Volume = volumeView(p); element.Volume != nil {
		element.VolumeRatio, element.VolumeCapacityRatio = p.Integral.RatioVolume, p.Integral.RatioCapacity
	}
	return element
}

func operationView(cfg Config, op engine.OperationView, s engine.Snapshot) *actorpb.ElementView {
	element := elementView(cfg, op.Shares, s.Total)
	element.Id, element.Parent = string(op.ID), string(op.Pool)
	element.RunningJobs, element.PendingJobs = int64(op.Allocations), pendingJobs(op)
	demand := op.Shares.Held()
	for _, task := range op.Tasks {
		demand = demand.Add(task.PerJob.Times(task.Effective))
	}
	element.Demand = statepb.NewResources(demand)
	return element
}

func elementView(cfg Config, shares engine.Shares, total resource.Amounts) *actorpb.ElementView {
	running := shares.Running()
	dominant := resource.Dominant(running, total)
	var below time.Time
	if shares.Clock.Status != preemption.Normal || shares.Clock.Starvation != preemption.NonStarving {
		below = shares.Clock.From()
	}
	return &actorpb.ElementView{
		Tree:             string(cfg.Tree),
		Weight:           shares.Weight,
		FairShare:        shares.FairShare.MaxComponent(),
		UsageShare:       shares.RunningShare.MaxComponent(),
		DemandShare:      shares.DemandShare.MaxComponent(),
		DominantResource: dominant.String(),
		Usage:            statepb.NewResources(running),
		ClaimedShare:     shares.ClaimedShare.MaxComponent(),
		Claimed:          statepb.NewResources(shares.Claimed),
		SchedulingStatus: shares.Clock.Status.String(),
		StarvationStatus: shares.Clock.Starvation.String(),
		BelowSince:       moment(below),
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// clusterOf converts a snapshot to a cluster.
func clusterOf(s *apipb.SnapshotResponse) (whatif.Cluster, error) {
	c := whatif.Cluster{At: time.Now()}
	if s.GetTime() != nil {
		c.At = s.GetTime().AsTime()
	}
	var err error
	if c.Pools, err = treeOf(s.GetOptions(), s.GetPools()); err != nil {
		return c, fmt.Errorf("tree %s: %w", s.GetTree(), err)
	}
	for _, p := range s.GetPools() {
		if v := p.GetVolume(); v != nil {
			c.Volumes = append(c.Volumes, volumeOf(scheduling.PoolName(p.GetName()), v))
		}
	}
	for _, n := range s.GetNodes() {
		c.Nodes = append(c.Nodes, whatif.Node{Name: n.GetId(), Count: 1, Resources: amountsFrom(n.GetResources()), Tags: n.GetTags()})
	}
	for _, op := range s.GetOperations() {
		read, err := pooltree.ReadOperationOptions(op.GetOptions().AsMap())
		if err != nil {
			return c, fmt.Errorf("operation %s: %w", op.GetId(), err)
		}
		shown := whatif.Operation{
			ID: scheduling.OperationID(op.GetId()), Pool: scheduling.PoolName(op.GetPool()), Options: read, Usage: amountsFrom(op.GetUsage()),
			Idle: !op.GetEnabled(), Gang: op.GetGang(), Started: op.GetStartTime().AsTime(),
		}
		for _, task := range op.GetTasks() {
			shown.Tasks = append(shown.Tasks, whatif.Task{Pending: task.GetPending(), PerJob: amountsFrom(task.GetJobResources())})
		}
		c.Operations = append(c.Operations, shown)
	}
	return c, nil
}

// resolveAliases replaces aliases of operations in changes by their ids.
func resolveAliases(ctx context.Context, s *session, changes []whatif.Change) error {
	id := func(name string) (string, error) {
		if !strings.HasPrefix(name, "*") {
			return name, nil
		}
		op, err := s.GetOperation(ctx, name)
		return op.GetId(), err
	}
	for i := range changes {
		var err error
		if set := changes[i].Set; set != nil {
			set.Of, err = id(set.Of)
		} else if of := string(changes[i].RemoveOperation); of != "" {
			of, err = id(of)
			changes[i].RemoveOperation = scheduling.OperationID(of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func amountsFrom(r *apipb.Resources) resource.Amounts {
	return resource.Amounts{UserSlots: r.GetUserSlots(), CPU: resource.Cores(r.GetCpu()), GPU: r.GetGpu(), Memory: r.GetMemory(), Network: r.GetNetwork()}
}

func shownAmounts(a resource.Amounts) *apipb.Resources {
	return &apipb.Resources{UserSlots: a.UserSlots, Cpu: a.CPU.Cores(), Gpu: a.GPU, Memory: a.Memory, Network: a.Network}
}

func volumeOf(pool scheduling.PoolName, v *apipb.Volume) engine.PoolVolume {
	return engine.PoolVolume{Pool: pool, LastShareRatio: v.GetLastShareRatio(), Volume: resource.Volume{
		UserSlots: v.GetUserSlots(), CPU: resource.Cores(v.GetCpu()), GPU: v.GetGpu(), Memory: v.GetMemory(), Network: v.GetNetwork(),
	}}
}

// whatifMessage is the comparison for programs: shares by resource.
func whatifMessage(before, after whatif.Result, shown []whatif.Difference) (*structpb.Struct, error) {
	elements := make([]any, len(shown))
	for i, d := range shown {
		s := d.Either()
		elements[i] = map[string]any{
			"kind": cmp.Or(when(s.Pool, "pool"), "operation"), "name": s.Name, "parent": string(s.Parent), "before": shareMap(d.Before), "after": shareMap(d.After),
			"fair_share_change": d.Change(),
		}
	}
	return messageOf(map[string]any{"elements": elements, "before": resultMap(before), "after": resultMap(after)})
}

func shareMap(s *whatif.Share) any {
	if s == nil {
		return nil
	}
	return map[string]any{
		"fair_share_ratio": s.FairRatio, "fair_share": s.Fair.Map(), "strong_guarantee_share": s.Guarantee.Map(),
		"usage_share": s.Usage.Map(), "demand_share": s.Demand.Map(), "dominant_resource": s.Dominant().String(),
		"accumulated_resource_ratio_volume": s.Volume,
	}
}

func resultMap(r whatif.Result) map[string]any {
	over := make([]any, len(r.Overcommitted))
	for i, o := range r.Overcommitted {
		over[i] = map[string]any{"resource": o.Resource.String(), "pools": o.Pools, "message": o.String()}
	}
	return map[string]any{"resources": r.Total.Map(), "overcommitted": over, "alerts": append([]string{}, r.Alerts...)}
}

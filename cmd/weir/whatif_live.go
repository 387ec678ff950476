package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// ask asks the cluster for the fair shares of a tree before and after changes.
func (w *whatifFlags) ask(ctx context.Context, s *session, changes []whatif.Change) (before, after whatif.Result, err error) {
	if err := resolveAliases(ctx, s, changes); err != nil {
		return before, after, err
	}
	request, err := whatIfRequest(changes)
	if err != nil {
		return before, after, err
	}
	request.Tree, request.Operations = w.tree, !w.poolsOnly
	answer, err := s.WhatIf(ctx, request)
	if err != nil {
		return before, after, err
	}
	if before, err = resultOf(answer.GetBefore()); err != nil {
		return before, after, err
	}
	after, err = resultOf(answer.GetAfter())
	return before, after, err
}

// whatIfRequest returns the request for changes of a live cluster.
func whatIfRequest(changes []whatif.Change) (*apipb.WhatIfRequest, error) {
	m := &apipb.WhatIfRequest{}
	edit := func(e *apipb.TreeEdit) { m.Edits = append(m.Edits, e) }
	for _, c := range changes {
		var err error
		switch {
		case c.Set != nil:
			change := &apipb.PoolChange{Name: c.Set.Of}
			if parent, ok := c.Set.Value.(string); ok && c.Set.Path == "parent" {
				change.Parent = &parent
			} else if change.Options, err = structpb.NewStruct(map[string]any{c.Set.Path: c.Set.Value}); err != nil {
				err = fmt.Errorf("set %s/%s: %w", c.Set.Of, c.Set.Path, err)
			}
			edit(&apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: change}})
		case c.SetTree != nil:
			var options *structpb.Struct
			options, err = structpb.NewStruct(map[string]any{c.SetTree.Path: c.SetTree.Value})
			edit(&apipb.TreeEdit{Edit: &apipb.TreeEdit_TreeOptions{TreeOptions: options}})
		case c.AddPool != nil:
			p := &apipb.Pool{Name: string(c.AddPool.Name), Parent: string(c.AddPool.Parent)}
			p.Options, err = structpb.NewStruct(option.Write(c.AddPool.Options))
			edit(&apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: p}})
		case c.RemovePool != "":
			edit(&apipb.TreeEdit{Edit: &apipb.TreeEdit_Remove{Remove: string(c.RemovePool)}})
		case c.AddOperation != nil:
			err = start(m, *c.AddOperation)
		case c.RemoveOperation != "":
			m.End = append(m.End, string(c.RemoveOperation))
		case c.AddNodes != nil:
			m.Nodes = append(m.Nodes, &apipb.WhatIfNodes{Count: c.AddNodes.Count, Resources: shownAmounts(c.AddNodes.Resources), Tags: c.AddNodes.Tags})
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// start adds an operation that starts to a request.
func start(m *apipb.WhatIfRequest, op whatif.Operation) error {
	options, err := structpb.NewStruct(option.Write(op.Options))
	if err != nil {
		return fmt.Errorf("operation %s: %w", op.ID, err)
	}
	started := &apipb.WhatIfOperation{Id: string(op.ID), Pool: string(op.Pool), Options: options, Gang: op.Gang, Usage: shownAmounts(op.Usage)}
	for _, task := range op.Tasks {
		started.Pending, started.JobResources = task.Pending, shownAmounts(task.PerJob)
	}
	m.Start = append(m.Start, started)
	return nil
}

// resultOf reads the fair shares of an answer.
func resultOf(m *apipb.WhatIfShares) (whatif.Result, error) {
	r := whatif.Result{Total: amountsFrom(m.GetResources()), Alerts: m.GetAlerts()}
	for _, o := range m.GetOvercommitted() {
		kind, err := resource.ParseKind(o.GetResource())
		if err != nil {
			return r, err
		}
		over := whatif.Overcommit{Overcommit: pooltree.Overcommit{Resource: kind, Guaranteed: o.GetGuaranteed(), Total: o.GetTotal()}}
		for _, name := range o.GetPools() {
			over.Pools = append(over.Pools, scheduling.PoolName(name))
		}
		r.Overcommitted = append(r.Overcommitted, over)
	}
	for _, s := range m.GetShares() {
		r.Shares = append(r.Shares, whatif.Share{
			Pool: s.GetPool(), Name: s.GetName(), Parent: scheduling.PoolName(s.GetParent()), FairRatio: s.GetFairRatio(), Volume: s.GetVolume(),
			Fair: vectorOf(s.GetFair()), Guarantee: vectorOf(s.GetGuarantee()), Usage: vectorOf(s.GetUsage()), Demand: vectorOf(s.GetDemand()),
		})
	}
	return r, nil
}

func vectorOf(v *apipb.ShareVector) resource.Vector {
	return resource.Vector{
		resource.UserSlots: v.GetUserSlots(), resource.CPU: v.GetCpu(), resource.GPU: v.GetGpu(), resource.Memory: v.GetMemory(), resource.Network: v.GetNetwork(),
	}
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

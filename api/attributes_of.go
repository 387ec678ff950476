package api

import (
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// schedulerAttributes returns the attributes of all trees together.
func schedulerAttributes(st *state.State) map[string]any {
	counts := st.Counts()
	var total, usage resource.Amounts
	for _, n := range st.Nodes() {
		usage = usage.Add(st.NodeUsage(scheduling.NodeID(n.GetId())))
		if n.GetState() == statepb.NodeOnline {
			total = total.Add(n.GetResources().Amounts())
		}
	}
	return map[string]any{
		"default_tree":        string(st.DefaultTree()),
		folderTrees:           list(treeNames(st)),
		"operation_count":     float64(counts.InProgress),
		"job_count":           float64(counts.Allocations),
		"node_count":          float64(counts.Nodes),
		"online_node_count":   float64(counts.NodesOnline),
		"draining_node_count": float64(counts.NodesDraining),
		"pool_count":          float64(counts.Pools),
		"cluster_resources":   amountsOf(total),
		"resource_usage":      amountsOf(usage),
		"term":                float64(st.Term().GetTerm()),
		"leader":              st.Term().GetReplica(),
	}
}

// treeAttributes returns the attributes of a tree.
func treeAttributes(st *state.State, t treeIn) (map[string]any, error) {
	shown, err := treeOf(st, string(t.name))
	if err != nil {
		return nil, err
	}
	var usage resource.Amounts
	for _, id := range nodeIDs(st, t.name) {
		usage = usage.Add(st.NodeUsage(scheduling.NodeID(id)))
	}
	of := effectiveTree(t.pools.Options())
	maps.Copy(of, map[string]any{
		"name":                    string(t.name),
		"revision":                float64(t.record.GetRevision()),
		"options":                 t.record.GetOptions().AsMap(),
		"default":                 shown.GetDefault(),
		"node_count":              float64(shown.GetNodes()),
		"online_node_count":       float64(shown.GetNodesOnline()),
		"operation_count":         float64(shown.GetOperationCount()),
		"running_operation_count": float64(shown.GetRunningOperationCount()),
		"resource_usage":          amountsOf(usage),
		"resource_limits": map[string]any{
			"user_slots": float64(shown.GetResources().GetUserSlots()), "cpu": shown.GetResources().GetCpu(), "gpu": float64(shown.GetResources().GetGpu()),
			"memory": float64(shown.GetResources().GetMemory()), "network": float64(shown.GetResources().GetNetwork()),
		},
	})
	return of, nil
}

// poolAttributes returns the attributes of a pool that follow from the replicated state.
func poolAttributes(t treeIn, name scheduling.PoolName) (map[string]any, error) {
	effective, err := t.pools.Effective(name)
	if err != nil {
		return nil, err
	}
	p, _ := t.pools.Pool(name)
	of := heldByPool(effective, t.pools.Settings())
	addOptions(of, p.Options)
	addEffective(of, effective.Starvation)
	maps.Copy(of, map[string]any{
		"name":                    string(name),
		"tree":                    string(t.name),
		"parent":                  string(p.Parent),
		"options":                 option.Write(p.Options),
		"is_ephemeral":            p.Ephemeral != "",
		"ephemeral_user":          string(p.Ephemeral),
		"operation_count":         float64(t.counts[name].Operations),
		"running_operation_count": float64(t.counts[name].Running),
		"integral_guarantee_type": p.Options.Guarantee(),
		"child_pools":             list(t.pools.Children(name)),
	})
	return of, nil
}

// operationAttributes returns the attributes of an operation in a tree that follow from
// the replicated state.
func operationAttributes(t treeIn, op *statepb.Operation) (map[string]any, error) {
	in := op.In(string(t.name))
	set, pool, err := optionsIn(t.pools, in)
	if err != nil {
		return nil, err
	}
	effective := set.Effective(pool)
	of := effective.Document()
	addOptions(of, set)
	addEffective(of, effective.Starvation)
	maps.Copy(of, map[string]any{
		"id":             op.GetId(),
		"tree":           string(t.name),
		"pool":           in.GetPool(),
		"user":           op.GetUser(),
		"title":          op.GetSpec().GetTitle(),
		"alias":          op.GetSpec().GetAlias(),
		"type":           op.GetSpec().GetType(),
		"state":          op.GetState(),
		"suspended":      op.GetSuspended(),
		"options":        in.GetOptions().AsMap(),
		"admitted":       in.GetAdmitted(),
		"pending_reason": in.GetPendingReason(),
		"is_gang":        op.GetSpec().Gang(t.pools.Settings()),
		"start_time":     timeOf(op.GetStartTime()),

		"bounded_settings": list(set.Bounded(scheduling.PoolName(in.GetPool()), pool)),
	})
	return of, nil
}

// addEffective adds the settings in effect for an element, whether its own or inherited. Each is
// named effective_ followed by the name of the setting.
func addEffective(of map[string]any, s pooltree.EffectiveStarvation) {
	for name, value := range s.Document() {
		of["effective_"+name] = value
	}
}

// nodeAttributes returns the attributes of a node.
func (p *path) nodeAttributes(st *state.State, n *statepb.Node) map[string]any {
	id := scheduling.NodeID(n.GetId())
	seen, hidden, jobs := p.asker.sight(st), 0, []any{}
	for _, a := range st.AllocationsOfNode(id) {
		if seen.readsID(a.GetOperationId()) {
			jobs = append(jobs, a.GetJobId())
		} else {
			hidden++
		}
	}
	of := map[string]any{
		"id":              n.GetId(),
		"state":           n.GetState(),
		"host":            n.GetHost(),
		"version":         n.GetVersion(),
		"tags":            list(n.GetTags()),
		"tree":            n.GetTree(),
		"caveat":          n.GetCaveat(),
		"resource_limits": amountsOf(n.GetResources().Amounts()),
		"resource_usage":  amountsOf(st.NodeUsage(id)),
		"jobs":            jobs,
		"job_count":       float64(len(jobs) + hidden),
		"draining":        n.GetDrain() != nil,
		"register_time":   timeOf(n.GetRegisteredTime()),
	}
	for _, live := range p.view.GetNodes() {
		if live.GetId() == n.GetId() {
			of["last_heartbeat_time"], of["memory_used"] = timeOf(live.GetLastHeartbeat()), float64(live.GetMemoryUsed())
		}
	}
	return of
}

// amountsOf returns amounts of all resources by name.
func amountsOf(a resource.Amounts) map[string]any {
	return map[string]any{
		"user_slots": float64(a.UserSlots), "cpu": a.CPU.Cores(), "gpu": float64(a.GPU), "memory": float64(a.Memory), "network": float64(a.Network),
	}
}

// timeOf returns a time as text; nil when there is none.
func timeOf(t *timestamppb.Timestamp) any {
	if t == nil {
		return nil
	}
	return t.AsTime().UTC().Format(time.RFC3339Nano)
}

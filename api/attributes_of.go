package api

import (
	"maps"
	"strings"
	"sync"
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

// heldByPool returns the settings in effect for a pool by option name, including those that pools
// do not pass down to their children.
func heldByPool(e pooltree.Effective, s pooltree.Settings) map[string]any {
	all := pooltree.PoolOptions{StrongGuarantee: &pooltree.Resources{}, Integral: &pooltree.IntegralOptions{
		ResourceFlow: &pooltree.Resources{}, BurstGuarantee: &pooltree.Resources{},
		RelaxedMultiplier: &s.RelaxedShareMultiplierLimit, DistributeFreeVolume: &s.DistributeFreeVolume,
	}}
	option.Complete(&all)
	out := option.Write(all)
	maps.Copy(out, e.Document())
	return out
}

// addOptions copies the options that are set into the map `holds`, where they replace settings of
// the same name. An option that is not set and is not in the map becomes null there.
func addOptions(holds map[string]any, options any) {
	written := option.Write(options)
	for _, f := range option.Fields(options) {
		in, set := holds, written
		names := strings.Split(f.Path, "/")
		name := names[len(names)-1]
		for _, group := range names[:len(names)-1] {
			if _, known := in[group].(map[string]any); !known {
				in[group] = map[string]any{}
			}
			in = in[group].(map[string]any)
			set, _ = set[group].(map[string]any)
		}
		value, isSet := set[name]
		if _, known := in[name]; isSet || !known {
			in[name] = value
		}
	}
}

// optionNames maps each alias of an option to its name.
var optionNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, options := range []any{pooltree.TreeOptions{}, pooltree.PoolOptions{}, pooltree.OperationOptions{}} {
		for _, f := range option.Fields(options) {
			for _, alias := range f.Aliases {
				names[alias] = f.Path[strings.LastIndex(f.Path, "/")+1:]
			}
		}
	}
	return names
})

// optionsIn returns the options of an operation in a tree with these pools, and the settings in
// effect for its pool.
func optionsIn(pools pooltree.Tree, in *statepb.OperationTree) (set pooltree.OperationOptions, pool pooltree.Effective, err error) {
	if set, err = pooltree.ReadOperationOptions(in.GetOptions().AsMap()); err == nil {
		pool, err = pools.Effective(scheduling.PoolName(in.GetPool()))
	}
	return set, pool, err
}

// effectiveTree returns the settings in effect in a tree with these options. An option that is
// not set and has no default is null.
func effectiveTree(options pooltree.TreeOptions) map[string]any {
	holds := option.Write(options.Complete())
	addOptions(holds, options)
	return holds
}

// list returns names as a list for a document.
func list[T ~string](names []T) []any { return mapped(names, func(name T) any { return string(name) }) }

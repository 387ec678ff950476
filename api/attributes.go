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
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// attributes implements AttributeService.
type attributes struct{ *server }

// The folders of the tree of attributes.
const (
	folderScheduler  = "scheduler"
	folderTrees      = "pool_trees"
	folderPools      = "pools"
	folderOperations = "operations"
	folderNodes      = "nodes"
)

// Get answers with what is at a path.
func (s attributes) Get(ctx context.Context, req *connect.Request[apipb.GetAttributeRequest]) (*connect.Response[apipb.GetAttributeResponse], error) {
	names := strings.FieldsFunc(req.Msg.GetPath(), func(r rune) bool { return r == '/' })
	p := path{server: s.server, names: names}
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	var found any
	err := s.read(ctx, "get attribute", func(st *state.State) (err error) {
		found, err = p.resolve(st)
		return err
	})
	if err != nil {
		return nil, err
	}
	value, err := structpb.NewValue(found)
	if err != nil {
		return nil, fmt.Errorf("get attribute %s: %w", strings.Join(names, "/"), err)
	}
	return connect.NewResponse(&apipb.GetAttributeResponse{Value: value}), nil
}

// path is a question for what is at the end of names.
type path struct {
	*server
	names []string
	// view is what the leader's scheduler says of the element that is asked for, or
	// of the tree of a node; nil: it was not asked, or cannot be reached.
	view *actorpb.SchedulerView
}

// name returns the name at a place of the path, empty behind its end.
func (p *path) name(i int) string {
	if i >= len(p.names) {
		return ""
	}
	return p.names[i]
}

// ask gets what only the leader's scheduler knows of the element at the path. An
// operation may be named by its alias.
func (p *path) ask(ctx context.Context) error {
	if p.name(0) != folderScheduler || p.name(1) != folderTrees || p.name(4) == "" {
		return nil
	}
	request := &actorpb.SchedulerViewRequest{Tree: p.names[2]}
	switch p.names[3] {
	case folderPools:
		request.Pool = p.names[4]
	case folderOperations:
		id, err := operations{p.server}.resolve(ctx, "get attribute", p.names[4])
		if err != nil {
			return err
		}
		p.names[4], request.Operation = id, id
	case folderNodes:
	default:
		return nil
	}
	ctx, cancel := extra(ctx)
	defer cancel()
	view, err := p.cfg.Leader.SchedulerView(ctx, request)
	if err != nil {
		p.cfg.Logger.Debug("what the scheduler sees is not known", "error", err)
		return nil
	}
	p.view = view
	return nil
}

// resolve returns what is at the path.
func (p *path) resolve(st *state.State) (any, error) {
	switch {
	case len(p.names) == 0:
		return []any{folderScheduler}, nil
	case p.names[0] != folderScheduler:
		return nil, p.missing(0, []string{folderScheduler})
	case p.name(1) != folderTrees:
		return p.descend(1, schedulerAttributes(st))
	case len(p.names) == 2:
		return list(treeNames(st)), nil
	case !slices.Contains(treeNames(st), p.names[2]):
		return nil, p.missing(2, treeNames(st))
	}
	t, err := findTree(st, "get attribute", p.names[2])
	if err != nil {
		return nil, err
	}
	folders := map[string]func() []string{
		folderPools:      t.poolNames,
		folderOperations: func() []string { return operationIDs(st, t.name) },
		folderNodes:      func() []string { return nodeIDs(st, t.name) },
	}
	folder, isFolder := folders[p.name(3)]
	switch {
	case !isFolder:
		of, err := treeAttributes(st, t)
		if err != nil {
			return nil, err
		}
		for name, names := range folders {
			of[name] = list(names())
		}
		return p.descend(3, of)
	case len(p.names) == 4:
		return list(folder()), nil
	case !slices.Contains(folder(), p.names[4]):
		return nil, p.missing(4, folder())
	}
	of, err := p.element(st, t)
	if err != nil {
		return nil, err
	}
	return p.descend(5, of)
}

// element returns the attributes of a pool, an operation or a node.
func (p *path) element(st *state.State, t treeIn) (map[string]any, error) {
	if p.names[3] == folderNodes {
		n, _ := st.Node(scheduling.NodeID(p.names[4]))
		return p.nodeAttributes(st, n), nil
	}
	var of map[string]any
	var err error
	if p.names[3] == folderPools {
		of, err = poolAttributes(t, scheduling.PoolName(p.names[4]))
	} else {
		op, _ := st.Operation(scheduling.OperationID(p.names[4]))
		of, err = operationAttributes(t, op)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range p.view.GetElements() {
		if e.GetId() == p.names[4] && e.GetPool() == (p.names[3] == folderPools) {
			maps.Copy(of, e.GetAttributes().AsMap())
		}
	}
	return of, nil
}

// descend goes on from the name at a place through objects and lists.
func (p *path) descend(at int, value any) (any, error) {
	for ; at < len(p.names); at++ {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, p.missing(at, nil)
		}
		if value, ok = object[p.names[at]]; !ok {
			return nil, p.missing(at, slices.Sorted(maps.Keys(object)))
		}
	}
	return value, nil
}

// maxNamesShown bounds how many names an error tells.
const maxNamesShown = 100

// missing tells that there is nothing of the name at a place: the nearest part that
// there is, and what is below it.
func (p *path) missing(at int, below []string) error {
	const what = "get attribute"
	there := cmp.Or(strings.Join(p.names[:at], "/"), "the top")
	problem := fmt.Sprintf("%s: there is no %q: %s is a value and has nothing below it", what, strings.Join(p.names, "/"), there)
	if below != nil {
		shown := below[:min(len(below), maxNamesShown)]
		problem = fmt.Sprintf("%s: there is no %q: below %s there are %s", what, strings.Join(p.names[:at+1], "/"), there, cmp.Or(strings.Join(shown, ", "), "none"))
		if more := len(below) - len(shown); more > 0 {
			problem += fmt.Sprintf(" and %d more", more)
		}
		if closest := option.Closest(p.names[at], below); closest != "" {
			problem += fmt.Sprintf("; did you mean %s?", closest)
		}
	}
	return fail(connect.CodeNotFound, apipb.CodeUnknownPath, problem)
}

func treeNames(st *state.State) []string {
	var names []string
	for _, t := range st.Trees() {
		names = append(names, t.GetName())
	}
	return names
}

// poolNames returns the names of all pools of a tree, the root first.
func (t treeIn) poolNames() []string {
	names := []string{string(scheduling.RootPool)}
	for _, p := range t.pools.Pools() {
		names = append(names, string(p.Name))
	}
	return names
}

func operationIDs(st *state.State, tree scheduling.TreeName) []string {
	ids := []string{}
	for op := range st.InProgress() {
		if op.In(string(tree)) != nil {
			ids = append(ids, op.GetId())
		}
	}
	return ids
}

func nodeIDs(st *state.State, tree scheduling.TreeName) []string {
	ids := []string{}
	for _, n := range st.Nodes() {
		if n.GetTree() == string(tree) {
			ids = append(ids, n.GetId())
		}
	}
	return ids
}

// schedulerAttributes are those of all trees together.
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

// treeAttributes are those of a tree.
func treeAttributes(st *state.State, t treeIn) (map[string]any, error) {
	shown, err := treeOf(st, string(t.name))
	if err != nil {
		return nil, err
	}
	var usage resource.Amounts
	for _, id := range nodeIDs(st, t.name) {
		usage = usage.Add(st.NodeUsage(scheduling.NodeID(id)))
	}
	of := effectiveTree(t.pools.Settings())
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

// poolAttributes are those of a pool that follow from the state.
func poolAttributes(t treeIn, name scheduling.PoolName) (map[string]any, error) {
	effective, err := t.pools.Effective(name)
	if err != nil {
		return nil, err
	}
	p, _ := t.pools.Pool(name)
	of := effectivePool(effective)
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
		"child_pools":             list(namesOf(t.pools.Children(name))),
	})
	return of, nil
}

func namesOf(pools []scheduling.PoolName) []string {
	names := make([]string, len(pools))
	for i, name := range pools {
		names[i] = string(name)
	}
	return names
}

// operationAttributes are those of an operation in a tree that follow from the
// state.
func operationAttributes(t treeIn, op *statepb.Operation) (map[string]any, error) {
	in := op.In(string(t.name))
	options, err := pooltree.ReadOperationOptions(in.GetOptions().AsMap())
	if err != nil {
		return nil, err
	}
	pool, err := t.pools.Effective(scheduling.PoolName(in.GetPool()))
	if err != nil {
		return nil, err
	}
	effective := options.Effective(pool)
	of := effectiveOperation(effective)
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
	})
	return of, nil
}

// addEffective adds the settings that an element has of itself or from above, by the
// names that tell so.
func addEffective(of map[string]any, s pooltree.EffectiveStarvation) {
	for name, value := range s.Document() {
		of["effective_"+name] = value
	}
}

// nodeAttributes are those of a node.
func (p *path) nodeAttributes(st *state.State, n *statepb.Node) map[string]any {
	id := scheduling.NodeID(n.GetId())
	jobs := []any{}
	for _, a := range st.AllocationsOfNode(id) {
		jobs = append(jobs, a.GetJobId())
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
		"job_count":       float64(len(jobs)),
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

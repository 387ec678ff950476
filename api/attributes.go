package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
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

// Get returns the value at a path.
func (s attributes) Get(ctx context.Context, req *connect.Request[apipb.GetAttributeRequest]) (*connect.Response[apipb.GetAttributeResponse], error) {
	names := strings.FieldsFunc(req.Msg.GetPath(), func(r rune) bool { return r == '/' })
	p := path{server: s.server, asker: askerOf(ctx), names: names}
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

// path is a path in the tree of attributes, and the data needed to resolve it.
type path struct {
	*server
	asker *asking
	names []string
	// view is what the leader's scheduler reported about the pool or operation, or about the tree
	// of the node; nil if the scheduler was not asked or did not answer.
	view *actorpb.SchedulerView
	// unseen is the error if the leader's scheduler was asked for a view and gave none.
	unseen error
}

// name returns the i-th name of the path, empty beyond its end.
func (p *path) name(i int) string {
	if i >= len(p.names) {
		return ""
	}
	return p.names[i]
}

// ask fetches those attributes of the element at the path that only the leader's scheduler has. It
// replaces the alias of an operation by its id.
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
		request.Reports = p.names[4:5]
	default:
		return nil
	}
	var err error
	if p.view, p.unseen, err = p.seen(ctx, "get attribute", request); err != nil {
		return err
	}
	if p.unseen == nil && request.GetPool() != "" && len(p.view.GetElements()) == 0 {
		p.unseen = errors.New("the leader's scheduler has just started")
	}
	return nil
}

// resolve returns the value at the path.
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
		if err == nil && p.asker.read(st, op, "see all of") != nil {
			delete(of, "title")
			delete(of, "alias")
		}
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

// descend looks up the names p.names[at:]: the first in value, each other in the object found by
// the name before.
func (p *path) descend(at int, value any) (any, error) {
	for ; at < len(p.names); at++ {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, p.missing(at, nil)
		}
		if value, ok = attribute(object, p.names[at]); !ok {
			return nil, p.missing(at, slices.Sorted(maps.Keys(object)))
		}
	}
	return value, nil
}

// attribute returns the value of a name. In place of the name of an option,
// name may be an alias of the option, or have '-' in place of '_'.
func attribute(object map[string]any, name string) (any, bool) {
	if value, ok := object[name]; ok {
		return value, true
	}
	name = strings.ReplaceAll(name, "-", "_")
	value, ok := object[cmp.Or(optionNames()[name], name)]
	return value, ok
}

// maxNamesShown bounds how many names an error lists.
const maxNamesShown = 100

// missing returns the error for a path of which p.names[at] does not exist. The error says which
// part of the path exists, and lists the names below that part.
func (p *path) missing(at int, below []string) error {
	const what = "get attribute"
	if p.unseen != nil && at > 4 {
		return p.unavailable(fmt.Sprintf("%s: the leader's view of %s is unknown", what, strings.Join(p.names[:5], "/")), p.unseen)
	}
	there := cmp.Or(strings.Join(p.names[:at], "/"), "the root")
	problem := fmt.Sprintf("%s: there is no %q: %s is a value and has nothing below it", what, strings.Join(p.names, "/"), there)
	if below != nil {
		shown := below[:min(len(below), maxNamesShown)]
		problem = fmt.Sprintf("%s: there is no %q: below %s there are %s", what, strings.Join(p.names[:at+1], "/"), there, cmp.Or(strings.Join(shown, ", "), "none"))
		if more := len(below) - len(shown); more > 0 {
			problem += fmt.Sprintf(" and %d more", more)
		}
		if closest := option.Closest(p.names[at], below); closest != "" {
			problem = fmt.Sprintf("%s: there is no %q: did you mean %s?", what, strings.Join(p.names[:at+1], "/"), closest)
		}
	}
	return fail(connect.CodeNotFound, apipb.CodeUnknownPath, "%s", problem)
}

func treeNames(st *state.State) []string { return mapped(st.Trees(), (*statepb.PoolTree).GetName) }

// poolNames returns the names of all pools of a tree, the root first.
func (t treeIn) poolNames() []string {
	return mapped(append([]pooltree.Pool{{Name: scheduling.RootPool}}, t.pools.Pools()...), func(p pooltree.Pool) string { return string(p.Name) })
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
	all := slices.DeleteFunc(slices.Clone(st.Nodes()), func(n *statepb.Node) bool { return n.GetTree() != string(tree) })
	return mapped(all, (*statepb.Node).GetId)
}

package poolfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Value holds the values of an option before and after a change; nil means the default. Path
// has slashes between names.
type Value struct {
	Path     string
	Old, New any
}

// Change is the change of one pool, or of the options of the tree.
type Change struct {
	// Pool is empty for the options of the tree.
	Pool scheduling.PoolName
	// Create and Remove say that the pool is created or removed.
	Create, Remove bool
	// OldParent and Parent differ if the pool moves. A created pool has no
	// OldParent.
	OldParent, Parent scheduling.PoolName
	// Values are the options that change, by path.
	Values []Value
}

// Plan holds the changes that turn a tree into the one that a file declares.
type Plan struct {
	// Changes are in this order: the options of the tree, changed pools (parents first),
	// created pools (parents first), removed pools (children first).
	Changes []Change
	// Left are the pools that stay although they are not in the file, except ephemeral ones.
	Left []scheduling.PoolName
	// After is the tree after all changes.
	After pooltree.Tree
}

// Empty reports whether there are no changes.
func (p Plan) Empty() bool { return len(p.Changes) == 0 }

// Compare returns the plan that turns the present tree into the one that file declares. With
// prune, pools that are not in the file are removed, except ephemeral ones. The error says
// why the resulting tree is invalid. Conditions that only the cluster can check, such
// as operations in a removed pool, are not checked here.
func Compare(now pooltree.Tree, file File, prune bool) (Plan, error) {
	var plan Plan
	options := now.Options()
	if file.Options != nil {
		if values := Diff(option.Write(options), option.Write(*file.Options)); len(values) > 0 {
			plan.Changes = append(plan.Changes, Change{Values: values})
		}
		options = *file.Options
	}
	declared := make(map[scheduling.PoolName]pooltree.Pool, len(file.Pools))
	for _, p := range file.Pools {
		declared[p.Name] = p
	}
	after := slices.Clone(file.Pools)
	var created, removed []Change
	for _, p := range now.ParentsFirst() {
		want, ok := declared[p.Name]
		switch {
		case ok:
			change := Change{Pool: p.Name, OldParent: p.Parent, Parent: want.Parent, Values: Diff(option.Write(p.Options), option.Write(want.Options))}
			if change.OldParent != change.Parent || len(change.Values) > 0 {
				plan.Changes = append(plan.Changes, change)
			}
		case prune && p.Ephemeral == "":
			removed = append(removed, Change{Pool: p.Name, Remove: true, OldParent: p.Parent, Parent: p.Parent, Values: Diff(option.Write(p.Options), nil)})
		default:
			after = append(after, p)
			if p.Ephemeral == "" {
				plan.Left = append(plan.Left, p.Name)
			}
		}
	}
	for _, p := range file.Pools {
		if !now.Has(p.Name) {
			created = append(created, Change{Pool: p.Name, Create: true, Parent: p.Parent, Values: Diff(nil, option.Write(p.Options))})
		}
	}
	slices.Reverse(removed)
	plan.Changes = append(append(plan.Changes, created...), removed...)
	tree, err := pooltree.FromPools(options, after)
	if err != nil {
		return Plan{}, fmt.Errorf("after the change: %w", err)
	}
	plan.After = tree
	return plan, nil
}

// Diff returns the options that differ between two documents, by path. A list counts as
// one value.
func Diff(before, after map[string]any) []Value {
	was, will := flatten(before), flatten(after)
	paths := maps.Clone(was)
	maps.Copy(paths, will)
	var out []Value
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !reflect.DeepEqual(was[path], will[path]) {
			out = append(out, Value{Path: path, Old: was[path], New: will[path]})
		}
	}
	return out
}

// flatten returns the values of a document by path.
func flatten(document map[string]any) map[string]any {
	out := make(map[string]any)
	var walk func(prefix string, object map[string]any)
	walk = func(prefix string, object map[string]any) {
		for name, value := range object {
			if inner, ok := value.(map[string]any); ok {
				walk(prefix+name+"/", inner)
				continue
			}
			out[prefix+name] = value
		}
	}
	walk("", document)
	return out
}

// Lines returns the plan for people, with old and new values. What is created is marked
// with +, what is removed with -, and what is changed with ~.
func (p Plan) Lines() []string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, c.head())
		for _, v := range c.Values {
			if !c.Remove {
				out = append(out, "    "+v.line())
			}
		}
	}
	return out
}

// head returns the first line of a change.
func (c Change) head() string {
	switch {
	case c.Pool == "":
		return "~ options of the tree"
	case c.Create:
		return fmt.Sprintf("+ pool %s below %s", c.Pool, c.Parent)
	case c.Remove:
		return fmt.Sprintf("- pool %s below %s", c.Pool, c.OldParent)
	case c.OldParent != c.Parent:
		return fmt.Sprintf("~ pool %s: moves from %s to %s", c.Pool, c.OldParent, c.Parent)
	default:
		return fmt.Sprintf("~ pool %s", c.Pool)
	}
}

func (v Value) line() string {
	switch {
	case v.Old == nil:
		return fmt.Sprintf("+ %s: %s", v.Path, Text(v.Path, v.New))
	case v.New == nil:
		return fmt.Sprintf("- %s: %s -> default", v.Path, Text(v.Path, v.Old))
	default:
		return fmt.Sprintf("~ %s: %s -> %s", v.Path, Text(v.Path, v.Old), Text(v.Path, v.New))
	}
}

// Text returns the value of an option as people write it: memory with a unit.
func Text(path string, value any) string {
	switch v := value.(type) {
	case nil:
		return "default"
	case float64:
		if path[strings.LastIndexByte(path, '/')+1:] == resource.Memory.String() && v == float64(int64(v)) {
			return resource.FormatSize(int64(v))
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = fmt.Sprint(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+Text(path+"/"+name, v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}

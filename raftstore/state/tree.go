package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// tree is a pool tree and the operations in it.
type tree struct {
	// record is replaced by each edit.
	record *statepb.PoolTree
	// Invariant: pools is the parsed form of record.
	pools pooltree.Tree
	// immediate counts the operations in each pool itself. total also counts those in the pools
	// below it.
	immediate map[scheduling.PoolName]pooltree.Count
	total     pooltree.Counts
	// bytes is what the pools of record and its options take.
	bytes int64
}

// newTree returns a tree at revision 1 without operations and with the pool
// scheduling.DefaultPool, which gets this id.
func newTree(name scheduling.TreeName, options pooltree.TreeOptions, id scheduling.PoolID) (*tree, error) {
	pools, err := pooltree.FromPools(options, []pooltree.Pool{{Name: scheduling.DefaultPool, ID: id, Parent: scheduling.RootPool}})
	if err != nil {
		return nil, err
	}
	record := &statepb.PoolTree{Name: string(name), Revision: 1, Options: document(pools.Options())}
	for _, p := range pools.Pools() {
		record.Pools = append(record.Pools, poolRecord(p))
	}
	return restoredTree(record, pools), nil
}

func restoredTree(record *statepb.PoolTree, pools pooltree.Tree) *tree {
	t := &tree{
		record:    &statepb.PoolTree{},
		immediate: make(map[scheduling.PoolName]pooltree.Count),
		total:     make(pooltree.Counts),
	}
	t.replace(record, pools)
	return t
}

// replace puts an edited record in the place of that of the tree.
func (t *tree) replace(record *statepb.PoolTree, pools pooltree.Tree) {
	t.bytes = t.bytesOf(record)
	t.record, t.pools = record, pools
}

// bytesOf returns what a changed record of the tree takes. Only pools that have changed are looked at.
func (t *tree) bytesOf(record *statepb.PoolTree) int64 {
	bytes := t.bytes + int64(proto.Size(record.GetOptions())-proto.Size(t.record.GetOptions()))
	former := make(map[*statepb.Pool]bool, len(t.record.GetPools()))
	for _, p := range t.record.GetPools() {
		former[p] = true
	}
	for _, p := range record.GetPools() {
		if former[p] {
			delete(former, p)
			continue
		}
		bytes += int64(proto.Size(p))
	}
	for p := range former {
		bytes -= int64(proto.Size(p))
	}
	return bytes
}

// readTree converts the pools of a record to those of package pooltree.
func readTree(record *statepb.PoolTree) (pooltree.Tree, error) {
	options, err := pooltree.ReadTreeOptions(record.GetOptions().AsMap())
	if err != nil {
		return pooltree.Tree{}, err
	}
	pools := make([]pooltree.Pool, len(record.GetPools()))
	for i, p := range record.GetPools() {
		if pools[i], err = readPool(p); err != nil {
			return pooltree.Tree{}, err
		}
	}
	return pooltree.FromPools(options, pools)
}

// formerPoolOption was an option of pools that had no effect. It is ignored in old log
// entries and records.
const formerPoolOption = "preemptive_scheduling_backoff"

// withoutFormer returns options without formerPoolOption, in any spelling of its name.
func withoutFormer[T any](options map[string]T) map[string]T {
	left := maps.Clone(options)
	maps.DeleteFunc(left, func(name string, _ T) bool { return strings.ReplaceAll(name, "-", "_") == formerPoolOption })
	return left
}

// readPool converts a pool to that of package pooltree.
func readPool(p *statepb.Pool) (pooltree.Pool, error) {
	options, err := pooltree.ReadPoolOptions(withoutFormer(p.GetOptions().AsMap()))
	if err != nil {
		return pooltree.Pool{}, fmt.Errorf("pool %q: %w", p.GetName(), err)
	}
	return pooltree.Pool{
		Name:      scheduling.PoolName(p.GetName()),
		ID:        scheduling.PoolID(p.GetId()),
		Parent:    scheduling.PoolName(p.GetParent()),
		Options:   options,
		Ephemeral: scheduling.User(p.GetEphemeralUser()),
	}, nil
}

// poolRecord returns the record of a pool without its times.
func poolRecord(p pooltree.Pool) *statepb.Pool {
	return &statepb.Pool{
		Name: string(p.Name), Id: uint64(p.ID), Parent: string(p.Parent), Options: document(p.Options), EphemeralUser: string(p.Ephemeral),
	}
}

// document returns options as they are recorded: those that are set, by their primary
// names. It is nil if nothing is set.
func document(options any) *structpb.Struct {
	written := option.Write(options)
	if len(written) == 0 {
		return nil
	}
	return structOf(written)
}

// count adds delta to the operations of a pool.
func (t *tree) count(pool scheduling.PoolName, delta pooltree.Count) {
	if delta == (pooltree.Count{}) {
		return
	}
	if t.immediate[pool] = t.immediate[pool].Plus(delta); t.immediate[pool] == (pooltree.Count{}) {
		delete(t.immediate, pool)
	}
	if err := t.total.Add(t.pools, pool, delta); err != nil {
		panic(fmt.Sprintf("count operations: %v: a pool with operations was removed", err))
	}
}

// findTree returns the tree that a command names, or the default tree if the name is empty.
func (c treeChange) findTree(what, name string) (*tree, scheduling.TreeName, *refusal) {
	tree := scheduling.TreeName(cmp.Or(name, string(c.defaultTree)))
	if t, ok := c.trees[tree]; ok {
		return t, tree, nil
	}
	return nil, tree, refuse(CodeUnknownTree, "%s: no pool tree %q: there are %s", what, tree, quoted(namesOf(c.trees)))
}

// maxNamed is how many existing names an error lists.
const maxNamed = 5

// quoted formats names for an error.
func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	out := make([]string, 0, maxNamed)
	for _, name := range names[:min(len(names), maxNamed)] {
		out = append(out, fmt.Sprintf("%q", name))
	}
	if more := len(names) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// unknownPool returns the refusal of a pool that does not exist. Its message names pools that
// exist.
func (t *tree) unknownPool(what string, pool scheduling.PoolName) *refusal {
	return refuse(CodeUnknownPool, "%s: no such pool in tree %q (there are %s): create it or name another",
		what, t.record.GetName(), t.poolsLike(pool))
}

// poolsLike lists pools for an error, those with the longest common prefix first.
func (t *tree) poolsLike(pool scheduling.PoolName) string {
	names := make([]string, len(t.record.GetPools()))
	for i, p := range t.record.GetPools() {
		names[i] = p.GetName()
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(commonPrefix(b, string(pool)), commonPrefix(a, string(pool))), cmp.Compare(a, b))
	})
	return quoted(names)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// tree is a pool tree and the operations in it.
type tree struct {
	// record is replaced by each edit.
	record *statepb.PoolTree
	// Invariant: pools is what record says.
	pools pooltree.Tree
	// immediate counts the operations of each pool alone, total those of the
	// pools below it too.
	immediate map[scheduling.PoolName]pooltree.Count
	total     pooltree.Counts
}

// newTree returns a tree at revision 1 without operations.
func newTree(name scheduling.TreeName, pools pooltree.Tree) *tree {
	record := &statepb.PoolTree{Name: string(name), Revision: 1}
	for _, p := range pools.Pools() {
		record.Pools = append(record.Pools, &statepb.Pool{Name: string(p.Name), Parent: string(p.Parent)})
	}
	return restoredTree(record, pools)
}

func restoredTree(record *statepb.PoolTree, pools pooltree.Tree) *tree {
	return &tree{
		record:    record,
		pools:     pools,
		immediate: make(map[scheduling.PoolName]pooltree.Count),
		total:     make(pooltree.Counts),
	}
}

// count adds to the operations of a pool.
func (t *tree) count(pool scheduling.PoolName, delta pooltree.Count) {
	if delta == (pooltree.Count{}) {
		return
	}
	now := t.immediate[pool]
	now.Operations += delta.Operations
	now.Running += delta.Running
	t.immediate[pool] = now
	if now == (pooltree.Count{}) {
		delete(t.immediate, pool)
	}
	if err := t.total.Add(t.pools, pool, delta); err != nil {
		panic(fmt.Sprintf("count operations: %v: a pool with operations was removed", err))
	}
	path, _ := t.pools.Path(pool)
	for _, name := range path {
		if t.total[name] == (pooltree.Count{}) {
			delete(t.total, name)
		}
	}
}

// replace takes over an edit of the pools: p is new at its place in the record,
// or gone when it is nil.
func (t *tree) replace(pools pooltree.Tree, name scheduling.PoolName, p *statepb.Pool) {
	record := shallow(t.record)
	record.Revision++
	record.Pools = slices.Clone(record.GetPools())
	i, found := slices.BinarySearchFunc(record.GetPools(), string(name), byPoolName)
	switch {
	case p == nil:
		record.Pools = slices.Delete(record.Pools, i, i+1)
	case found:
		record.Pools[i] = p
	default:
		record.Pools = slices.Insert(record.Pools, i, p)
	}
	total, err := pools.Total(t.immediate)
	if err != nil {
		panic(fmt.Sprintf("edit pools: %v: a pool with operations was removed", err))
	}
	t.record, t.pools, t.total = record, pools, total
}

func byPoolName(p *statepb.Pool, name string) int { return cmp.Compare(p.GetName(), name) }

// findTree returns the tree of a command; no name is that of the default tree.
func (c *change) findTree(what, name string) (*tree, scheduling.TreeName, *refusal) {
	tree := scheduling.TreeName(name)
	if tree == "" {
		tree = scheduling.DefaultTree
	}
	if t, ok := c.trees[tree]; ok {
		return t, tree, nil
	}
	return nil, tree, refuse(CodeUnknownTree, "%s: no pool tree %q: use %q", what, tree, scheduling.DefaultTree)
}

// settings returns a pool as package pooltree knows it.
func settings(p *statepb.Pool) pooltree.Pool {
	return pooltree.Pool{
		Name:                     scheduling.PoolName(p.GetName()),
		Parent:                   scheduling.PoolName(p.GetParent()),
		Weight:                   p.Weight,
		MaxOperationCount:        widen(p.MaxOperationCount),
		MaxRunningOperationCount: widen(p.MaxRunningOperationCount),
	}
}

func widen(limit *int32) *int64 {
	if limit == nil {
		return nil
	}
	wide := int64(*limit)
	return &wide
}

// createPool adds a pool; one without a parent comes right below the root.
func (c *change) createPool(m *commandpb.CreatePool) *refusal {
	t, name, refused := c.findTree("create pool", m.GetTree())
	if refused != nil {
		return refused
	}
	if m.GetPool() == nil {
		return refuse(CodeInvalidCommand, "create pool: no pool is given")
	}
	p := shallow(m.GetPool())
	if p.GetParent() == "" {
		p.Parent = string(scheduling.RootPool)
	}
	p.CreatedTime, p.ModifiedTime = c.timestamp(), c.timestamp()
	pools, err := t.pools.Create(settings(p))
	if err != nil {
		return refusePool(err)
	}
	c.editPool(t, name, pools, scheduling.PoolName(p.GetName()), p)
	return nil
}

// setPool changes the named settings of a pool. A named setting without a value
// takes the tree's default again.
func (c *change) setPool(m *commandpb.SetPool) *refusal {
	pool := scheduling.PoolName(m.GetPool().GetName())
	what := fmt.Sprintf("set pool %q", pool)
	t, name, refused := c.findTree(what, m.GetTree())
	if refused != nil {
		return refused
	}
	if expected := m.GetExpectedRevision(); expected != 0 && expected != t.record.GetRevision() {
		return refuse(CodeRevisionMismatch, "%s: tree %q is at revision %d, not %d: read the pool again and repeat the change",
			what, name, t.record.GetRevision(), expected)
	}
	i, found := slices.BinarySearchFunc(t.record.GetPools(), string(pool), byPoolName)
	if !found {
		return t.unknownPool(what, pool)
	}
	if len(m.GetFields()) == 0 {
		return refuse(CodeInvalidCommand, "%s: no setting is named", what)
	}
	p := shallow(t.record.GetPools()[i])
	for _, field := range m.GetFields() {
		switch field {
		case "parent":
			p.Parent = cmp.Or(m.GetPool().GetParent(), string(scheduling.RootPool))
		case "weight":
			p.Weight = m.GetPool().Weight
		case "max_running_operation_count":
			p.MaxRunningOperationCount = m.GetPool().MaxRunningOperationCount
		case "max_operation_count":
			p.MaxOperationCount = m.GetPool().MaxOperationCount
		default:
			return refuse(CodeInvalidCommand, "%s: no setting %q: use parent, weight, max_operation_count "+
				"or max_running_operation_count", what, field)
		}
	}
	p.ModifiedTime = c.timestamp()
	pools, err := t.pools.Set(settings(p))
	if err != nil {
		return refusePool(err)
	}
	c.editPool(t, name, pools, pool, p)
	return nil
}

// removePool removes a pool that has no pools and no operations in progress.
func (c *change) removePool(m *commandpb.RemovePool) *refusal {
	pool := scheduling.PoolName(m.GetName())
	t, name, refused := c.findTree(fmt.Sprintf("remove pool %q", pool), m.GetTree())
	if refused != nil {
		return refused
	}
	pools, err := t.pools.Remove(pool, t.total[pool].Operations)
	if err != nil {
		return refusePool(err)
	}
	c.editPool(t, name, pools, pool, nil)
	return nil
}

// editPool takes over an edit, answers it and tells of it.
func (c *change) editPool(t *tree, name scheduling.TreeName, pools pooltree.Tree, pool scheduling.PoolName, p *statepb.Pool) {
	t.replace(pools, pool, p)
	c.result.Value = &commandpb.Result_Pool{Pool: &commandpb.PoolResult{Revision: t.record.GetRevision(), Pool: p}}
	c.emit(PoolChanged{Tree: name, Name: pool, Removed: p == nil})
}

// maxPoolsNamed is how many pools an error about an unknown one names.
const maxPoolsNamed = 5

// unknownPool refuses a pool that does not exist and names those that do: the
// ones that begin most alike first.
func (t *tree) unknownPool(what string, pool scheduling.PoolName) *refusal {
	pools := slices.Clone(t.record.GetPools())
	slices.SortFunc(pools, func(a, b *statepb.Pool) int {
		return cmp.Or(
			cmp.Compare(commonPrefix(b.GetName(), string(pool)), commonPrefix(a.GetName(), string(pool))),
			cmp.Compare(a.GetName(), b.GetName()))
	})
	names := make([]string, 0, maxPoolsNamed)
	for _, p := range pools[:min(len(pools), maxPoolsNamed)] {
		names = append(names, fmt.Sprintf("%q", p.GetName()))
	}
	if more := len(pools) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	known := "there are none"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	return refuse(CodeUnknownPool, "%s: pool %q: no such pool in tree %q (%s): create it or name another",
		what, pool, t.record.GetName(), known)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

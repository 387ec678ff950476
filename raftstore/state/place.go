package state

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

// optionPool is what a tree's part of a spec says of the pool; it is no option of
// package pooltree.
const optionPool = "pool"

// place is where an operation goes in one tree, and what has to be made for it.
type place struct {
	tree   *tree
	record *statepb.OperationTree
	create *pooltree.Pool
}

// placeAll finds the place of an operation in each of its trees, or refuses it as a
// whole: a tree or a pool that is not there, that takes no such operations, or that
// is full.
func (c *change) placeAll(what string, spec *statepb.OperationSpec, user scheduling.User) ([]place, *refusal) {
	names := spec.GetPoolTrees()
	if len(names) == 0 {
		names = []string{string(c.defaultTree)}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.GetOptionsPerTree())) {
		if !slices.Contains(names, name) {
			return nil, refuse(CodeInvalidSpec, "%s: scheduling_options_per_pool_tree: %q: the operation is not in this tree: name it in pool_trees", what, name)
		}
	}
	places := make([]place, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if len(places) > 0 && places[len(places)-1].record.GetTree() == name {
			return nil, refuse(CodeInvalidSpec, "%s: pool_trees: %q is there twice", what, name)
		}
		t, _, refused := c.findTree(what, name)
		if refused != nil {
			return nil, refused
		}
		p, refused := c.placeIn(what, t, spec, user)
		if refused != nil {
			return nil, refused
		}
		places = append(places, p)
	}
	return places, nil
}

// placeIn finds the place of an operation in one tree.
func (c *change) placeIn(what string, t *tree, spec *statepb.OperationSpec, user scheduling.User) (place, *refusal) {
	given := spec.GetOptions().AsMap()
	if given == nil {
		given = make(map[string]any)
	}
	pool := spec.GetPool()
	for name, value := range spec.GetOptionsPerTree()[t.record.GetName()].AsMap() {
		if name != optionPool {
			given[name] = value
			continue
		}
		text, ok := value.(string)
		if !ok {
			return place{}, refuse(CodeInvalidSpec, "%s: tree %q: pool is not text", what, t.record.GetName())
		}
		pool = text
	}
	options, err := pooltree.ReadOperationOptions(given)
	if err != nil {
		return place{}, refuse(CodeInvalidSpec, "%s: tree %q: %v", what, t.record.GetName(), err)
	}
	record := &statepb.OperationTree{Tree: t.record.GetName(), Options: document(options)}
	create, refused := c.enter(what, t, record, cmp.Or(pool, string(scheduling.DefaultPool)), spec, user)
	return place{tree: t, record: record, create: create}, refused
}

// enter finds the pool that an operation goes to in a tree when it names one, and
// writes it into the record. It returns the ephemeral pool that has to be made.
func (c *change) enter(what string, t *tree, record *statepb.OperationTree, pool string, spec *statepb.OperationSpec, user scheduling.User) (*pooltree.Pool, *refusal) {
	placed, err := t.pools.Place(scheduling.PoolName(pool), user, isGang(spec, t.pools.Settings()))
	switch {
	case errors.Is(err, pooltree.ErrTooManyEphemeral):
		refused := t.unknownPool(what, scheduling.PoolName(pool))
		refused.message = fmt.Sprintf("%s: %v", refused.message, err)
		return nil, refused
	case err != nil:
		return nil, refuse(CodeInvalidPool, "%s: tree %q: %v", what, t.record.GetName(), err)
	}
	at := placed.Pool
	if placed.Create != nil {
		at = placed.Create.Parent
	}
	if err := t.pools.AdmitStart(at, t.total); err != nil {
		return nil, refuse(CodePoolFull, "%s: tree %q: %v: wait for some to end, raise it or use another pool", what, t.record.GetName(), err)
	}
	record.Pool = string(placed.Pool)
	return placed.Create, nil
}

// takePlaces makes the ephemeral pools of places and returns their records.
func (c *change) takePlaces(places []place) []*statepb.OperationTree {
	records := make([]*statepb.OperationTree, len(places))
	for i, p := range places {
		records[i] = p.record
		if p.create != nil {
			c.createEphemeral(p.tree, *p.create)
		}
	}
	return records
}

// createEphemeral makes a pool that goes with its last operation.
func (c *change) createEphemeral(t *tree, p pooltree.Pool) {
	pools, err := t.pools.Create(p)
	if err != nil {
		panic(fmt.Sprintf("create ephemeral pool: %v: it was checked before", err))
	}
	record := poolRecord(p)
	record.CreatedTime, record.ModifiedTime = c.timestamp(), c.timestamp()
	d := draft{tree: t, at: c, record: shallow(t.record)}
	i, _ := d.find(string(p.Name))
	d.record.Pools = slices.Insert(slices.Clone(d.record.GetPools()), i, record)
	c.replaceTree(t, d.record, pools)
}

// dropEphemeral removes a pool when its last operation has left it.
func (c *change) dropEphemeral(t *tree, pool scheduling.PoolName) {
	p, ok := t.pools.Pool(pool)
	if !ok || p.Ephemeral == "" || t.total[pool].Operations > 0 {
		return
	}
	pools, err := t.pools.Remove(pool, 0)
	if err != nil {
		// Somebody has made a pool below it, or the tree's own options name it: it
		// has become one that stays.
		return
	}
	d := draft{tree: t, at: c, record: shallow(t.record)}
	i, _ := d.find(string(pool))
	d.record.Pools = slices.Delete(slices.Clone(d.record.GetPools()), i, i+1)
	c.replaceTree(t, d.record, pools)
}

func (c *change) replaceTree(t *tree, record *statepb.PoolTree, pools pooltree.Tree) {
	record.Revision++
	record.ModifiedTime = c.timestamp()
	t.record, t.pools = record, pools
	c.emit(TreeChanged{Tree: scheduling.TreeName(record.GetName())})
}

// isGang reports whether the jobs of an operation are needed all at once (F.2).
func isGang(spec *statepb.OperationSpec, s pooltree.Settings) bool {
	single := len(spec.GetTasks()) == 1 && spec.GetTasks()[0].GetJobCount() == 1
	return spec.GetIsGang() || s.SingleJobVanillaIsGang && spec.GetType() == lifecycle.Vanilla && single
}

// treeIndex returns the place of a tree among those of the operation, -1 when it
// is not in it.
func (v *version) treeIndex(name scheduling.TreeName) int {
	return slices.IndexFunc(v.record.GetTrees(), func(t *statepb.OperationTree) bool { return t.GetTree() == string(name) })
}

// editTrees is edit for a change of the operation's trees.
func (c *change) editTrees(o *operation) {
	c.edit(o)
	trees := make([]*statepb.OperationTree, len(o.record.GetTrees()))
	for i, t := range o.record.GetTrees() {
		trees[i] = shallow(t)
	}
	o.record.Trees = trees
}

// count keeps the numbers of operations of the pools when an operation goes from
// one state to another. trees are those before the change.
func (c *change) count(o *operation, trees []*statepb.OperationTree, from, to lifecycle.State) {
	for i, in := range o.record.GetTrees() {
		t := c.trees[scheduling.TreeName(in.GetTree())]
		before, after := t.countOf(o.record, trees[i], from), t.countOf(o.record, in, to)
		t.count(scheduling.PoolName(trees[i].GetPool()), pooltree.Count{Operations: -before.Operations, Running: -before.Running})
		t.count(scheduling.PoolName(in.GetPool()), after)
		if before.Operations > 0 && (after.Operations == 0 || trees[i].GetPool() != in.GetPool()) {
			c.dropEphemeral(t, scheduling.PoolName(trees[i].GetPool()))
		}
	}
	if from.InProgress() != to.InProgress() {
		if to.InProgress() {
			c.inProgress++
		} else {
			c.inProgress--
		}
	}
}

// countOf returns what an operation in a state counts for in its pool.
func (t *tree) countOf(o *statepb.Operation, in *statepb.OperationTree, state lifecycle.State) pooltree.Count {
	var count pooltree.Count
	if state.InProgress() {
		count.Operations = 1
	}
	if state.CountsAsRunning() && in.GetAdmitted() && !t.lightweight(o.GetSpec(), in) {
		count.Running = 1
	}
	return count
}

// lightweight reports whether an operation does not count as running (F.16).
func (t *tree) lightweight(spec *statepb.OperationSpec, in *statepb.OperationTree) bool {
	if spec.GetType() != lifecycle.Vanilla {
		return false
	}
	e, err := t.pools.Effective(scheduling.PoolName(in.GetPool()))
	return err == nil && e.Lightweight
}

// admitRun refuses to run one more operation in a tree than its pools may.
func (c *change) admitRun(what string, o *operation, in *statepb.OperationTree) *refusal {
	t := c.trees[scheduling.TreeName(in.GetTree())]
	if t.lightweight(o.record.GetSpec(), in) {
		return nil
	}
	err := t.pools.AdmitRun(scheduling.PoolName(in.GetPool()), t.total)
	var limit *pooltree.LimitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		return refuse(CodePoolRunningLimit, "%s: tree %q: %v: it waits for one to end, or raise it", what, in.GetTree(), err)
	}
	return refusePool(fmt.Errorf("%s: %w", what, err))
}

// admitTrees lets an operation run in trees that it names: those that it is in, and
// that have room.
func (c *change) admitTrees(what string, o *operation, names []string) *refusal {
	for _, name := range names {
		i := o.treeIndex(scheduling.TreeName(name))
		if i < 0 {
			return refuse(CodeUnknownTree, "%s: the operation is not in tree %q", what, name)
		}
		if in := o.record.GetTrees()[i]; !in.GetAdmitted() {
			if refused := c.admitRun(what, o, in); refused != nil {
				return refused
			}
		}
	}
	c.editTrees(o)
	for _, name := range names {
		in := o.record.GetTrees()[o.treeIndex(scheduling.TreeName(name))]
		in.Admitted, in.PendingReason = true, ""
	}
	return nil
}

// admitOperation lets an operation that runs already run in more of its trees.
func (c *change) admitOperation(m *commandpb.AdmitOperation) *refusal {
	what := fmt.Sprintf("admit operation %q", m.GetOperationId())
	if err := c.fence(what, m.GetTerm()); err != nil {
		return err
	}
	o, refused := c.find(what, m.GetOperationId())
	if refused != nil {
		return refused
	}
	if !o.state.CountsAsRunning() {
		return refuse(CodeInvalidOperationState, "%s: it is %s and does not run", what, o.state)
	}
	before := o.record.GetTrees()
	if refused := c.admitTrees(what, o, m.GetTrees()); refused != nil {
		return refused
	}
	c.count(o, before, o.state, o.state)
	o.record.LastIndex = c.index
	c.emit(OperationChanged{ID: o.id(), From: o.state, To: o.state, Suspended: o.record.GetSuspended()})
	return nil
}

package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// optionPool is the key of the pool in a spec's options for a tree. It is not an option of package
// pooltree.
const optionPool = "pool"

// place is the position of an operation in one tree.
type place struct {
	tree   *tree
	record *statepb.OperationTree
	// create is the ephemeral pool that has to be created, or nil. pools holds the tree's pools,
	// including the pool to be created.
	create *pooltree.Pool
	pools  pooltree.Tree
}

// placeAll finds the place of an operation in each of its trees. It refuses the operation
// if any tree or pool does not exist, does not accept such operations, or is full.
func (c treeChange) placeAll(what string, spec *statepb.OperationSpec, user scheduling.User) ([]place, *refusal) {
	names := spec.GetPoolTrees()
	if len(names) == 0 {
		names = []string{string(c.defaultTree)}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.GetOptionsPerTree())) {
		if !slices.Contains(names, name) {
			return nil, refuse(CodeInvalidSpec, "%s: scheduling_options_per_pool_tree: %q: the operation is not in this tree: add the tree to pool_trees", what, name)
		}
	}
	places := make([]place, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if len(places) > 0 && places[len(places)-1].record.GetTree() == name {
			return nil, refuse(CodeInvalidSpec, "%s: pool_trees: %q is listed twice", what, name)
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
func (c treeChange) placeIn(what string, t *tree, spec *statepb.OperationSpec, user scheduling.User) (place, *refusal) {
	invalid := func(err error) *refusal {
		return refuse(CodeInvalidSpec, "%s: tree %q: %v", what, t.record.GetName(), err)
	}
	var options pooltree.OperationOptions
	if err := option.Read(&options, spec.GetOptions().AsMap()); err != nil {
		return place{}, invalid(err)
	}
	own, pool := spec.GetOptionsPerTree()[t.record.GetName()].AsMap(), spec.GetPool()
	if named, ok := own[optionPool]; ok {
		if pool, ok = named.(string); !ok {
			return place{}, invalid(errors.New("pool is not text"))
		}
		delete(own, optionPool)
	}
	if err := option.Read(&options, own); err != nil {
		return place{}, invalid(err)
	}
	if err := options.Validate(); err != nil {
		return place{}, invalid(err)
	}
	p := place{tree: t, record: &statepb.OperationTree{Tree: t.record.GetName(), Options: document(options)}}
	return p, c.enter(&p, what, t.pools, pool, spec, user)
}

// Bounded lists the settings of an operation that are bounded by its pools, with the values that
// apply instead.
func (s *State) Bounded(op *statepb.Operation) (all []string) {
	for _, in := range op.GetTrees() {
		t := s.trees[scheduling.TreeName(in.GetTree())]
		if len(in.GetOptions().GetFields()) == 0 || t == nil {
			continue
		}
		pool := scheduling.PoolName(in.GetPool())
		options, err := pooltree.ReadOperationOptions(in.GetOptions().AsMap())
		effective, unknown := t.pools.Effective(pool)
		if err != nil || unknown != nil {
			// An ended operation may have outlived its pool.
			continue
		}
		for _, line := range options.Bounded(pool, effective) {
			if len(op.GetTrees()) > 1 {
				line = fmt.Sprintf("tree %q: %s", in.GetTree(), line)
			}
			all = append(all, line)
		}
	}
	return all
}

// enter finds the pool that an operation names, or the default pool if it names none, and writes it
// to p.record. Before the call, p.record holds the operation's current pool, if it has one. The
// parameter pools holds the tree's pools without those that exist only for this operation.
func (c treeChange) enter(p *place, what string, pools pooltree.Tree, pool string, spec *statepb.OperationSpec, user scheduling.User) *refusal {
	t := p.tree
	p.pools = t.pools
	placed, err := pools.Place(scheduling.PoolName(pool), user, spec.Gang(t.pools.Settings()))
	switch {
	case errors.Is(err, pooltree.ErrUnknownPool):
		return refuse(CodeUnknownPool, "%s: tree %q: %v: create it or name another (there are %s)",
			what, t.record.GetName(), err, t.poolsLike(scheduling.PoolName(pool)))
	case err != nil:
		return refuse(CodeInvalidPool, "%s: tree %q: %v", what, t.record.GetName(), err)
	}
	from := scheduling.PoolName(p.record.GetPool())
	if placed.Pool == from {
		return nil
	}
	if p.create = placed.Create; p.create != nil {
		if refused := c.checkPools(what, t, len(placed.Tree.Pools()), t.bytes+int64(proto.Size(poolRecord(*p.create)))); refused != nil {
			return refused
		}
		if p.pools, err = t.pools.Create(*p.create); err != nil {
			return refuse(CodeInvalidPool, "%s: tree %q: %v", what, t.record.GetName(), err)
		}
	}
	if err := p.pools.AdmitStart(placed.Pool, from, t.total); err != nil {
		advice := "wait until one of them has ended or use another pool"
		if limit := (*pooltree.LimitError)(nil); errors.As(err, &limit) {
			advice += ", or have the limit raised: " + limit.Raise(scheduling.TreeName(t.record.GetName()))
		}
		return refuse(CodePoolFull, "%s: tree %q: %v: %s", what, t.record.GetName(), err, advice)
	}
	p.record.Pool = string(placed.Pool)
	return nil
}

// takePlaces creates the ephemeral pools of places and returns the places' records.
func (c treeChange) takePlaces(places []place) []*statepb.OperationTree {
	records := make([]*statepb.OperationTree, len(places))
	for i, p := range places {
		records[i] = p.record
		if p.create != nil {
			c.createEphemeral(p)
		}
	}
	return records
}

// createEphemeral creates a pool that is removed with its last operation.
func (c treeChange) createEphemeral(p place) {
	c.lastPool++
	p.create.ID = c.lastPool
	pools, err := p.tree.pools.Create(*p.create)
	if err != nil {
		panic(fmt.Sprintf("create ephemeral pool, although it passed validation: %v", err))
	}
	record := poolRecord(*p.create)
	record.CreatedTime, record.ModifiedTime = c.timestamp(), c.timestamp()
	d := draft{tree: p.tree, at: c.change, record: shallow(p.tree.record)}
	i, _ := d.find(record.GetName())
	d.record.Pools = slices.Insert(slices.Clone(d.record.GetPools()), i, record)
	c.replaceTree(p.tree, d.record, pools)
}

// dropEphemeral removes an ephemeral pool once its last operation has left it.
func (c *change) dropEphemeral(t *tree, pool scheduling.PoolName) {
	p, ok := t.pools.Pool(pool)
	if !ok || p.Ephemeral == "" || t.total[pool].Operations > 0 {
		return
	}
	pools, err := t.pools.Remove(pool, 0)
	if err != nil {
		// The pool has got a child, so it is removed only once the child is gone.
		return
	}
	d := draft{tree: t, at: c, record: shallow(t.record)}
	i, _ := d.find(string(pool))
	d.record.Pools = slices.Delete(slices.Clone(d.record.GetPools()), i, i+1)
	d.record.Volumes = volumesNow(d.record.GetVolumes(), pools)
	d.record.Waste = foldedWaste(d.record.GetWaste(), t.pools, pools)
	c.replaceTree(t, d.record, pools)
}

func (c *change) replaceTree(t *tree, record *statepb.PoolTree, pools pooltree.Tree) {
	record.Revision++
	record.ModifiedTime = c.timestamp()
	t.replace(record, pools)
	c.emit(TreeChanged{Tree: scheduling.TreeName(record.GetName())})
}

// treeIndex returns the index of a tree among those of the operation, or -1 if the operation is not
// in the tree.
func (v *version) treeIndex(name scheduling.TreeName) int {
	return slices.IndexFunc(v.record.GetTrees(), func(t *statepb.OperationTree) bool { return t.GetTree() == string(name) })
}

// editTrees does what edit does, and also copies the operation's trees, so that they can be
// changed.
func (c *change) editTrees(o *operation) {
	c.edit(o)
	trees := make([]*statepb.OperationTree, len(o.record.GetTrees()))
	for i, t := range o.record.GetTrees() {
		trees[i] = shallow(t)
	}
	o.record.Trees = trees
}

// count updates the pools' numbers of operations when an operation goes from one state to another.
// The parameter trees holds the operation's trees before the change.
func (c *change) count(o *operation, trees []*statepb.OperationTree, from, to lifecycle.State) {
	for i, in := range o.record.GetTrees() {
		t := c.trees[scheduling.TreeName(in.GetTree())]
		before, after := t.countOf(o, trees[i], from), t.countOf(o, in, to)
		was, is := scheduling.PoolName(trees[i].GetPool()), scheduling.PoolName(in.GetPool())
		t.count(was, pooltree.Count{}.Minus(before))
		t.count(is, after)
		if before.Operations > 0 && (after.Operations == 0 || was != is) {
			c.dropEphemeral(t, was)
		}
	}
	switch {
	case to.InProgress() && !from.InProgress():
		c.inProgress = append(c.inProgress, o)
	case from.InProgress() && !to.InProgress():
		if i, ok := slices.BinarySearchFunc(c.inProgress, o.sequence, bySequence); ok {
			c.inProgress = slices.Delete(c.inProgress, i, i+1)
		}
	}
}

// countOf returns the contribution of an operation in a state to the counts of its pool.
func (t *tree) countOf(o *operation, in *statepb.OperationTree, state lifecycle.State) pooltree.Count {
	var count pooltree.Count
	if state.InProgress() {
		count.Operations, count.Bytes = 1, o.weight
	}
	if state.CountsAsRunning() && in.GetAdmitted() && !lightweight(t.pools, o.record.GetSpec(), in) {
		count.Running = 1
	}
	if Waits(state, in) {
		count.Waiting = 1
	}
	return count
}

// Waits reports whether an operation in a state waits for the pool of one of its trees.
func Waits(state lifecycle.State, in *statepb.OperationTree) bool {
	return !in.GetAdmitted() && (state == lifecycle.Pending || state == lifecycle.Materializing || state == lifecycle.Running)
}

// lightweight reports whether an operation does not count as running (F.16).
func lightweight(pools pooltree.Tree, spec *statepb.OperationSpec, in *statepb.OperationTree) bool {
	return spec.GetType() == lifecycle.Vanilla && pools.Lightweight(scheduling.PoolName(in.GetPool()))
}

// admitRun refuses to run one more operation in a tree than its pools allow. The parameter from is
// the pool in which the operation is running now, or "".
func admitRun(what string, pools pooltree.Tree, from scheduling.PoolName, counts pooltree.Counts, spec *statepb.OperationSpec, in *statepb.OperationTree) *refusal {
	if lightweight(pools, spec, in) {
		return nil
	}
	err := pools.AdmitRun(scheduling.PoolName(in.GetPool()), from, counts)
	if err == nil {
		return nil
	}
	return refuse(CodePoolRunningLimit, "%s: tree %q: %v: the operation waits for another one to end; raise the limit to run it sooner", what, in.GetTree(), err)
}

// admitTrees admits an operation to the named trees, if it is in all of these trees and they have
// room.
func (c treeChange) admitTrees(what string, o *operation, names []string) *refusal {
	for _, name := range names {
		i := o.treeIndex(scheduling.TreeName(name))
		if i < 0 {
			return refuse(CodeUnknownTree, "%s: the operation is not in tree %q", what, name)
		}
		if in := o.record.GetTrees()[i]; !in.GetAdmitted() {
			t := c.trees[scheduling.TreeName(name)]
			if refused := admitRun(what, t.pools, "", t.total, o.record.GetSpec(), in); refused != nil {
				return refused
			}
		}
	}
	c.editTrees(o)
	for _, name := range names {
		in := o.record.GetTrees()[o.treeIndex(scheduling.TreeName(name))]
		in.Admitted, in.PendingReason = true, ""
	}
	o.record.PendingReason = pendingText(o.record)
	return nil
}

// admitOperation admits a running operation to more of its trees.
func (c treeChange) admitOperation(what string, o *operation, m *commandpb.AdmitOperation) *refusal {
	if !o.state.CountsAsRunning() || o.state.Finishing() {
		return refuse(CodeInvalidOperationState, "%s: it is %s, not running", what, o.state)
	}
	if len(m.GetTrees()) == 0 {
		return refuse(CodeInvalidCommand, "%s: no tree given", what)
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

package state

import (
	"fmt"
	"math"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// maxTrees bounds the pool trees of a cluster: each runs an engine.
const maxTrees = 100

// namesOf returns the names of trees, sorted.
func namesOf(trees map[scheduling.TreeName]*tree) []string {
	return listed(trees, func(t *tree) string { return t.record.GetName() })
}

// createTree creates a tree with the pool scheduling.DefaultPool.
func (c treeChange) createTree(m *commandpb.CreateTree) *refusal {
	name := scheduling.TreeName(m.GetTree())
	what := fmt.Sprintf("create pool tree %q", name)
	invalid := pooltree.ValidateName(scheduling.PoolName(name))
	switch {
	case invalid != nil:
		return refuse(CodeInvalidTree, "%s: invalid name: %v", what, invalid)
	case c.trees[name] != nil:
		return refuse(CodeTreeExists, "%s: a tree with this name exists: choose another name, or set the options of that tree", what)
	case len(c.trees) >= maxTrees:
		return refuse(CodeInvalidTree, "%s: there are already %d trees, the limit: remove one", what, len(c.trees))
	}
	options, err := pooltree.ReadTreeOptions(m.GetOptions().AsMap())
	if err != nil {
		return refuse(CodeInvalidTree, "%s: %v", what, err)
	}
	t, err := newTree(name, options, c.lastPool+1)
	if err != nil {
		return refuse(CodeInvalidTree, "%s: %v", what, err)
	}
	if refused := RightsIn(c.State).checkRights(what, t.pools); refused != nil {
		return refused
	}
	if refused := c.checkForest(what, &tree{record: &statepb.PoolTree{Name: string(name)}}, t.bytes); refused != nil {
		return refused
	}
	if refused := c.checkFilter(name, t.pools.Settings().NodesFilter); refused != nil {
		return refused
	}
	c.lastPool++
	t.record.CreatedTime, t.record.ModifiedTime = c.timestamp(), c.timestamp()
	c.trees[name] = t
	c.sortNodes()
	c.result.Value = &commandpb.Result_Tree{Tree: &commandpb.TreeResult{Revision: t.record.GetRevision()}}
	c.emit(TreeChanged{Tree: name})
	return nil
}

// removeTree removes a tree without operations and without jobs on its nodes.
func (c treeChange) removeTree(m *commandpb.RemoveTree) *refusal {
	what := fmt.Sprintf("remove pool tree %q", m.GetTree())
	name := scheduling.TreeName(m.GetTree())
	switch n := orEmpty(c.trees, name).total[scheduling.RootPool].Operations; {
	case c.trees[name] == nil:
		return refuse(CodeUnknownTree, "%s: no such tree: there are %s", what, quoted(namesOf(c.trees)))
	case name == c.defaultTree:
		return refuse(CodeTreeInUse, "%s: it is the default tree: make another one the default first", what)
	case n > 0:
		return refuse(CodeTreeInUse, "%s: it has %d operations: wait for them or abort them", what, n)
	}
	for id, n := range sorted(c.nodes) {
		if n.record.GetTree() == string(name) && len(n.allocations) > 0 {
			return refuse(CodeTreeInUse, "%s: node %q in it runs %d jobs: wait for them or abort them", what, id, len(n.allocations))
		}
	}
	if refused := c.checkPoolsOfStores(what, name, nil); refused != nil {
		return refused
	}
	delete(c.trees, name)
	c.sortNodes()
	c.emit(TreeChanged{Tree: name, Removed: true})
	return nil
}

// setDefaultTree sets the tree of operations that name none.
func (c treeChange) setDefaultTree(m *commandpb.SetDefaultTree) *refusal {
	what := fmt.Sprintf("set default tree %q", m.GetTree())
	name := scheduling.TreeName(m.GetTree())
	if c.trees[name] == nil {
		return refuse(CodeUnknownTree, "%s: no such tree: there are %s", what, quoted(namesOf(c.trees)))
	}
	c.defaultTree = name
	return nil
}

// checkFilter refuses a node filter if it shares nodes with the filter of another tree (R2): a
// known node matches both, or one filter includes, or may include, the other. It also refuses a
// filter that removes nodes with jobs from the tree.
func (c treeChange) checkFilter(name scheduling.TreeName, filter pooltree.Filter) *refusal {
	for other, t := range sorted(c.trees) {
		if other == name {
			continue
		}
		theirs := t.pools.Settings().NodesFilter
		inner, knownInner := filter.Within(theirs)
		outer, knownOuter := theirs.Within(filter)
		if !inner && !outer && (!knownInner || !knownOuter) {
			return refuse(CodeTreesOverlap, "set nodes_filter of tree %q to %q: trees %q and %q (filter %q) may select the same nodes: "+
				"simplify the filters, for example require a tag in one and exclude it in the other", name, filter, name, other, theirs)
		}
		if inner || outer {
			return refuse(CodeTreesOverlap, "set nodes_filter of tree %q to %q: trees %q and %q (filter %q) would share nodes: "+
				"first set a filter of %q that excludes them", name, filter, name, other, theirs, other)
		}
		for id, n := range sorted(c.nodes) {
			if tags := n.record.GetTags(); filter.Match(tags) && theirs.Match(tags) {
				return refuse(CodeTreesOverlap, "set nodes_filter of tree %q to %q: node %q with tags %v would belong to trees %q and %q (filter %q)",
					name, filter, id, tags, name, other, theirs)
			}
		}
	}
	for id, n := range sorted(c.nodes) {
		was, will := n.record.GetTree() == string(name), filter.Match(n.record.GetTags())
		if was && !will && len(n.allocations) > 0 {
			return refuse(CodeTreeInUse, "set nodes_filter of tree %q to %q: node %q would leave the tree, but runs %d jobs in it: drain it first",
				name, filter, id, len(n.allocations))
		}
	}
	return nil
}

// treeOf returns the tree whose filter matches a node's tags; "" if none does.
func (c *change) treeOf(what string, tags []string) (string, *refusal) {
	tree := scheduling.TreeName("")
	for name, t := range sorted(c.trees) {
		filter := t.pools.Settings().NodesFilter
		if !filter.Match(tags) {
			continue
		}
		if tree != "" {
			return "", refuse(CodeTreesOverlap, "%s: its tags %v match the trees %q and %q (filters %q and %q): change its tags or a filter",
				what, tags, tree, name, c.trees[tree].pools.Settings().NodesFilter, filter)
		}
		tree = name
	}
	return string(tree), nil
}

// sortNodes moves each node to the tree whose filter matches it, after filters have changed.
// checkFilter has ensured that no node matches two filters.
func (c treeChange) sortNodes() {
	for _, n := range sorted(c.nodes) {
		tree, refused := c.treeOf("sort nodes", n.record.GetTags())
		if refused != nil {
			panic(fmt.Sprintf("%v: the filters were checked before", refused))
		}
		if tree != n.record.GetTree() {
			c.changeNode(n, func(record *statepb.Node) { record.Tree = tree })
		}
	}
}

// checkpointVolumes records the state from which the next leader of a tree continues.
func (c treeChange) checkpointVolumes(m *commandpb.CheckpointVolumes) *refusal {
	what := fmt.Sprintf("checkpoint volumes of tree %q", m.GetTree())
	if refused := c.fence(what, m.GetTerm()); refused != nil {
		return refused
	}
	t, _, refused := c.findTree(what, m.GetTree())
	if refused != nil {
		return refused
	}
	for _, v := range m.GetVolumes() {
		for _, volume := range []float64{v.GetUserSlots(), float64(v.GetCpuHundredths()), v.GetGpu(), v.GetMemory(), v.GetNetwork(), v.GetLastShareRatio()} {
			if !amount(volume) {
				return refuse(CodeInvalidCommand, "%s: pool %q: %v is not a volume", what, v.GetPool(), volume)
			}
		}
		if rest := v.GetCpuRest(); math.IsNaN(rest) || math.IsInf(rest, 0) {
			return refuse(CodeInvalidCommand, "%s: pool %q: cpu_rest %v is not a finite number", what, v.GetPool(), rest)
		}
		if ratio := v.GetLastShareRatio(); ratio > 1+resource.LargeEpsilon {
			return refuse(CodeInvalidCommand, "%s: pool %q: last share ratio %v is more than the whole cluster", what, v.GetPool(), ratio)
		}
	}
	if err := checkSuccession(m.GetClocks(), m.GetAge()); err != nil {
		return refuse(CodeInvalidCommand, "%s: %v", what, err)
	}
	record := shallow(t.record)
	// The leader sets the time of the volumes; it does not depend on the clocks of other
	// proposers. Trees without volumes have no time.
	if len(m.GetVolumes()) > 0 {
		record.Volumes, record.VolumesTime = volumesNow(m.GetVolumes(), t.pools), m.GetTime()
		if m.GetTime() == nil {
			record.VolumesTime = c.timestamp()
		}
	}
	record.Clocks, record.Age = c.clocksNow(t, m.GetClocks()), ageNow(record.GetAge(), m.GetAge())
	t.record = record
	return nil
}

package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// editTree applies edits to a tree: all of them, or none.
func (c treeChange) editTree(m *commandpb.EditTree) *refusal {
	const what = "edit pool tree"
	t, name, refused := c.findTree(what, m.GetTree())
	if refused != nil {
		return refused
	}
	if expected := m.GetExpectedRevision(); expected != 0 && expected != t.record.GetRevision() {
		return refuse(CodeRevisionMismatch, "%s: tree %q is at revision %d, not %d: read it again and repeat the change",
			what, name, t.record.GetRevision(), expected)
	}
	if len(m.GetEdits()) == 0 {
		return refuse(CodeInvalidCommand, "%s: tree %q: there is nothing to change", what, name)
	}
	d := draft{tree: t, at: c.change, record: shallow(t.record), renamed: make(map[string]string), lastPool: c.lastPool}
	d.record.Pools = slices.Clone(d.record.GetPools())
	for _, e := range m.GetEdits() {
		if refused := d.edit(e); refused != nil {
			return refused
		}
	}
	pools, err := t.pools.Edit(func(pool scheduling.PoolName) int64 { return t.total[pool].Operations }, d.edits...)
	if err != nil {
		return refusePool(err)
	}
	if refused := RightsIn(c.State).checkRights(what, pools); refused != nil {
		return refused
	}
	if refused := c.checkPoolsOfStores(what, name, &pools); refused != nil {
		return refused
	}
	if filter := pools.Settings().NodesFilter; filter.String() != t.pools.Settings().NodesFilter.String() {
		if refused := c.checkFilter(name, filter); refused != nil {
			return refused
		}
	}
	d.record.Options = document(pools.Options())
	if refused := c.checkPools(what, t, len(d.record.GetPools()), t.bytesOf(d.record)); refused != nil {
		return refused
	}
	c.takeEdit(t, name, &d, pools)
	return nil
}

// takeEdit replaces a tree by its edited version.
func (c treeChange) takeEdit(t *tree, name scheduling.TreeName, d *draft, pools pooltree.Tree) {
	d.record.Revision++
	d.record.ModifiedTime = c.timestamp()
	was := t.pools
	t.replace(d.record, pools)
	c.lastPool = d.lastPool
	moved := make(map[string]string, len(d.renamed))
	for now, was := range d.renamed {
		moved[was] = now
	}
	t.record.Waste, t.record.Age = foldedWaste(t.record.GetWaste(), was, pools), nil
	c.beginVolumes(t)
	var renamed []*operation
	for _, o := range c.order {
		if i := o.treeIndex(name); i >= 0 && o.state.InProgress() && moved[o.record.GetTrees()[i].GetPool()] != "" {
			c.editTrees(o)
			o.record.Trees[i].Pool = moved[o.record.GetTrees()[i].GetPool()]
			renamed = append(renamed, o)
		}
	}
	c.recount(t, name)
	c.sortNodes()
	c.emit(TreeChanged{Tree: name, Former: d.renamed})
	for _, o := range renamed {
		c.emit(OperationChanged{ID: o.id(), From: o.state, To: o.state, Suspended: o.record.GetSuspended()})
	}
	for _, p := range d.record.GetPools() {
		// An ephemeral pool without operations may no longer have a reason to stay.
		c.dropEphemeral(t, scheduling.PoolName(p.GetName()))
	}
	c.result.Value = &commandpb.Result_Tree{Tree: &commandpb.TreeResult{Revision: t.record.GetRevision()}}
}

// beginVolumes keeps the volumes of the remaining pools. If the tree has no volumes yet, the
// volumes of pools with integral guarantees start at 0 now, so that a leader that begins before the
// first checkpoint accrues volume from the time of this command.
func (c treeChange) beginVolumes(t *tree) {
	t.record.Volumes = volumesNow(t.record.GetVolumes(), t.pools)
	if len(t.record.GetVolumes()) > 0 {
		return
	}
	for _, p := range t.pools.Pools() {
		if p.Options.Guarantee() != pooltree.NoIntegral {
			t.record.Volumes = append(t.record.Volumes, &statepb.PoolVolume{Pool: string(p.Name), PoolId: uint64(p.ID)})
			t.record.VolumesTime = c.timestamp()
		}
	}
}

// volumesNow returns the volumes of the remaining pools. Each pool is listed once, under its
// current name.
func volumesNow(volumes []*statepb.PoolVolume, pools pooltree.Tree) []*statepb.PoolVolume {
	if len(volumes) == 0 {
		return nil
	}
	names := poolNames(pools)
	var out []*statepb.PoolVolume
	for _, v := range volumes {
		id, name := scheduling.PoolID(v.GetPoolId()), scheduling.PoolName(v.GetPool())
		if id != 0 {
			name = names[id]
		}
		if p, found := pools.Pool(name); found {
			v = shallow(v)
			v.Pool, v.PoolId = string(p.Name), uint64(p.ID)
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b *statepb.PoolVolume) int { return cmp.Compare(a.GetPool(), b.GetPool()) })
	return slices.CompactFunc(out, func(a, b *statepb.PoolVolume) bool { return a.GetPool() == b.GetPool() })
}

// recount counts the operations of a tree again, because the options of its pools determine which
// operations count as running.
func (c treeChange) recount(t *tree, name scheduling.TreeName) {
	t.immediate, t.total = make(map[scheduling.PoolName]pooltree.Count), make(pooltree.Counts)
	for _, o := range c.order {
		if i := o.treeIndex(name); i >= 0 {
			in := o.record.GetTrees()[i]
			t.count(scheduling.PoolName(in.GetPool()), t.countOf(o, in, o.state))
		}
	}
}

// draft is a tree while it is being edited. It holds the changed record, and the list of the
// changes as edits of package pooltree.
type draft struct {
	tree   *tree
	at     *change
	record *statepb.PoolTree
	edits  []pooltree.Edit
	// renamed maps the new names of renamed pools to their former names.
	renamed map[string]string
	// lastPool is the latest id given to a pool.
	lastPool scheduling.PoolID
}

func (d *draft) edit(e *commandpb.TreeEdit) *refusal {
	switch e := e.GetEdit().(type) {
	case *commandpb.TreeEdit_Options:
		return d.setOptions(e.Options.AsMap())
	case *commandpb.TreeEdit_Change:
		options, err := changed(d.record.GetOptions(), pooltree.TreeOptions{}, e.Change.GetValues())
		if err != nil {
			return refuse(CodeInvalidTree, "set pool tree %q: %v", d.record.GetName(), err)
		}
		return d.setOptions(options)
	case *commandpb.TreeEdit_Create:
		return d.put("create", e.Create)
	case *commandpb.TreeEdit_Set:
		return d.put("set", e.Set)
	case *commandpb.TreeEdit_ChangePool:
		return d.changePool(e.ChangePool)
	case *commandpb.TreeEdit_Rename:
		return d.rename(e.Rename)
	case *commandpb.TreeEdit_Remove:
		d.edits = append(d.edits, pooltree.Edit{Remove: scheduling.PoolName(e.Remove)})
		i, found := d.find(e.Remove)
		if !found && e.Remove != string(scheduling.RootPool) {
			return d.unknown("remove", e.Remove)
		}
		if found {
			d.record.Pools = slices.Delete(d.record.Pools, i, i+1)
			delete(d.renamed, e.Remove)
		}
		return nil
	}
	return refuse(CodeInvalidCommand, "edit pool tree: an edit is empty")
}

func (d *draft) setOptions(document map[string]any) *refusal {
	options, err := pooltree.ReadTreeOptions(document)
	if err != nil {
		return refuse(CodeInvalidTree, "set pool tree %q: %v", d.record.GetName(), err)
	}
	// A later edit of this command starts from these options.
	d.record.Options = structOf(document)
	d.edits = append(d.edits, pooltree.Edit{Options: &options})
	return nil
}

// put creates a pool or replaces its settings.
func (d *draft) put(verb string, p *statepb.Pool) *refusal {
	if p == nil {
		return refuse(CodeInvalidCommand, "%s pool: no pool is given", verb)
	}
	read, err := readPool(p)
	if err != nil {
		return refuse(CodeInvalidPool, "%s %v", verb, err)
	}
	read.Parent = cmp.Or(read.Parent, scheduling.RootPool)
	read.Ephemeral = ""
	i, found := d.find(p.GetName())
	if verb == "create" {
		d.lastPool++
		read.ID = d.lastPool
	} else if found {
		read.ID = scheduling.PoolID(d.record.GetPools()[i].GetId())
	}
	record := poolRecord(read)
	record.CreatedTime, record.ModifiedTime = d.at.timestamp(), d.at.timestamp()
	if verb == "create" {
		d.edits = append(d.edits, pooltree.Edit{Create: &read})
		if !found {
			d.record.Pools = slices.Insert(d.record.Pools, i, record)
		}
		return nil
	}
	d.edits = append(d.edits, pooltree.Edit{Set: &read})
	if !found {
		return d.unknown("set", p.GetName())
	}
	if hub, user, is := strings.Cut(p.GetName(), "$"); is {
		return refuse(CodeInvalidPool, "set pool %q: it is ephemeral, made for user %q: set ephemeral_subpool_config of pool %q, which applies to new ephemeral pools",
			p.GetName(), user, hub)
	}
	record.CreatedTime = d.record.GetPools()[i].GetCreatedTime()
	d.record.Pools[i] = record
	return nil
}

func (d *draft) changePool(m *commandpb.PoolChange) *refusal {
	i, found := d.find(m.GetName())
	if !found {
		return d.unknown("set", m.GetName())
	}
	p := d.record.GetPools()[i]
	options, err := changed(p.GetOptions(), pooltree.PoolOptions{}, withoutFormer(m.GetOptions().GetValues()))
	if err != nil {
		return refuse(CodeInvalidPool, "set pool %q: %v", m.GetName(), err)
	}
	next := &statepb.Pool{Name: p.GetName(), Parent: p.GetParent(), Options: structOf(options)}
	if m.Parent != nil {
		next.Parent = m.GetParent()
	}
	return d.put("set", next)
}

func (d *draft) rename(m *commandpb.RenamePool) *refusal {
	d.edits = append(d.edits, pooltree.Edit{Rename: &pooltree.Rename{From: scheduling.PoolName(m.GetFrom()), To: scheduling.PoolName(m.GetTo())}})
	i, found := d.find(m.GetFrom())
	if !found {
		return d.unknown("rename", m.GetFrom())
	}
	if _, taken := d.find(m.GetTo()); taken {
		return nil // pooltree refuses this edit, and with it the command.
	}
	for j, p := range d.record.GetPools() {
		switch {
		case j == i:
			p = shallow(p)
			p.Name, p.ModifiedTime = m.GetTo(), d.at.timestamp()
		case p.GetParent() == m.GetFrom():
			p = shallow(p)
			p.Parent = m.GetTo()
		}
		d.record.Pools[j] = p
	}
	slices.SortFunc(d.record.Pools, func(a, b *statepb.Pool) int { return cmp.Compare(a.GetName(), b.GetName()) })
	d.renameDefaultParent(m)
	was, again := d.renamed[m.GetFrom()]
	if !again {
		was = m.GetFrom()
	}
	delete(d.renamed, m.GetFrom())
	d.renamed[m.GetTo()] = was
	return nil
}

// renameDefaultParent updates default_parent_pool of the tree after a rename, so that a later
// change of other options keeps the new name.
func (d *draft) renameDefaultParent(m *commandpb.RenamePool) {
	options, err := pooltree.ReadTreeOptions(d.record.GetOptions().AsMap())
	if err != nil || options.DefaultParentPool == nil || *options.DefaultParentPool != m.GetFrom() {
		return
	}
	to := m.GetTo()
	options.DefaultParentPool = &to
	d.record.Options = document(options)
}

func (d *draft) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.record.GetPools(), name, func(p *statepb.Pool, name string) int { return cmp.Compare(p.GetName(), name) })
}

func (d *draft) unknown(verb, name string) *refusal {
	what := fmt.Sprintf("%s pool %q", verb, name)
	if name == string(scheduling.RootPool) {
		return refusePool(fmt.Errorf("%s: %w: set the options of the tree", what, pooltree.ErrRootPool))
	}
	return d.tree.unknownPool(what, scheduling.PoolName(name))
}

// changed returns the document of options, with the values at some paths changed.
func changed(options *structpb.Struct, schema any, changes map[string]*structpb.Value) (map[string]any, error) {
	document := options.AsMap()
	for path, value := range sorted(changes) {
		if err := option.Put(document, schema, path, value.AsInterface()); err != nil {
			return nil, err
		}
	}
	return document, nil
}

// structOf converts a document of options. The conversion cannot fail, because the options were
// read before.
func structOf(document map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(document)
	if err != nil {
		panic(fmt.Sprintf("write options: %v: they were read before", err))
	}
	return s
}

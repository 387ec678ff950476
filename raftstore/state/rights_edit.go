package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/pooltree"
)

// mayEdit allows edits of a tree to those who administer, for each edit, the pool above the one that
// changes: above both places of a pool that moves. Only operators change the options of the tree.
func mayEdit(r Rights, who access.Who, m *commandpb.EditTree) error {
	for err := range r.deniedEdits(who, m) {
		return err
	}
	return nil
}

// Edits says why a subject may not make edits of a tree: for each edit that is denied, an error of type
// *access.Denied.
func (r Rights) Edits(by *commandpb.Subject, m *commandpb.EditTree) []error {
	return slices.Collect(r.deniedEdits(r.Who(by), m))
}

func (r Rights) deniedEdits(who access.Who, m *commandpb.EditTree) iter.Seq[error] {
	return func(yield func(error) bool) {
		name := cmp.Or(scheduling.TreeName(m.GetTree()), r.defaultTree)
		t := r.trees[name]
		if who.Operator || t == nil {
			return
		}
		a := administration{who: who, name: name, pools: t.pools, moved: make(map[string]string)}
		for _, edit := range m.GetEdits() {
			if err := a.allow(edit.GetEdit()); err != nil && !yield(err) {
				return
			}
		}
	}
}

// administration decides about the edits of one command, one after another. Rights are those before
// the command. An edit can change only pools that are below one that the user administers, so no
// edit gives the user a right that matters to a later one.
type administration struct {
	who   access.Who
	name  scheduling.TreeName
	pools pooltree.Tree
	// moved maps pools that an earlier edit has created, moved or renamed to their parent.
	moved map[string]string
}

func (a *administration) allow(edit any) error {
	switch e := edit.(type) {
	case *commandpb.TreeEdit_Create:
		return a.put("create", e.Create.GetName(), e.Create.GetParent())
	case *commandpb.TreeEdit_Set:
		return a.change("change", e.Set.GetName(), e.Set)
	case *commandpb.TreeEdit_ChangePool:
		if e.ChangePool.Parent == nil {
			return a.below("change", e.ChangePool.GetName(), a.parent(e.ChangePool.GetName()))
		}
		return a.change("move", e.ChangePool.GetName(), &statepb.Pool{Name: e.ChangePool.GetName(), Parent: e.ChangePool.GetParent()})
	case *commandpb.TreeEdit_Rename:
		parent := a.parent(e.Rename.GetFrom())
		err := a.below("rename", e.Rename.GetFrom(), parent)
		return cmp.Or(err, a.put("rename", e.Rename.GetTo(), parent))
	case *commandpb.TreeEdit_Remove:
		return a.below("remove", e.Remove, a.parent(e.Remove))
	}
	return &access.Denied{User: a.who.User, What: fmt.Sprintf("change the options of pool tree %q", a.name)}
}

// change allows an edit of a pool that leaves it below p.Parent.
func (a *administration) change(verb, pool string, p *statepb.Pool) error {
	err := a.below(verb, pool, a.parent(pool))
	return cmp.Or(err, a.put(verb, pool, p.GetParent()))
}

// put allows a pool below a parent, where it is from now on; also if that is denied, to judge the edits after it.
func (a *administration) put(verb, pool, parent string) error {
	err := a.below(verb, pool, parent)
	a.moved[pool] = parent
	return err
}

// parent returns the parent of a pool; the root if there is no such pool.
func (a *administration) parent(pool string) string {
	if parent, ok := a.moved[pool]; ok {
		return parent
	}
	p, _ := a.pools.Pool(scheduling.PoolName(pool))
	return string(p.Parent)
}

// below returns an error unless the user administers the parent of a pool. Of a parent that earlier
// edits have made, the first pool above it that was there before counts.
func (a *administration) below(verb, pool, parent string) error {
	for range len(a.moved) {
		above, ok := a.moved[parent]
		if !ok {
			break
		}
		parent = above
	}
	above := cmp.Or(scheduling.PoolName(parent), scheduling.RootPool)
	if a.pools.Gives(access.Administer, a.who, above) {
		return nil
	}
	return &access.Denied{
		User: a.who.User, What: fmt.Sprintf("%s pool %q", verb, pool), Right: access.Administer,
		Tree: a.name, Pool: above, Holders: a.pools.Holders(access.Administer, above),
	}
}

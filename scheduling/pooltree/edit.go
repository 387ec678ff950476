package pooltree

import (
	"cmp"
	"fmt"
	"slices"

	"weir/scheduling"
)

// Edit is one change of a tree. Exactly one field is set.
type Edit struct {
	// Options replaces the options of the tree.
	Options *TreeOptions
	// Create creates a pool.
	Create *Pool
	// Set replaces the parent and the options of a pool.
	Set *Pool
	// Rename gives a pool another name.
	Rename *Rename
	// Remove removes an empty pool.
	Remove scheduling.PoolName
}

// Rename changes the name of a pool.
type Rename struct{ From, To scheduling.PoolName }

// Edit returns the tree after all of the edits. Only the final tree is validated, so intermediate
// ones may be invalid. The function `operations` returns how many operations in a pool of t, and in
// all pools below it, have not ended.
func (t Tree) Edit(operations func(scheduling.PoolName) int64, edits ...Edit) (Tree, error) {
	next := Tree{options: t.options, settings: t.settings, pools: slices.Clone(t.pools)}
	was := make(map[scheduling.PoolName]scheduling.PoolName)
	for _, e := range edits {
		if err := next.apply(e, was, operations); err != nil {
			return t, err
		}
	}
	if err := next.validate(); err != nil {
		return t, err
	}
	return next, nil
}

// apply makes one change in place. The parameter `was` maps the new name of each pool that an
// earlier edit renamed to its name in the original tree.
func (t *Tree) apply(e Edit, was map[scheduling.PoolName]scheduling.PoolName, operations func(scheduling.PoolName) int64) error {
	switch {
	case e.Options != nil:
		t.options, t.settings = *e.Options, e.Options.Settings()
		return nil
	case e.Create != nil:
		return t.create(*e.Create)
	case e.Set != nil:
		return t.set(*e.Set)
	case e.Rename != nil:
		return t.rename(e.Rename.From, e.Rename.To, was)
	}
	return t.remove(e.Remove, operations(cmp.Or(was[e.Remove], e.Remove)))
}

func (t *Tree) create(p Pool) error {
	i, found := t.find(p.Name)
	if found || p.Name == scheduling.RootPool {
		return fmt.Errorf("create pool %q: %w", p.Name, t.Taken(p.Name))
	}
	t.pools = slices.Insert(t.pools, i, p)
	return p.checkSubpools()
}

// Taken returns the error for a name in use. It wraps ErrPoolExists, and says where the pool of
// that name is and what to do.
func (t Tree) Taken(name scheduling.PoolName) error {
	i, found := t.find(name)
	if !found {
		return fmt.Errorf("%w as the root of the tree: choose another name", ErrPoolExists)
	}
	return fmt.Errorf("%w, below %q: choose another name, or set or move that pool", ErrPoolExists, t.pools[i].Parent)
}

func (t *Tree) set(p Pool) error {
	i, err := t.existing("set", p.Name)
	if err != nil {
		return err
	}
	t.pools[i] = p
	return p.checkSubpools()
}

func (t *Tree) rename(from, to scheduling.PoolName, was map[scheduling.PoolName]scheduling.PoolName) error {
	i, err := t.existing("rename", from)
	if err != nil {
		return err
	}
	if t.Has(to) {
		return fmt.Errorf("rename pool %q to %q: %w", from, to, t.Taken(to))
	}
	t.pools[i].Name = to
	for j := range t.pools {
		if t.pools[j].Parent == from {
			t.pools[j].Parent = to
		}
	}
	if t.settings.DefaultParentPool == from {
		name := string(to)
		t.options.DefaultParentPool = &name
		t.settings = t.options.Settings()
	}
	slices.SortFunc(t.pools, byName)
	original := cmp.Or(was[from], from)
	delete(was, from)
	was[to] = original
	return nil
}

func (t *Tree) remove(name scheduling.PoolName, operations int64) error {
	i, err := t.existing("remove", name)
	if err != nil {
		return err
	}
	if children := t.Children(name); len(children) > 0 {
		return fmt.Errorf("remove pool %q: %w: it has %d pools, the first is %q: remove or move them",
			name, ErrPoolInUse, len(children), children[0])
	}
	if operations > 0 {
		return fmt.Errorf("remove pool %q: %w: it has %d operations: wait for them, abort them or move them",
			name, ErrPoolInUse, operations)
	}
	t.pools = slices.Delete(t.pools, i, i+1)
	return nil
}

func (t *Tree) existing(what string, name scheduling.PoolName) (int, error) {
	if name == scheduling.RootPool {
		return 0, fmt.Errorf("%s pool %q: %w", what, name, ErrRootPool)
	}
	i, found := t.find(name)
	if !found {
		return 0, fmt.Errorf("%s pool %q: %w", what, name, ErrUnknownPool)
	}
	return i, nil
}

// Create returns the tree with one more pool.
func (t Tree) Create(p Pool) (Tree, error) {
	if p.Options.StrongGuarantee != nil || p.Options.Integral != nil {
		return t.Edit(nil, Edit{Create: &p})
	}
	// A new pool without guarantees cannot make other pools invalid, so check only
	// the new one.
	next := Tree{options: t.options, settings: t.settings, pools: slices.Clone(t.pools)}
	if err := next.create(p); err != nil {
		return t, err
	}
	if err := next.check(&p); err != nil {
		return t, fmt.Errorf("pool %q: %w", p.Name, err)
	}
	return next, nil
}

// Remove returns the tree without a pool. The parameter operations is the number of operations in
// the pool that have not ended. Remove
// returns an error if the pool has such operations, or pools below it.
func (t Tree) Remove(name scheduling.PoolName, operations int64) (Tree, error) {
	// Removing a pool without children cannot make other pools invalid, so check only
	// default_parent_pool.
	next := Tree{options: t.options, settings: t.settings, pools: slices.Clone(t.pools)}
	if err := next.remove(name, operations); err != nil {
		return t, err
	}
	if err := next.checkDefaultParent(); err != nil {
		return t, fmt.Errorf("set pool tree: %w", err)
	}
	return next, nil
}

package pooltree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"weir/scheduling"
)

var (
	// ErrUnknownPool is returned when no pool of the tree has the name.
	ErrUnknownPool = errors.New("no such pool")
	// ErrPoolExists is returned when a pool of the tree has the name already.
	ErrPoolExists = errors.New("pool exists already")
	// ErrCycle is returned when a pool would be below itself.
	ErrCycle = errors.New("pool would be below itself")
	// ErrTooDeep is returned when a path would have more than MaxDepth pools.
	ErrTooDeep = errors.New("too many pools on a path")
	// ErrPoolInUse is returned when a pool that is to go has pools or operations.
	ErrPoolInUse = errors.New("pool is in use")
	// ErrRootPool is returned for what only pools below the root may have done to
	// them.
	ErrRootPool = errors.New("not possible with the root of the tree")
)

// Tree is the pools of a tree. It never changes: edits return another Tree.
type Tree struct {
	settings Settings
	// pools is sorted by name and does not hold the root.
	pools []Pool
}

// New returns a tree of these settings with the one pool
// scheduling.DefaultPool.
func New(settings Settings) (Tree, error) {
	return FromPools(settings, []Pool{{Name: scheduling.DefaultPool, Parent: scheduling.RootPool}})
}

// FromPools returns a tree of these pools, in whatever order they come.
func FromPools(settings Settings, pools []Pool) (Tree, error) {
	if err := settings.Validate(); err != nil {
		return Tree{}, fmt.Errorf("set pool tree: %w", err)
	}
	t := Tree{settings: settings, pools: slices.Clone(pools)}
	slices.SortFunc(t.pools, byName)
	for i, p := range t.pools {
		if i > 0 && t.pools[i-1].Name == p.Name {
			return Tree{}, fmt.Errorf("create pool %q: %w", p.Name, ErrPoolExists)
		}
	}
	for _, p := range t.pools {
		if err := t.check(p); err != nil {
			return Tree{}, fmt.Errorf("create pool %q: %w", p.Name, err)
		}
	}
	return t, nil
}

// Settings returns the options of the whole tree.
func (t Tree) Settings() Settings { return t.settings }

// SetSettings returns the tree with other options. It fails when a pool's own
// settings contradict them.
func (t Tree) SetSettings(settings Settings) (Tree, error) {
	next, err := FromPools(settings, t.pools)
	if err != nil {
		return t, fmt.Errorf("set pool tree: %w", err)
	}
	return next, nil
}

// Create returns the tree with one more pool.
func (t Tree) Create(p Pool) (Tree, error) {
	i, found := t.find(p.Name)
	if found || p.Name == scheduling.RootPool {
		return t, fmt.Errorf("create pool %q: %w", p.Name, ErrPoolExists)
	}
	if err := t.check(p); err != nil {
		return t, fmt.Errorf("create pool %q: %w", p.Name, err)
	}
	pools := make([]Pool, 0, len(t.pools)+1)
	pools = append(append(append(pools, t.pools[:i]...), p), t.pools[i:]...)
	return Tree{settings: t.settings, pools: pools}, nil
}

// Set returns the tree with the settings of a pool, its parent too, replaced by
// those of p.
func (t Tree) Set(p Pool) (Tree, error) {
	if p.Name == scheduling.RootPool {
		return t, fmt.Errorf("set pool %q: %w", p.Name, ErrRootPool)
	}
	i, found := t.find(p.Name)
	if !found {
		return t, fmt.Errorf("set pool %q: %w", p.Name, ErrUnknownPool)
	}
	next := Tree{settings: t.settings, pools: slices.Clone(t.pools)}
	next.pools[i] = p
	// A pool that moves takes those below it along: all paths are checked.
	for _, q := range next.pools {
		if err := next.check(q); err != nil {
			return t, fmt.Errorf("set pool %q: %w", p.Name, err)
		}
	}
	return next, nil
}

// Remove returns the tree without a pool. operations is how many operations that
// have not ended the pool holds; it must hold none, and no pool.
func (t Tree) Remove(name scheduling.PoolName, operations int64) (Tree, error) {
	if name == scheduling.RootPool {
		return t, fmt.Errorf("remove pool %q: %w", name, ErrRootPool)
	}
	i, found := t.find(name)
	if !found {
		return t, fmt.Errorf("remove pool %q: %w", name, ErrUnknownPool)
	}
	if children := t.Children(name); len(children) > 0 {
		return t, fmt.Errorf("remove pool %q: %w: it has %d pools, %q first: remove or move them",
			name, ErrPoolInUse, len(children), children[0])
	}
	if operations > 0 {
		return t, fmt.Errorf("remove pool %q: %w: it has %d operations: wait for them, abort them or move them",
			name, ErrPoolInUse, operations)
	}
	return Tree{settings: t.settings, pools: slices.Delete(slices.Clone(t.pools), i, i+1)}, nil
}

// Has reports whether the tree has the pool. It always has the root.
func (t Tree) Has(name scheduling.PoolName) bool {
	_, found := t.find(name)
	return found || name == scheduling.RootPool
}

// Pool returns a pool as it was set. The root is no pool that was set.
func (t Tree) Pool(name scheduling.PoolName) (Pool, bool) {
	i, found := t.find(name)
	if !found {
		return Pool{}, false
	}
	return t.pools[i], true
}

// Pools returns all pools but the root, sorted by name. The slice is the
// caller's own.
func (t Tree) Pools() []Pool { return slices.Clone(t.pools) }

// ParentsFirst returns all pools but the root, each one after its parent, and by
// name within a level. The slice is the caller's own.
func (t Tree) ParentsFirst() []Pool {
	depths := make(map[scheduling.PoolName]int, len(t.pools))
	for _, p := range t.pools {
		depths[p.Name] = t.depth(p)
	}
	ordered := slices.Clone(t.pools)
	slices.SortStableFunc(ordered, func(a, b Pool) int { return cmp.Compare(depths[a.Name], depths[b.Name]) })
	return ordered
}

// depth returns how many pools are above p, the root not counted.
func (t Tree) depth(p Pool) int {
	depth := 0
	for p.Parent != scheduling.RootPool {
		i, _ := t.find(p.Parent)
		p = t.pools[i]
		depth++
	}
	return depth
}

// Effective returns the settings that hold for a pool or for the root.
func (t Tree) Effective(name scheduling.PoolName) (Effective, error) {
	if name == scheduling.RootPool {
		return Effective{
			Weight:                   DefaultWeight,
			MaxOperationCount:        t.settings.MaxOperationCount,
			MaxRunningOperationCount: t.settings.MaxRunningOperationCount,
		}, nil
	}
	i, found := t.find(name)
	if !found {
		return Effective{}, fmt.Errorf("pool %q: %w", name, ErrUnknownPool)
	}
	return t.pools[i].effective(t.settings), nil
}

// Children returns the pools right below a pool or the root, sorted by name.
func (t Tree) Children(name scheduling.PoolName) []scheduling.PoolName {
	var children []scheduling.PoolName
	for _, p := range t.pools {
		if p.Parent == name {
			children = append(children, p.Name)
		}
	}
	return children
}

// Path returns a pool and all above it up to and with the root.
func (t Tree) Path(name scheduling.PoolName) ([]scheduling.PoolName, error) {
	var path []scheduling.PoolName
	for name != scheduling.RootPool {
		i, found := t.find(name)
		if !found {
			return nil, fmt.Errorf("pool %q: %w", name, ErrUnknownPool)
		}
		path = append(path, name)
		name = t.pools[i].Parent
	}
	return append(path, scheduling.RootPool), nil
}

// check returns an error unless p may be in the tree with the pools that it has.
func (t Tree) check(p Pool) error {
	if err := p.validate(t.settings); err != nil {
		return err
	}
	depth := 1
	for parent := p.Parent; parent != scheduling.RootPool; depth++ {
		if parent == p.Name {
			return fmt.Errorf("parent %q: %w", p.Parent, ErrCycle)
		}
		if depth == MaxDepth {
			return fmt.Errorf("%w: %q is more than %d below the root", ErrTooDeep, p.Name, MaxDepth)
		}
		i, found := t.find(parent)
		if !found {
			return fmt.Errorf("parent %q: %w: create it first, or use %q", parent, ErrUnknownPool, scheduling.RootPool)
		}
		parent = t.pools[i].Parent
	}
	return nil
}

func (t Tree) find(name scheduling.PoolName) (int, bool) {
	return slices.BinarySearchFunc(t.pools, name, func(p Pool, name scheduling.PoolName) int {
		return cmp.Compare(p.Name, name)
	})
}

func byName(a, b Pool) int { return cmp.Compare(a.Name, b.Name) }

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
	// ErrPoolExists is returned when a pool of the tree already has the name.
	ErrPoolExists = errors.New("pool already exists")
	// ErrCycle is returned when a pool would be below itself.
	ErrCycle = errors.New("pool would be below itself")
	// ErrTooDeep is returned when a path would have more than MaxDepth pools.
	ErrTooDeep = errors.New("pools are nested too deeply")
	// ErrPoolInUse is returned when a pool to remove has pools or operations.
	ErrPoolInUse = errors.New("pool is in use")
	// ErrRootPool is returned for an edit that is not allowed for the root.
	ErrRootPool = errors.New("not allowed for the root pool")
	// ErrNoImmediate is returned when a pool does not accept operations directly in it.
	ErrNoImmediate = errors.New("pool does not accept operations directly")
	// ErrGang is returned when a pool does not accept gangs.
	ErrGang = errors.New("pool does not accept gangs")
	// ErrTooManyEphemeral is returned when a user already has as many ephemeral pools as the
	// tree allows.
	ErrTooManyEphemeral = errors.New("too many ephemeral pools")
)

// Tree holds the pools and the options of a tree. It is immutable: edits return a new
// Tree.
type Tree struct {
	options  TreeOptions
	settings Settings
	// pools is sorted by name and does not hold the root.
	pools []Pool
}

// New returns a tree with one pool, scheduling.DefaultPool.
func New(options TreeOptions) (Tree, error) {
	return FromPools(options, []Pool{{Name: scheduling.DefaultPool, Parent: scheduling.RootPool}})
}

// FromPools returns a tree of these pools, which may be in any order. The error says why
// the tree is invalid.
func FromPools(options TreeOptions, pools []Pool) (Tree, error) {
	t := Tree{options: options, settings: options.Settings(), pools: slices.Clone(pools)}
	slices.SortFunc(t.pools, byName)
	for i, p := range t.pools {
		if i > 0 && t.pools[i-1].Name == p.Name {
			return Tree{}, fmt.Errorf("create pool %q: %w", p.Name, ErrPoolExists)
		}
	}
	if err := t.validate(); err != nil {
		return Tree{}, err
	}
	return t, nil
}

// Options returns the options of the whole tree that were set.
func (t Tree) Options() TreeOptions { return t.options }

// Settings returns the options of the whole tree with the defaults filled in.
func (t Tree) Settings() Settings { return t.settings }

// Has reports whether the tree has the pool. It always has the root.
func (t Tree) Has(name scheduling.PoolName) bool {
	_, found := t.find(name)
	return found || name == scheduling.RootPool
}

// Pool returns a pool as it was set. It does not find the root.
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

// ParentsFirst returns all pools but the root, sorted by depth, then by name. The
// slice is the caller's own.
func (t Tree) ParentsFirst() []Pool {
	depths := make(map[scheduling.PoolName]int, len(t.pools))
	for _, p := range t.pools {
		path, _ := t.Path(p.Name)
		depths[p.Name] = len(path)
	}
	ordered := slices.Clone(t.pools)
	slices.SortStableFunc(ordered, func(a, b Pool) int { return cmp.Compare(depths[a.Name], depths[b.Name]) })
	return ordered
}

// Effective returns the effective settings of a pool or of the root: its own settings, inherited
// ones (F.11, F.17.2), and defaults of the tree.
func (t Tree) Effective(name scheduling.PoolName) (Effective, error) {
	path, err := t.Path(name)
	if err != nil {
		return Effective{}, err
	}
	e := rootEffective(t.settings)
	for _, above := range slices.Backward(path[:len(path)-1]) {
		i, _ := t.find(above)
		e = t.pools[i].Options.effective(t.settings, e)
	}
	return e, nil
}

// own is like Effective, but without inherited settings.
func (t Tree) own(name scheduling.PoolName) Effective {
	if i, found := t.find(name); found {
		return t.pools[i].Options.effective(t.settings, Effective{})
	}
	return rootEffective(t.settings)
}

// Lightweight reports whether the vanilla operations of a pool do not count as
// running (F.16).
func (t Tree) Lightweight(name scheduling.PoolName) bool {
	i, found := t.find(name)
	return found && t.pools[i].Options.lightweight()
}

// Children returns the pools directly below a pool or the root, sorted by name.
func (t Tree) Children(name scheduling.PoolName) []scheduling.PoolName {
	var children []scheduling.PoolName
	for i := range t.pools {
		if t.pools[i].Parent == name {
			children = append(children, t.pools[i].Name)
		}
	}
	return children
}

// Path returns a pool and all above it, up to and including the root.
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

func (t Tree) find(name scheduling.PoolName) (int, bool) {
	return slices.BinarySearchFunc(t.pools, name, func(p Pool, name scheduling.PoolName) int {
		return cmp.Compare(p.Name, name)
	})
}

func byName(a, b Pool) int { return cmp.Compare(a.Name, b.Name) }

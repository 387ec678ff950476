package pooltree

import (
	"errors"
	"fmt"

	"weir/scheduling"
)

// Placement says in which pool an operation is placed.
type Placement struct {
	// Pool is the pool of the operation.
	Pool scheduling.PoolName
	// Create is the ephemeral pool to create first; nil if none is needed.
	Create *Pool
	// Tree is the tree, including the pool to create.
	Tree Tree
}

// Place returns the placement of a user's operation that names this pool: the pool itself;
// pool$user below it, if the pool creates subpools for its users (L6); or an ephemeral pool of
// that name, if the tree has no such pool (R6). An empty pool means that the operation names
// none, see unnamed. The parameter gang says whether the operation is a gang. The error says why the
// pool does not accept the operation.
func (t Tree) Place(pool scheduling.PoolName, user scheduling.User, gang bool) (Placement, error) {
	if pool == "" {
		var err error
		if pool, err = t.unnamed(user); err != nil {
			return Placement{}, err
		}
	}
	placed, err := t.place(pool, user)
	if err != nil {
		return Placement{}, err
	}
	next := t
	if placed.Create != nil {
		if next, err = t.Create(*placed.Create); err != nil {
			return Placement{}, err
		}
	}
	placed.Tree = next
	e := next.own(placed.Pool)
	switch {
	case placed.Pool == scheduling.RootPool && e.ForbidImmediate:
		return Placement{}, fmt.Errorf("pool %q: %w: use a pool below it (option forbid_immediate_operations_in_root of the tree)",
			placed.Pool, ErrNoImmediate)
	case e.ForbidImmediate:
		return Placement{}, fmt.Errorf("pool %q: %w: use a pool below it (option forbid_immediate_operations)", placed.Pool, ErrNoImmediate)
	case gang && !e.AllowGangs:
		return Placement{}, fmt.Errorf("pool %q: %w: use a FIFO pool, or set always_allow_gang_operations of this one "+
			"(option allow_gang_operations_only_in_fifo_pools of the tree)", placed.Pool, ErrGang)
	}
	return placed, nil
}

// unnamed returns the pool of operations that name none: scheduling.DefaultPool if the tree has
// it and default_parent_pool is not set, else the pool that is named after the user.
func (t Tree) unnamed(user scheduling.User) (scheduling.PoolName, error) {
	if t.options.DefaultParentPool == nil && t.Has(scheduling.DefaultPool) {
		return scheduling.DefaultPool, nil
	}
	if user == "" {
		return "", errors.New("the operation names no pool, and without a user name there is no default one: name a pool")
	}
	if err := ValidateName(scheduling.PoolName(user)); err != nil {
		return "", fmt.Errorf("the operation names no pool, and user %q cannot have one: %w: name a pool", user, err)
	}
	return scheduling.PoolName(user), nil
}

func (t Tree) place(name scheduling.PoolName, user scheduling.User) (Placement, error) {
	if name == scheduling.RootPool {
		return Placement{Pool: name}, nil
	}
	i, found := t.find(name)
	switch {
	case user == "" && (!found || or(t.pools[i].Options.CreateEphemeralSubpools, false)):
		return Placement{}, fmt.Errorf("pool %q: %w, and no ephemeral one can be created without a user name", name, ErrUnknownPool)
	case !found:
		p, err := t.ephemeral(name, user)
		return Placement{Pool: name, Create: p}, err
	case or(t.pools[i].Options.CreateEphemeralSubpools, false):
		sub := t.subpool(t.pools[i], user)
		if t.Has(sub.Name) {
			return Placement{Pool: sub.Name}, nil
		}
		return Placement{Pool: sub.Name, Create: &sub}, nil
	}
	return Placement{Pool: name}, nil
}

// ephemeral returns the ephemeral pool to create for a name that no pool has. The pool that is
// named after the user is for operations that name none, and does not count against
// max_ephemeral_pools_per_user.
func (t Tree) ephemeral(name scheduling.PoolName, user scheduling.User) (*Pool, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	own, have := scheduling.PoolName(user), int64(0)
	for i := range t.pools {
		if p := &t.pools[i]; p.Ephemeral == user && p.Parent == t.settings.DefaultParentPool && p.Name != own {
			have++
		}
	}
	if most := t.settings.MaxEphemeralPoolsPerUser; have >= most && name != own {
		return nil, fmt.Errorf("pool %q: %w, and no ephemeral one can be created: user %q has %d: %w (option max_ephemeral_pools_per_user %d of the tree)",
			name, ErrUnknownPool, user, have, ErrTooManyEphemeral, most)
	}
	return &Pool{Name: name, Parent: t.settings.DefaultParentPool, Ephemeral: user}, nil
}

// subpool returns the subpool of a user below the pool `hub`.
func (t Tree) subpool(hub Pool, user scheduling.User) Pool {
	sub := Pool{Name: hub.Name + "$" + scheduling.PoolName(user), Parent: hub.Name, Ephemeral: user}
	if e := hub.Options.Ephemeral; e != nil {
		sub.Options = PoolOptions{
			Mode: e.Mode, MaxOperationCount: e.MaxOperationCount, MaxRunningOperationCount: e.MaxRunningOperationCount, ResourceLimits: e.ResourceLimits,
		}
	}
	return sub
}

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/pooltree"
)

// The bounds of object stores.
const (
	// MaxStores is the greatest number of object stores.
	MaxStores = 100
	// MaxPlacesPerStore is the greatest number of prefixes of a store, and of its pools.
	MaxPlacesPerStore = 100
)

// storeScheme begins the URLs of objects.
const storeScheme = "s3://"

// editStore makes an object store, changes it or removes it.
func (c accessChange) editStore(m *commandpb.EditStore) *refusal {
	name := m.GetStore().GetName()
	what := fmt.Sprintf("edit store %q", name)
	known := c.stores[name]
	switch {
	case access.CheckName("store", name) != nil:
		return refuse(CodeInvalidStore, "edit store: %v", access.CheckName("store", name))
	case m.GetCreate() && m.GetDelete():
		return refuse(CodeInvalidCommand, "%s: it cannot be created and removed at once", what)
	case m.GetCreate() && known != nil:
		return refuse(CodeStoreExists, "%s: there is one already: change it (weir store set), or choose another name", what)
	case m.GetCreate() && len(c.stores) >= MaxStores:
		return refuse(CodeInvalidStore, "%s: there are %d stores, the maximum: remove others", what, MaxStores)
	case !m.GetCreate() && known == nil:
		return refuse(CodeUnknownStore, "%s: there is none: create it (weir store add)", what)
	case m.GetDelete():
		delete(c.stores, name)
		return nil
	}
	given := m.GetStore()
	next := &statepb.Store{
		Name: name, Endpoint: cmp.Or(given.GetEndpoint(), known.GetEndpoint()), Region: cmp.Or(given.GetRegion(), known.GetRegion()),
		AccessKey: cmp.Or(given.GetAccessKey(), known.GetAccessKey()), Sealed: orOld(given.GetSealed(), known.GetSealed()),
		Prefixes: orOld(given.GetPrefixes(), known.GetPrefixes()), Pools: orOld(given.GetPools(), known.GetPools()),
		User: m.GetUser(), ModifiedTime: c.timestamp(), Tree: cmp.Or(given.GetTree(), known.GetTree(), string(c.defaultTree)),
	}
	if refused := c.checkStore(what, next); refused != nil {
		return refused
	}
	c.stores[name] = next
	return nil
}

func orOld[T any](given, known []T) []T {
	if len(given) > 0 {
		return given
	}
	return known
}

// checkStore refuses a store that is not complete, or has a prefix of another one.
func (c accessChange) checkStore(what string, o *statepb.Store) *refusal {
	var b breach
	b.when(o.GetEndpoint() == "" || o.GetAccessKey() == "" || len(o.GetSealed()) == 0, "endpoint, access key and secret key are required")
	b.when(len(o.GetPrefixes()) == 0 || len(o.GetPrefixes()) > MaxPlacesPerStore, "it has %d prefixes, it must have 1 to %d", len(o.GetPrefixes()), MaxPlacesPerStore)
	b.when(len(o.GetPools()) == 0 || len(o.GetPools()) > MaxPlacesPerStore, "it has %d pools, it must have 1 to %d", len(o.GetPools()), MaxPlacesPerStore)
	for i, prefix := range o.GetPrefixes() {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(prefix, storeScheme), "/")
		b.when(!strings.HasPrefix(prefix, storeScheme) || bucket == "" || strings.ContainsAny(prefix, `*?[{\`), "prefix %q: write s3://BUCKET or s3://BUCKET/KEY, without wildcards", prefix)
		b.when(strings.HasSuffix(prefix, "/"), "prefix %q: leave out the slash at its end", prefix)
		b.when(slices.Contains(o.GetPrefixes()[:i], prefix), "prefix %q is listed twice", prefix)
	}
	t := c.trees[scheduling.TreeName(o.GetTree())]
	b.when(t == nil, "there is no tree %q", o.GetTree())
	for i, pool := range o.GetPools() {
		b.when(slices.Contains(o.GetPools()[:i], pool), "pool %q is listed twice", pool)
		b.when(t != nil && !hasPool(t.pools, pool), "tree %q has no pool %q that stays", o.GetTree(), pool)
	}
	if b.err != nil {
		return refuse(CodeInvalidStore, "%s: %v", what, b.err)
	}
	for _, other := range StoresIn(c.State).All() {
		for _, prefix := range o.GetPrefixes() {
			if other.GetName() != o.GetName() && slices.Contains(other.GetPrefixes(), prefix) {
				return refuse(CodeStoreExists, "%s: prefix %q belongs to store %q", what, prefix, other.GetName())
			}
		}
	}
	return nil
}

// hasPool reports whether a tree has a pool that only an edit removes.
func hasPool(pools pooltree.Tree, name string) bool {
	pool, found := pools.Pool(scheduling.PoolName(name))
	return name == string(scheduling.RootPool) || found && pool.Ephemeral == ""
}

// checkPoolsOfStores refuses pools of a tree without those that stores name: whoever made a pool of
// such a name later would have the credentials. nil: the tree is removed.
func (c treeChange) checkPoolsOfStores(what string, tree scheduling.TreeName, pools *pooltree.Tree) *refusal {
	for _, store := range StoresIn(c.State).All() {
		if store.GetTree() != string(tree) {
			continue
		}
		for _, pool := range store.GetPools() {
			if pools == nil || !hasPool(*pools, pool) {
				return refuse(CodePoolInUse, "%s: store %q is for pool %q of tree %q: change or remove it first (weir store set %s --pool ...)", what, store.GetName(), pool, tree, store.GetName())
			}
		}
	}
	return nil
}

// Stores tells which object stores there are, and who may use them (T3).
type Stores struct{ *State }

// StoresIn returns the object stores of a state.
func StoresIn(s *State) Stores { return Stores{s} }

// All returns the stores, by name.
func (s Stores) All() []*statepb.Store {
	return slices.SortedFunc(maps.Values(s.stores), func(a, b *statepb.Store) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// Of returns the store of an object, a folder or a pattern: the one with the longest prefix; nil if
// there is none. A folder or pattern that is partly in a store is an error, so that nothing of the store is
// read with other credentials.
func (s Stores) Of(path string) (*statepb.Store, error) {
	if !strings.HasPrefix(path, storeScheme) || len(s.stores) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(strings.Split(path[len(storeScheme):], "/"), func(name string) bool { return name == "." || name == ".." }) {
		return nil, fmt.Errorf("%q: it has . or .. as a name", path)
	}
	base := path
	if i := strings.IndexAny(path, `*?[{\`); i >= 0 {
		base = path[:i]
	}
	many := base != path || strings.HasSuffix(path, "/")
	var found *statepb.Store
	longest := ""
	for _, store := range s.All() {
		for _, prefix := range store.GetPrefixes() {
			if (base == prefix || strings.HasPrefix(base, prefix+"/")) && len(prefix) > len(longest) {
				found, longest = store, prefix
			}
		}
	}
	for _, store := range s.All() {
		for _, prefix := range store.GetPrefixes() {
			if store != found && many && len(prefix) > len(longest) && strings.HasPrefix(prefix+"/", base) {
				return nil, fmt.Errorf("%q: it is partly in store %q, which has %q: name what is in it by itself", path, store.GetName(), prefix)
			}
		}
	}
	return found, nil
}

// For is like Of, for an operation that must be allowed to use the store.
func (s Stores) For(op *statepb.Operation, path string) (*statepb.Store, error) {
	store, err := s.Of(path)
	if store == nil || err != nil {
		return nil, err
	}
	for _, in := range op.GetTrees() {
		if t := s.trees[scheduling.TreeName(in.GetTree())]; t != nil {
			if err := mayReach(store, in.GetTree(), t.pools, scheduling.PoolName(in.GetPool()), path); err != nil {
				return nil, err
			}
		}
	}
	return store, nil
}

// mayReach returns an error unless a pool of a tree, or one above it, is one of the store's.
func mayReach(store *statepb.Store, tree string, pools pooltree.Tree, pool scheduling.PoolName, path string) error {
	above, err := pools.Path(pool)
	if err != nil {
		return err
	}
	for _, name := range above {
		if tree == store.GetTree() && slices.Contains(store.GetPools(), string(name)) {
			return nil
		}
	}
	return fmt.Errorf("%q is in store %q, which operations in pool %q of tree %q may not use: it is for pools %s of tree %q (weir store set %s --pool ...)",
		path, store.GetName(), pool, tree, strings.Join(store.GetPools(), ", "), store.GetTree(), store.GetName())
}

// checkStores refuses an operation with input or output in a store that it may not use from its
// places.
func (c treeChange) checkStores(what string, spec *statepb.OperationSpec, places []place) *refusal {
	if len(c.stores) == 0 {
		return nil
	}
	for _, path := range objectsOf(spec) {
		store, err := StoresIn(c.State).Of(path)
		for _, p := range places {
			if store != nil && err == nil {
				err = mayReach(store, p.record.GetTree(), p.pools, scheduling.PoolName(p.record.GetPool()), path)
			}
		}
		if err != nil {
			return refuse(CodeStoreDenied, "%s: %v", what, err)
		}
	}
	return nil
}

// objectsOf returns what a spec names in object stores.
func objectsOf(spec *statepb.OperationSpec) (paths []string) {
	paths = append(slices.Clone(spec.GetMap().GetInputPaths()), spec.GetMap().GetOutputPath())
	for _, task := range spec.GetTasks() {
		for _, file := range task.GetFiles() {
			paths = append(paths, file.GetSource())
		}
		for _, kept := range task.GetOutputs() {
			paths = append(paths, kept.GetDestination())
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, storeScheme) })
}

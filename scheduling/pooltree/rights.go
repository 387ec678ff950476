package pooltree

import (
	"slices"

	"weir/scheduling"
	"weir/scheduling/access"
)

// Rights returns the rights that are given on a pool itself, or on the root. Pools above it give
// more.
func (t Tree) Rights(name scheduling.PoolName) *access.List {
	if name == scheduling.RootPool {
		return t.options.Rights()
	}
	p, _ := t.Pool(name)
	return p.Options.ACL
}

// Rights returns the rights that are given on the root of the tree. Everyone may use its pools unless
// the option acl/use is set.
func (o TreeOptions) Rights() *access.List {
	if o.ACL == nil {
		return access.Initial()
	}
	list := *o.ACL
	if list.Use == nil {
		list.Use = access.Initial().Use
	}
	return &list
}

// Gives reports whether who has a right on a pool or the root: the pool, or one above it, gives it.
// On a pool that the tree does not have, only the root gives rights.
func (t Tree) Gives(right access.Right, who access.Who, pool scheduling.PoolName) bool {
	return slices.ContainsFunc(t.rightsPath(pool), func(p scheduling.PoolName) bool { return t.Rights(p).Gives(right, who) })
}

// Holders returns the subjects that have a right on a pool or the root, sorted.
func (t Tree) Holders(right access.Right, pool scheduling.PoolName) (all []access.Subject) {
	for _, p := range t.rightsPath(pool) {
		all = append(all, t.Rights(p).Subjects(right)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (t Tree) rightsPath(pool scheduling.PoolName) []scheduling.PoolName {
	path, err := t.Path(pool)
	if err != nil {
		return []scheduling.PoolName{scheduling.RootPool}
	}
	return path
}

package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// Change is a possible change to a cluster. Exactly one field is set.
type Change struct {
	// Set changes an option of a pool, or of an operation if no pool has the name.
	Set *Setting
	// SetTree changes an option of the tree.
	SetTree *Setting
	// AddPool adds a pool.
	AddPool *pooltree.Pool
	// RemovePool removes a pool that is empty.
	RemovePool scheduling.PoolName
	// AddOperation starts an operation.
	AddOperation *Operation
	// RemoveOperation ends an operation.
	RemoveOperation scheduling.OperationID
	// AddNodes adds nodes. If Count is negative, it removes nodes with the same resources that
	// have all of the tags.
	AddNodes *Node
}

// Setting is a new value of an option. A nil value means the default.
type Setting struct {
	// Of is a pool or an operation.
	Of string
	// Path is the option, as names separated by slashes. The path "parent" moves a pool, and "pool"
	// moves an operation.
	Path  string
	Value any
}

// With returns the cluster after all changes. Only the final pools are validated.
func (c Cluster) With(changes ...Change) (Cluster, error) {
	next := c
	next.Nodes, next.Operations = slices.Clone(c.Nodes), slices.Clone(c.Operations)
	options, pools := option.Write(c.Pools.Options()), c.Pools.Pools()
	for _, change := range changes {
		var err error
		switch {
		case change.Set != nil:
			err = next.set(*change.Set, pools)
		case change.SetTree != nil:
			err = option.Put(options, pooltree.TreeOptions{}, change.SetTree.Path, change.SetTree.Value)
		case change.AddPool != nil:
			pools = append(pools, *change.AddPool)
		case change.RemovePool != "":
			pools, err = without(pools, change.RemovePool)
		case change.AddOperation != nil:
			next.Operations = append(next.Operations, *change.AddOperation)
		case change.RemoveOperation != "":
			err = next.removeOperation(change.RemoveOperation)
		case change.AddNodes != nil:
			err = next.addNodeGroup(*change.AddNodes)
		}
		if err != nil {
			return c, err
		}
	}
	read, err := pooltree.ReadTreeOptions(options)
	if err != nil {
		return c, fmt.Errorf("set pool tree: %w", err)
	}
	if next.Pools, err = pooltree.FromPools(read, pools); err != nil {
		return c, err
	}
	next.Volumes = slices.Clone(c.Volumes)
	for i := len(next.Volumes) - 1; i >= 0; i-- {
		if !next.Pools.Has(next.Volumes[i].Pool) {
			next.Volumes = slices.Delete(next.Volumes, i, i+1)
		}
	}
	return next, next.check(c.Pools)
}

// check returns an error if two operations have the same id, or if the pool of an operation is
// missing. The parameter `before` holds the pools before the changes.
func (c Cluster) check(before pooltree.Tree) error {
	seen := make(map[scheduling.OperationID]bool, len(c.Operations))
	for _, op := range c.Operations {
		switch {
		case seen[op.ID]:
			return fmt.Errorf("operation %q is defined twice", op.ID)
		case !c.Pools.Has(op.Pool) && before.Has(op.Pool):
			return fmt.Errorf("remove pool %q: %w: it has operation %q: move it or remove it too", op.Pool, pooltree.ErrPoolInUse, op.ID)
		case !c.Pools.Has(op.Pool):
			return fmt.Errorf("operation %q: pool %q: %w: add it or use another", op.ID, op.Pool, pooltree.ErrUnknownPool)
		}
		seen[op.ID] = true
	}
	return nil
}

// set changes a setting of a pool, in place, or of an operation.
func (c *Cluster) set(s Setting, pools []pooltree.Pool) error {
	if i := slices.IndexFunc(pools, func(p pooltree.Pool) bool { return string(p.Name) == s.Of }); i >= 0 {
		return setPool(&pools[i], s)
	}
	i := slices.IndexFunc(c.Operations, func(op Operation) bool { return string(op.ID) == s.Of })
	if i < 0 {
		return fmt.Errorf("set %s/%s: no pool or operation has this name", s.Of, s.Path)
	}
	op := &c.Operations[i]
	if s.Path == "pool" {
		return s.name(&op.Pool)
	}
	return edit(&op.Options, s, pooltree.ReadOperationOptions)
}

func setPool(p *pooltree.Pool, s Setting) error {
	if s.Path == "parent" {
		return s.name(&p.Parent)
	}
	return edit(&p.Options, s, func(document map[string]any) (read pooltree.PoolOptions, err error) {
		// Options that are invalid together may still be changed: the whole tree is checked at the
		// end.
		err = option.Read(&read, document)
		return read, err
	})
}

// edit changes one option.
func edit[T any](options *T, s Setting, read func(document map[string]any) (T, error)) error {
	document := option.Write(*options)
	err := option.Put(document, *options, s.Path, s.Value)
	var changed T
	if err == nil {
		changed, err = read(document)
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", s.Of, err)
	}
	*options = changed
	return nil
}

// name sets the name of a pool.
func (s Setting) name(pool *scheduling.PoolName) error {
	name, ok := s.Value.(string)
	if !ok || name == "" {
		return fmt.Errorf("set %s/%s: the value must be the name of a pool", s.Of, s.Path)
	}
	*pool = scheduling.PoolName(name)
	return nil
}

func without(pools []pooltree.Pool, name scheduling.PoolName) ([]pooltree.Pool, error) {
	i := slices.IndexFunc(pools, func(p pooltree.Pool) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("remove pool %q: %w", name, pooltree.ErrUnknownPool)
	}
	return slices.Delete(pools, i, i+1), nil
}

func (c *Cluster) removeOperation(id scheduling.OperationID) error {
	i := slices.IndexFunc(c.Operations, func(op Operation) bool { return op.ID == id })
	if i < 0 {
		return fmt.Errorf("remove operation %q: there is no such operation", id)
	}
	c.Operations = slices.Delete(c.Operations, i, i+1)
	return nil
}

// addNodeGroup adds nodes or, if the count is negative, removes nodes like these.
func (c *Cluster) addNodeGroup(group Node) error {
	if group.Count >= 0 {
		c.Nodes = append(c.Nodes, group)
		return nil
	}
	left, before := -group.Count, c.shapes()
	for i := range c.Nodes {
		if c.Nodes[i].Resources == group.Resources && !slices.ContainsFunc(group.Tags, c.Nodes[i].lacks) {
			taken := min(left, c.Nodes[i].Count)
			c.Nodes[i].Count -= taken
			left -= taken
		}
	}
	if left > 0 {
		return fmt.Errorf("remove %s: there are only %d such nodes (%s)", group.shape(-group.Count), -group.Count-left, before)
	}
	return nil
}

func (n Node) lacks(tag string) bool { return !slices.Contains(n.Tags, tag) }

// shape formats what a node has, and how many there are, as --nodes accepts it.
func (n Node) shape(count int64) string {
	var parts []string
	for name, amount := range n.Resources.Map() {
		if amount != 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", name, strconv.FormatFloat(amount, 'f', -1, 64)))
		}
	}
	slices.Sort(parts)
	if len(n.Tags) > 0 {
		parts = append(parts, fmt.Sprintf("tags: [%s]", strings.Join(n.Tags, ", ")))
	}
	return fmt.Sprintf("%dx{%s}", count, strings.Join(parts, ", "))
}

// shapes lists the nodes of the cluster by shape.
func (c *Cluster) shapes() string {
	var kinds []Node
	for _, n := range c.Nodes {
		i := slices.IndexFunc(kinds, func(k Node) bool { return k.Resources == n.Resources && slices.Equal(k.Tags, n.Tags) })
		switch {
		case n.Count == 0:
		case i >= 0:
			kinds[i].Count += n.Count
		default:
			kinds = append(kinds, n)
		}
	}
	if len(kinds) == 0 {
		return "there are none"
	}
	parts := make([]string, len(kinds))
	for i, n := range kinds {
		parts[i] = n.shape(n.Count)
	}
	return "there are " + strings.Join(parts, ", ")
}

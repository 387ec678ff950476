package pooltree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// validate checks the options of the tree, each pool, the paths, and the guarantees of pools
// against those of their parents (L7, F.16).
func (t Tree) validate() error {
	if err := t.options.Validate(); err != nil {
		return fmt.Errorf("set pool tree: %w", err)
	}
	for i := range t.pools {
		switch err := t.check(&t.pools[i]); {
		case errors.Is(err, ErrCycle):
			// The error names the pools of the cycle. This pool may be below the cycle, not in it.
			return err
		case err != nil:
			return fmt.Errorf("pool %q: %w", t.pools[i].Name, err)
		}
	}
	if err := t.checkDefaultParent(); err != nil {
		return fmt.Errorf("set pool tree: %w", err)
	}
	return t.checkGuarantees()
}

// check returns an error unless p, which is in the tree, is valid.
func (t Tree) check(p *Pool) error {
	if err := p.validateName(); err != nil {
		return err
	}
	if err := p.Options.Validate(); err != nil {
		return err
	}
	if err := t.checkPath(p); err != nil {
		return err
	}
	e, err := t.Effective(p.Name)
	if err != nil {
		return err
	}
	c := checks{}
	c.starvation(e.Starvation)
	return c.err()
}

// checkSubpools returns an error if the options for subpools allow no subpool to be created.
// Only edits are checked, since a tree that already exists must stay readable.
func (p Pool) checkSubpools() error {
	e := p.Options.Ephemeral
	if e == nil {
		return nil
	}
	c := checks{}
	c.runs("ephemeral_subpool_config/max_operation_count", "max_running_operation_count", e.MaxOperationCount, e.MaxRunningOperationCount)
	if err := c.err(); err != nil {
		return fmt.Errorf("pool %q: %w", p.Name, err)
	}
	return nil
}

// checkPath checks that the path of a pool ends at the root and is not too long.
func (t Tree) checkPath(p *Pool) error {
	path := append(make([]scheduling.PoolName, 0, 8), p.Name)
	for parent := p.Parent; parent != scheduling.RootPool; {
		if from := slices.Index(path, parent); from >= 0 {
			return fmt.Errorf("%w: %s: choose another parent", ErrCycle, below(append(path[from:], parent)))
		}
		i, found := t.find(parent)
		if !found {
			return fmt.Errorf("parent %q: %w: create it first, or use %q", parent, ErrUnknownPool, scheduling.RootPool)
		}
		path, parent = append(path, parent), t.pools[i].Parent
	}
	if len(path) > MaxDepth {
		return fmt.Errorf("%w: %q is more than %d levels below the root", ErrTooDeep, p.Name, MaxDepth)
	}
	return nil
}

// below formats a path in which each pool is below the next one.
func below(path []scheduling.PoolName) string {
	quoted := make([]string, len(path))
	for i, name := range path {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, " below ")
}

func (t Tree) checkDefaultParent() error {
	name := t.settings.DefaultParentPool
	if name == scheduling.RootPool {
		return nil
	}
	i, found := t.find(name)
	switch {
	case !found:
		return fmt.Errorf("default_parent_pool: %q: %w", name, ErrUnknownPool)
	case t.pools[i].Ephemeral != "":
		return fmt.Errorf("default_parent_pool: %q is ephemeral: it is removed with its last operation", name)
	}
	return nil
}

// checkGuarantees checks the guarantees of pools against those of their parents. The guarantees
// directly below the root may exceed the cluster: then they are cut to fit (F.5.3 to F.5.5).
func (t Tree) checkGuarantees() error {
	below := make(map[scheduling.PoolName]*guaranteed)
	for i := range t.pools {
		if g := t.pools[i].Options.StrongGuarantee; g != nil {
			sum := below[t.pools[i].Parent]
			if sum == nil {
				sum = &guaranteed{}
				below[t.pools[i].Parent] = sum
			}
			sum.add(t.pools[i].Name, g)
		}
	}
	for i := range t.pools {
		if sum := below[t.pools[i].Name]; sum != nil {
			if err := t.checkStrong(&t.pools[i].Options, sum); err != nil {
				return fmt.Errorf("pool %q: %w", t.pools[i].Name, err)
			}
		}
	}
	return nil
}

// guaranteed is the sum of the strong guarantees of a pool's children.
type guaranteed struct {
	Resources
	// first is the first child that has a strong guarantee.
	first scheduling.PoolName
}

func (s *guaranteed) add(name scheduling.PoolName, g *Resources) {
	s.Amounts = s.Amounts.Add(g.Amounts)
	for k := range g.Named {
		s.Named[k] = s.Named[k] || g.Named[k]
	}
	if s.first == "" && !g.IsZero() {
		s.first = name
	}
}

// checkStrong checks that the guarantees of a pool's children do not exceed its own.
func (t Tree) checkStrong(o *PoolOptions, sum *guaranteed) error {
	if sum.first != "" && !or(o.AllowChildrenGuarantees, true) {
		return fmt.Errorf("allow_children_guarantees is false, but pool %q below it has a strong guarantee", sum.first)
	}
	own := o.StrongGuarantee
	for i := range sum.Named {
		k := resource.Kind(i)
		// A resource that is not named is inferred from the main resource (F.5.1).
		if inferred := !own.Has(k) && own.Has(t.settings.MainResource); !sum.Named[i] || inferred {
			continue
		}
		if have := own.Or(resource.Amounts{}).Of(k); sum.Amounts.Of(k) > have {
			return fmt.Errorf("strong_guarantee_resources/%s: the pools below it are guaranteed %s, but it has only %s: raise it or lower theirs",
				k, k.Format(sum.Amounts.Of(k)), k.Format(have))
		}
	}
	return nil
}

// Overcommitted returns each resource whose strong guarantees directly below the root add up to
// more than the total, with the sum of these guarantees (F.5.3).
func (t Tree) Overcommitted(total resource.Amounts) []Overcommit {
	var sum resource.Amounts
	for i := range t.pools {
		if p := &t.pools[i]; p.Parent == scheduling.RootPool {
			sum = sum.Add(p.Options.StrongGuarantee.Or(resource.Amounts{}))
		}
	}
	var out []Overcommit
	for i := range resource.Count {
		k := resource.Kind(i)
		if sum.Of(k) > total.Of(k) {
			out = append(out, Overcommit{Resource: k, Guaranteed: sum.Of(k), Total: total.Of(k)})
		}
	}
	return out
}

// Overcommit is a resource of which more is guaranteed than exists.
type Overcommit struct {
	Resource   resource.Kind
	Guaranteed int64
	Total      int64
}

package pooltree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// validate returns an error unless the tree can be: each pool, the paths, and
// what pools ask of those above them (L7, F.16).
func (t Tree) validate() error {
	if err := t.options.Validate(); err != nil {
		return fmt.Errorf("set pool tree: %w", err)
	}
	for i := range t.pools {
		switch err := t.check(&t.pools[i]); {
		case errors.Is(err, ErrCycle):
			// It names its pools, and this one may only be below them.
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

// check returns an error unless p may be in the tree with the pools that it has.
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

// checkSubpools returns an error when no subpool could be made with the options that are
// set for them. It is for edits: a tree that is there already has to be read.
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

// checkPath holds the way to the root to: it ends there, and is not too long.
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
		return fmt.Errorf("%w: %q is more than %d below the root", ErrTooDeep, p.Name, MaxDepth)
	}
	return nil
}

// below says which pool is below which.
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
		return fmt.Errorf("default_parent_pool: %q goes with its last operation", name)
	}
	return nil
}

// checkGuarantees holds the guarantees of pools to those of their parents. Those
// right below the root may be more than the cluster has: then they are all cut
// (F.5.3).
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

// guaranteed is the sum of strong guarantees right below a pool.
type guaranteed struct {
	Resources
	// first is a pool that has some.
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

// checkStrong compares what the children of a pool are guaranteed with what it is.
func (t Tree) checkStrong(o *PoolOptions, sum *guaranteed) error {
	if sum.first != "" && !or(o.AllowChildrenGuarantees, true) {
		return fmt.Errorf("allow_children_guarantees is false, and pool %q below it has a strong guarantee", sum.first)
	}
	own := o.StrongGuarantee
	for i := range sum.Named {
		k := resource.Kind(i)
		// What is not named is inferred from the main resource (F.5.1).
		if inferred := !own.Has(k) && own.Has(t.settings.MainResource); !sum.Named[i] || inferred {
			continue
		}
		if have := own.Or(resource.Amounts{}).Of(k); sum.Amounts.Of(k) > have {
			return fmt.Errorf("strong_guarantee_resources/%s: the pools below it are guaranteed %s, it has only %s: raise it or lower theirs",
				k, amount(k, sum.Amounts.Of(k)), amount(k, have))
		}
	}
	return nil
}

func amount(k resource.Kind, n int64) string {
	switch k {
	case resource.CPU:
		return resource.Hundredths(n).String()
	case resource.Memory:
		return resource.FormatSize(n)
	default:
		return fmt.Sprint(n)
	}
}

// Overcommitted returns the resources of which the strong guarantees right below
// the root are more than there is in total, with the sum of these (F.5.3).
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

// Overcommit is a resource of which more is guaranteed than there is.
type Overcommit struct {
	Resource   resource.Kind
	Guaranteed int64
	Total      int64
}

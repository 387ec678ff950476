package whatif

import (
	"fmt"
	"strings"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Share holds the shares of a pool or an operation.
type Share struct {
	// Pool says that the shares are those of a pool, not of an operation.
	Pool bool
	// Name is the name of the pool, or the id of the operation.
	Name string
	// Parent is the pool that contains it. It is empty for the root.
	Parent scheduling.PoolName
	// Fair is its fair share. Guarantee is its strong guarantee.
	Fair, Guarantee, Usage, Demand resource.Vector
	// FairRatio is Fair as one number (F.4.1).
	FairRatio float64
	// Volume is what a pool with integral guarantees has accumulated, in seconds of the whole
	// cluster.
	Volume float64
}

// Dominant returns the resource in which the fair share is greatest. Without a fair share it compares
// the usage, and without usage the demand.
func (s Share) Dominant() resource.Kind {
	for _, v := range []resource.Vector{s.Fair, s.Usage, s.Demand} {
		if best := v.MaxKind(resource.CPU); v[best] > 0 {
			return best
		}
	}
	return resource.CPU
}

// Result is the fair shares of a cluster.
type Result struct {
	Total resource.Amounts
	// Shares begins with the root. After each pool come the pools below it, and then the operations
	// in it.
	Shares []Share
	// Overcommitted are resources of which more is guaranteed than the cluster has.
	Overcommitted []Overcommit
	// Alerts say what else is wrong with the settings.
	Alerts []string
}

// Overcommit describes a resource whose strong guarantees directly below the root add up to more
// than the cluster has, and the pools with these guarantees.
type Overcommit struct {
	pooltree.Overcommit
	Pools []scheduling.PoolName
}

// String says what is over-committed, and by which pools.
func (o Overcommit) String() string {
	pools := make([]string, len(o.Pools))
	for i, name := range o.Pools {
		pools[i] = string(name)
	}
	return fmt.Sprintf("%s: %s are guaranteed to %s, but there are only %s", o.Resource, o.Resource.Format(o.Guaranteed), strings.Join(pools, ", "), o.Resource.Format(o.Total))
}

// Solve computes the fair shares of the cluster. The error says what is invalid in it.
func (c Cluster) Solve() (Result, error) {
	e, err := c.engine()
	if err != nil {
		return Result{}, fmt.Errorf("find fair shares: %w", err)
	}
	report, err := e.Tick(c.At)
	if err != nil {
		return Result{}, fmt.Errorf("find fair shares: %w", err)
	}
	snapshot := e.Snapshot()
	r := Result{Total: snapshot.Total, Overcommitted: c.overcommitted(snapshot.Total)}
	for _, alert := range report.Alerts {
		if alert.Code != fairshare.AlertOvercommit || len(r.Overcommitted) == 0 {
			r.Alerts = append(r.Alerts, snapshot.Say(alert))
		}
	}
	r.Shares = ordered(snapshot)
	return r, nil
}

// ordered returns the shares of a snapshot in the order of Result: after each pool the pools below
// it by name, and then its operations by id.
func ordered(s engine.Snapshot) []Share {
	below := make(map[scheduling.PoolName][]Share)
	for _, p := range s.Pools {
		share := shareOf(p.Shares)
		share.Pool, share.Name, share.Parent, share.Volume = true, string(p.Name), p.Parent, p.Integral.RatioVolume
		below[p.Parent] = append(below[p.Parent], share)
	}
	for _, op := range s.Operations {
		share := shareOf(op.Shares)
		share.Name, share.Parent = string(op.ID), op.Pool
		below[op.Pool] = append(below[op.Pool], share)
	}
	var out []Share
	var add func(parent scheduling.PoolName)
	add = func(parent scheduling.PoolName) {
		for _, share := range below[parent] {
			out = append(out, share)
			if share.Pool {
				add(scheduling.PoolName(share.Name))
			}
		}
	}
	add("")
	return out
}

func shareOf(s engine.Shares) Share {
	return Share{Fair: s.FairShare, FairRatio: s.Attributes.FairShareRatio, Guarantee: s.Attributes.StrongGuaranteeShare, Usage: s.UsageShare, Demand: s.DemandShare}
}

// overcommitted returns the resources of which more is guaranteed than the cluster has.
func (c Cluster) overcommitted(total resource.Amounts) []Overcommit {
	var out []Overcommit
	for _, o := range c.Pools.Overcommitted(total) {
		over := Overcommit{Overcommit: o}
		for _, name := range c.Pools.Children(scheduling.RootPool) {
			if p, _ := c.Pools.Pool(name); p.Options.StrongGuarantee.Or(resource.Amounts{}).Of(o.Resource) > 0 {
				over.Pools = append(over.Pools, name)
			}
		}
		out = append(out, over)
	}
	return out
}

// Difference is a pool or an operation before and after a change. A side is nil if it does not exist
// there.
type Difference struct {
	Before, After *Share
}

// Either returns the share after the change or, if there is none, before it.
func (d Difference) Either() *Share {
	if d.After != nil {
		return d.After
	}
	return d.Before
}

// Change returns by how much the greatest component of the fair share grows.
func (d Difference) Change() float64 {
	var before, after float64
	if d.Before != nil {
		before = d.Before.Fair.MaxComponent()
	}
	if d.After != nil {
		after = d.After.Fair.MaxComponent()
	}
	return after - before
}

// Compare puts two results side by side, in the order of the second one. Elements that are only in
// the first result come last.
func Compare(before, after Result) []Difference {
	type key struct {
		pool bool
		name string
	}
	was := make(map[key]*Share, len(before.Shares))
	for i, s := range before.Shares {
		was[key{s.Pool, s.Name}] = &before.Shares[i]
	}
	var out []Difference
	for i, s := range after.Shares {
		k := key{s.Pool, s.Name}
		out = append(out, Difference{Before: was[k], After: &after.Shares[i]})
		delete(was, k)
	}
	for i, s := range before.Shares {
		if was[key{s.Pool, s.Name}] != nil {
			out = append(out, Difference{Before: &before.Shares[i]})
		}
	}
	return out
}

package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// tree holds the pools and the operations in them.
type tree struct {
	moment  *moment
	cluster *cluster

	// shares divides the cluster. Its elements are those of the pools and operations.
	shares     *fairshare.Tree
	root       *pool
	pools      map[scheduling.PoolName]*pool
	operations map[scheduling.OperationID]*operation
	// ofPool are the settings of a pool that was added by SetPool, not by SetTree.
	ofPool pooltree.Effective
	// rated says that some pool has a preemption_rate_limit.
	rated bool
	// filler knows the order of scheduling.
	filler   allocation.Filler
	digested digested
	history  history
}

func newTree(m *moment, cl *cluster, pools pooltree.Tree) (*tree, error) {
	root := newPool(scheduling.RootPool)
	tr := &tree{
		moment: m, cluster: cl, shares: fairshare.NewTree(fairshare.Default()), root: root,
		pools: map[scheduling.PoolName]*pool{scheduling.RootPool: root}, operations: map[scheduling.OperationID]*operation{},
	}
	root.share = tr.shares.Root
	var err error
	if tr.ofPool, err = pools.Effective(scheduling.DefaultPool); err == nil {
		root.effective, err = pools.Effective(scheduling.RootPool)
		root.limits = root.effective.Limits
	}
	return tr, err
}

// bounds returns the bounds of the groups of an operation's allocations (F.12.1).
func (tr *tree) bounds(op *operation) preemption.Bounds {
	s := op.effective.Starvation
	return preemption.Bounds{
		Fair: op.share.FairShare, Demand: op.share.DemandShare, Total: tr.cluster.total,
		AggressiveThreshold: s.AggressiveThreshold, Threshold: s.Satisfaction, Protected: s.Protected(),
		OnBoundPreemptible: tr.moment.settings.Preemption.OnBoundPreemptible,
		Aggressive:         tr.allowsAggressive(op),
	}
}

// allowsAggressive reports whether an operation can be preempted aggressively.
func (tr *tree) allowsAggressive(op *operation) bool {
	return op.pool.effective.Preemption.AllowAggressive && (!op.Gang || tr.moment.settings.Preemption.AggressiveForGangs)
}

// pool is a pool of the tree.
type pool struct {
	element
	// id does not change with the name; 0 if the pool is known by its name only.
	id         scheduling.PoolID
	parent     *pool
	pools      []*pool
	operations []*operation
	// effective are the settings in force.
	effective pooltree.Effective
	// promised is the share that guarantees alone give the pool, as a part of the cluster.
	promised resource.Vector
	// excess is what the pool has beyond its fair share. excesses is the sum of the excesses of the
	// pools directly below it. Both are as of the round excessIn.
	excess, excesses resource.Amounts
	excessIn         uint64
	// way is the last selection that was made for an operation below the pool. branch is the child
	// that leads to this operation. beside is what the siblings on the way, in the pools below this
	// one, would give back. served says that one of the pools on the branch has its fair share.
	way    uint64
	branch *allocation.Element
	beside resource.Amounts
	served bool
	// reserves counts the nodes reserved for jobs below the pool. misses counts how many of its
	// last reservations in a row were in vain. keeps is the time before which no other reservation
	// is made after one in vain.
	reserves int64
	misses   int
	keeps    time.Time
	// failed is the last round in which the pool starved and no victims were found for a job that
	// needs failedFor.
	failed    uint64
	failedFor resource.Amounts
	// latest is the last update for which findLatest has marked jobs of the pool.
	latest uint64
	// paid is the share that volume paid for at the last update.
	paid resource.Vector
	// rate counts the preemptions of the last minute, if a rate limit applies to them.
	rate preemption.Rate
	// surplus says that no operation of the pool is scheduled; see update.surplus.
	surplus bool
}

func newPool(name scheduling.PoolName) *pool {
	p := &pool{element: newElement(fairshare.NewPool(string(name)), allocation.NewPool(string(name)))}
	p.name = name
	p.order.SetOwner(p)
	return p
}

// SetPool puts a pool below its parent, with this weight. It adds the pool, or moves an existing
// one with all that is below it.
func (e *Engine) SetPool(name, parent scheduling.PoolName, weight float64) error {
	p, above := e.tree.pools[name], e.tree.pools[parent]
	err := pooltree.ValidateWeight(weight)
	switch {
	case above == nil:
		err = fmt.Errorf("parent %q: %w", parent, ErrUnknown)
	case name == scheduling.RootPool:
		err = pooltree.ErrRootPool
	case err == nil && p != nil && above.order.Below(p.order):
		err = fmt.Errorf("parent %q: %w", parent, pooltree.ErrCycle)
	}
	if err != nil {
		return fmt.Errorf("set pool %q: %w", name, err)
	}
	if p == nil {
		p = newPool(name)
		e.tree.setEffective(p, e.tree.ofPool)
		e.tree.pools[name] = p
	}
	p.share.Weight, p.share.InferWeight = weight, false
	if p.parent != above {
		e.reservations.unreserve(p.order)
		p.detach()
		p.attach(above)
		e.cluster.layout++
	}
	e.moment.changed()
	return nil
}

// RemovePool removes a pool that holds neither pools nor operations.
func (e *Engine) RemovePool(name scheduling.PoolName) error {
	p := e.tree.pools[name]
	switch {
	case name == scheduling.RootPool:
		return fmt.Errorf("remove pool %q: %w", name, pooltree.ErrRootPool)
	case p == nil:
		return fmt.Errorf("remove pool %q: %w", name, ErrUnknown)
	case len(p.pools)+len(p.operations) > 0:
		return fmt.Errorf("remove pool %q: %w: it has %d pools and %d operations", name, ErrInUse, len(p.pools), len(p.operations))
	}
	p.detach()
	e.cluster.dropFilter(p.filter)
	delete(e.tree.pools, name)
	e.moment.stale = true
	return nil
}

// renamePools gives pools the names that they have in tree. A pool whose name now belongs to
// another pool gets a name that no pool can have, until it is removed.
func (tr *tree) renamePools(tree pooltree.Tree) {
	known := make(map[scheduling.PoolID]*pool, len(tr.pools))
	for _, p := range tr.pools {
		known[p.id] = p
	}
	to := map[*pool]scheduling.PoolName{}
	for _, p := range tree.Pools() {
		if p.ID == 0 {
			continue
		}
		here := tr.pools[p.Name]
		if here != nil && (here.id == p.ID || here.id == 0) {
			continue
		}
		if here != nil && to[here] == "" {
			to[here] = scheduling.PoolName(fmt.Sprintf("$%d", here.id))
		}
		if renamed := known[p.ID]; renamed != nil {
			to[renamed] = p.Name
		}
	}
	for p := range to {
		delete(tr.pools, p.name)
	}
	for p, name := range to {
		p.rename(name)
		tr.pools[name] = p
	}
}

// rename gives a pool below the root another name.
func (p *pool) rename(to scheduling.PoolName) {
	p.name, p.share.ID = to, string(to)
	above := p.parent.order
	// It is attached again because siblings that are otherwise equal are ordered by name.
	p.order.Detach()
	p.order.Rename(string(to))
	p.order.Attach(above)
	for _, op := range p.operations {
		op.Pool = to
	}
}

func (p *pool) attach(above *pool) {
	p.parent = above
	above.pools = append(above.pools, p)
	p.element.attach(&above.element)
}

func (p *pool) detach() {
	if p.parent == nil {
		return
	}
	p.parent.pools = without(p.parent.pools, p)
	p.element.detach()
	p.parent = nil
}

func without[T comparable](all []T, one T) []T {
	if i := slices.Index(all, one); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

// Pools returns all pools: the root first, each pool before those below it, siblings by name. It
// takes time in proportion to their number. Guaranteed shares are those of the last Snapshot.
func (e *Engine) Pools() []PoolView {
	return e.tree.viewPool(e.tree.root, make([]PoolView, 0, len(e.tree.pools)))
}

// Below reports whether, as of the last Tick, some element is below its fair share or its min
// share, and so may come to starve.
func (e *Engine) Below() bool { return e.update.below }

// Pressing reports whether, as of the last Tick, a heartbeat of a node on which no job has ended
// may lead to decisions. The result now is true if it may because elements starve, limits are
// exceeded, nodes are reserved, or a gang waits for room. The result gracefully is true if it may
// because operations are preempted gracefully.
func (e *Engine) Pressing() (now, gracefully bool) {
	now = e.repair.exceeded || len(e.reservations.reserved) > 0 || slices.ContainsFunc(e.gangs.all, func(g *gang) bool { return g.missing() > 0 && g.waiting() > 0 && !g.out })
	for _, starving := range e.stages.starving {
		now = now || len(starving) > 0
	}
	return now, e.graceful.any
}

package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

var (
	// ErrUnknown is returned when the engine has nothing of this name.
	ErrUnknown = errors.New("not known to the engine")
	// ErrExists is returned when the engine has something of this name.
	ErrExists = errors.New("known to the engine already")
	// ErrInUse is returned when a pool that is to go has pools or operations.
	ErrInUse = errors.New("still in use")
)

// Config is the settings of an engine.
type Config struct {
	// OvercommitDuration is how long a node may have less than its allocations
	// hold before some are preempted: long enough for limits that waver
	// (F.12.3).
	OvercommitDuration time.Duration
	// MaxStartsPerPlan limits the starts of one heartbeat batch, and so the size
	// of the proposal that is made of it.
	MaxStartsPerPlan int
}

// Default returns the settings of an engine that sets nothing.
func Default() Config {
	return Config{OvercommitDuration: 15 * time.Second, MaxStartsPerPlan: 10000}
}

// Validate returns an error that names the first setting that cannot be.
func (c Config) Validate() error {
	switch {
	case c.OvercommitDuration < 0:
		return fmt.Errorf("overcommit duration: %v is negative", c.OvercommitDuration)
	case c.MaxStartsPerPlan <= 0:
		return fmt.Errorf("max starts per plan: %d is not positive", c.MaxStartsPerPlan)
	}
	return nil
}

// Engine holds what is to be known of a pool tree for scheduling it. All methods
// are for one goroutine at a time.
type Engine struct {
	config Config

	// shares divides the cluster; its elements are those of pools and operations.
	shares      *fairshare.Tree
	root        *pool
	pools       map[scheduling.PoolName]*pool
	operations  map[scheduling.OperationID]*operation
	nodes       map[scheduling.NodeID]*node
	allocations map[scheduling.JobID]*holding
	inFlight    map[Ticket]*holding
	lastTicket  Ticket

	// total is the resources of all nodes that may run jobs.
	total resource.Amounts
	// bestPeriod is how often best allocation shares are found anew, out of memory:
	// the nodes by what they have. They are as well when nodes have changed.
	bestPeriod   time.Duration
	memory       []fairshare.NodeMemory
	nodesChanged bool
	// ticked is the time of the last fair share update.
	ticked time.Time
	// stale says that the tree has changed since.
	stale bool

	filler allocation.Filler
}

// New returns an engine whose tree has the root alone.
func New(config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	shares := fairshare.NewTree(fairshare.Default())
	root := &pool{name: scheduling.RootPool, share: shares.Root, order: allocation.NewPool(string(scheduling.RootPool))}
	return &Engine{
		config:      config,
		shares:      shares,
		bestPeriod:  pooltree.Default().Settings().BestAllocationSharePeriod,
		root:        root,
		pools:       map[scheduling.PoolName]*pool{scheduling.RootPool: root},
		operations:  map[scheduling.OperationID]*operation{},
		nodes:       map[scheduling.NodeID]*node{},
		allocations: map[scheduling.JobID]*holding{},
		inFlight:    map[Ticket]*holding{},
		stale:       true,
	}, nil
}

// Tick finds the fair shares of all pools and operations anew, from the demand
// and usage of this moment, and lets the time since the last one flow into volumes.
// In a cluster without resources all are 0.
func (e *Engine) Tick(now time.Time) (fairshare.Report, error) {
	if e.nodesChanged {
		e.countMemory()
	}
	e.prepare(e.root, now)
	e.nodesChanged = false
	report, err := e.shares.Update(e.total, now)
	if err != nil {
		return report, err
	}
	e.root.publish(e.total)
	e.root.order.Refresh()
	e.ticked, e.stale = now, false
	return report, nil
}

// prepare gives the update what changed since the last one.
func (e *Engine) prepare(p *pool, now time.Time) {
	for _, c := range p.pools {
		e.prepare(c, now)
	}
	for _, op := range p.operations {
		op.share.Usage = op.order.Usage()
		op.share.Demand, op.share.PendingJobs = op.demand()
		e.prepareBest(op, now)
	}
}

// prepareBest finds the best allocation share of an operation, if it is time to.
func (e *Engine) prepareBest(op *operation, now time.Time) {
	due := e.nodesChanged || op.bestAt.IsZero() || now.Sub(op.bestAt) >= e.bestPeriod
	if !due || op.share.Demand.IsZero() {
		return
	}
	op.bestAt = now
	op.share.BestAllocation = fairshare.BestAllocationShare(op.share.Demand, e.total, e.memory)
}

// countMemory counts the nodes that may run jobs by their memory.
func (e *Engine) countMemory() {
	nodes := map[int64]int64{}
	for _, n := range e.nodes {
		nodes[n.offer().Memory]++
	}
	e.memory = e.memory[:0]
	for bytes, count := range nodes {
		e.memory = append(e.memory, fairshare.NodeMemory{Bytes: bytes, Nodes: count})
	}
}

// publish gives the result of the update to the order of scheduling.
func (p *pool) publish(total resource.Amounts) {
	for _, c := range p.pools {
		c.publish(total)
	}
	for _, op := range p.operations {
		op.order.SetShares(op.share.FairShare, op.share.DemandShare, total)
	}
	p.order.SetShares(p.share.FairShare, p.share.DemandShare, total)
}

// pool is a pool of the tree.
type pool struct {
	name       scheduling.PoolName
	parent     *pool
	pools      []*pool
	operations []*operation
	share      *fairshare.Element
	order      *allocation.Element
}

func newPool(name scheduling.PoolName) *pool {
	return &pool{
		name:  name,
		share: fairshare.NewPool(string(name)),
		order: allocation.NewPool(string(name)),
	}
}

// SetPool puts a pool below its parent, with this weight: a new one, or one that
// is there with all that is below it.
func (e *Engine) SetPool(name, parent scheduling.PoolName, weight float64) error {
	above := e.pools[parent]
	if above == nil {
		return fmt.Errorf("set pool %q: parent %q: %w", name, parent, ErrUnknown)
	}
	if name == scheduling.RootPool {
		return fmt.Errorf("set pool %q: %w", name, pooltree.ErrRootPool)
	}
	if err := pooltree.ValidateWeight(weight); err != nil {
		return fmt.Errorf("set pool %q: %w", name, err)
	}
	p := e.pools[name]
	if p == nil {
		p = newPool(name)
		e.pools[name] = p
	}
	for q := above; q != nil; q = q.parent {
		if q == p {
			return fmt.Errorf("set pool %q: parent %q: %w", name, parent, pooltree.ErrCycle)
		}
	}
	p.share.Weight, p.share.InferWeight = weight, false
	if p.parent != above {
		p.detach()
		p.attach(above)
	}
	e.stale = true
	return nil
}

// RemovePool removes a pool that holds neither pools nor operations.
func (e *Engine) RemovePool(name scheduling.PoolName) error {
	p := e.pools[name]
	switch {
	case name == scheduling.RootPool:
		return fmt.Errorf("remove pool %q: %w", name, pooltree.ErrRootPool)
	case p == nil:
		return fmt.Errorf("remove pool %q: %w", name, ErrUnknown)
	case len(p.pools)+len(p.operations) > 0:
		return fmt.Errorf("remove pool %q: %w: it has %d pools and %d operations", name, ErrInUse, len(p.pools), len(p.operations))
	}
	p.detach()
	delete(e.pools, name)
	return nil
}

func (p *pool) attach(above *pool) {
	p.parent = above
	above.pools = append(above.pools, p)
	above.share.Children = append(above.share.Children, p.share)
	p.order.Attach(above.order)
}

func (p *pool) detach() {
	if p.parent == nil {
		return
	}
	p.parent.pools = without(p.parent.pools, p)
	p.parent.share.Children = without(p.parent.share.Children, p.share)
	p.order.Detach()
	p.parent = nil
}

func without[T comparable](all []T, one T) []T {
	if i := slices.Index(all, one); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

package engine

import (
	"errors"
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
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
	// of the proposal that is made of it. A gang that is larger has a batch of its own.
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
	shares     *fairshare.Tree
	root       *pool
	pools      map[scheduling.PoolName]*pool
	operations map[scheduling.OperationID]*operation
	nodes      map[scheduling.NodeID]*node
	// list has the nodes in no order, each at its place.
	list          []*node
	allocations   map[scheduling.JobID]*holding
	inFlight      map[Ticket]*holding
	lastTicket    Ticket
	claims        []*claim
	endedHoldings recycled[holding]
	endedLeaving  recycled[leaving]
	endedClaims   recycled[claim]

	// gangs are those of all operations, gathering is the one that room is held for; nil:
	// none. beats numbers heartbeats, and layout grows with every change of what nodes
	// have, and of who may use them.
	gangs         []*gang
	gathering     *gang
	beats, layout uint64
	// classes are the nodes that take jobs, or are about to, in a layout, with the filters
	// of so many edits.
	classes                []alike
	classified, classEdits uint64

	// total is the resources of all nodes that may run jobs, awaited that of those that are
	// about to be heard again.
	total, awaited resource.Amounts
	filters        filters
	// survey is what those see who ask, until the next update; nil: nobody has. surveys
	// numbers them.
	survey  *survey
	surveys uint64
	// settings are those of the tree, ofPool those of a pool that no tree has told
	// of.
	settings pooltree.Settings
	ofPool   pooltree.Effective
	// first is the time of the first Tick; connected says that nodes have had the
	// time to come back since, and those count no more that are awaited still.
	first     time.Time
	connected bool
	// memory is the nodes by what they have of it, out of which best allocation
	// shares are found, now and then and when nodes have changed.
	memory       []fairshare.NodeMemory
	nodesChanged bool
	// ticked is the time of the last fair share update, alerts what it found wrong.
	ticked time.Time
	alerts []fairshare.Alert
	// stale says that the tree has changed since.
	stale bool

	filler allocation.Filler
	// at is the node that is looked at.
	at      *node
	keepFor func(chosen *allocation.Element) bool
	admit   func(chosen *allocation.Element, task *allocation.Task, free resource.Amounts) (bool, allocation.Cause)
	// now is the time of the last heartbeat or update; unpacked lets jobs start on nodes that fit them
	// badly.
	now      time.Time
	unpacked bool

	// starving are the operations that may preempt others, by stage, as of the last
	// update; gracefully says that there are operations that are preempted gracefully,
	// exceeded that limits are, rated that pools have preemption_rate_limit. repairs numbers
	// the choices of jobs that have to go for limits.
	starving                    [stageCount][]*operation
	gracefully, exceeded, rated bool
	// choosy says that some of those that may preempt wait for nodes that their jobs fit well.
	choosy  bool
	repairs uint64
	// gentle is how many allocations leave gracefully.
	gentle int
	// reserved are the nodes on which something is kept for a job that needs more.
	reserved []*node
	// below says that somebody was below its fair share or its min share at the last update.
	below bool
	// round numbers the looks for victims, trial those for one job, walk those for who
	// took from whom.
	round, trial, walk uint64
	// age grows with every change that moves shares other than what jobs use.
	age      uint64
	digested digested
	// updates numbers the updates.
	updates uint64
	// memory that is used again
	scratch, others, late []*holding
	turns                 []turn
	starts                []Start
	preempts              []Preempt
}

// New returns an engine whose tree has the root alone.
func New(config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	shares := fairshare.NewTree(fairshare.Default())
	root := newPool(scheduling.RootPool)
	root.share = shares.Root
	e := &Engine{
		config:      config,
		shares:      shares,
		root:        root,
		pools:       map[scheduling.PoolName]*pool{scheduling.RootPool: root},
		operations:  map[scheduling.OperationID]*operation{},
		nodes:       map[scheduling.NodeID]*node{},
		allocations: map[scheduling.JobID]*holding{},
		inFlight:    map[Ticket]*holding{},
		stale:       true,
		beats:       1,
		layout:      1,
	}
	e.admit, e.keepFor = e.mayStart, e.reserve
	tree, err := pooltree.New(pooltree.Default())
	if err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	if e.ofPool, err = tree.Effective(scheduling.DefaultPool); err == nil {
		root.effective, err = tree.Effective(scheduling.RootPool)
	}
	if err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	e.settings = tree.Settings()
	return e, nil
}

// Tick finds the fair shares of all pools and operations anew, from the demand
// and usage of this moment, and lets the time since the last one flow into volumes.
// In a cluster without resources all are 0.
func (e *Engine) Tick(now time.Time) (fairshare.Report, error) {
	if e.nodesChanged {
		e.countMemory()
	}
	if e.first.IsZero() {
		e.first = now
	}
	e.connected = now.Sub(e.first) >= e.settings.NodeReconnectionTimeout
	e.now, e.survey = now, nil
	e.expireClaims(now)
	e.watchGang(now)
	e.seekReach()
	e.prepare(e.root, now)
	e.nodesChanged = false
	report, err := e.shares.Update(e.total, now)
	if err != nil {
		return report, err
	}
	e.alerts = append(e.alerts[:0], report.Alerts...)
	e.grow(e.root)
	e.root.order.Refresh()
	e.chargeReserved()
	e.publish(e.root, now.Sub(e.ticked))
	e.below = false
	e.starve(e.root, now)
	e.hungry()
	e.reviewReserved()
	e.findExcess(now)
	e.ticked, e.stale = now, false
	e.updates++
	return report, nil
}

// changed says that the tree is another than at the last update.
func (e *Engine) changed() {
	e.stale = true
	e.age++
}

// prepare gives the update what changed since the last one.
func (e *Engine) prepare(p *pool, now time.Time) {
	for _, c := range p.pools {
		e.prepare(c, now)
	}
	p.rate.Forget(now)
	p.share.Limits = e.limits(p.effective.Limits, p.filter)
	for _, op := range p.operations {
		op.share.Usage = op.order.Usage()
		op.share.Demand, op.share.PendingJobs = op.demand()
		op.share.Limits = e.limits(op.effective.Limits, op.filter)
		e.prepareBest(op, now)
	}
}

// prepareBest finds the best allocation share of an operation, if it is time to. One
// that asks for nothing has no shape.
func (e *Engine) prepareBest(op *operation, now time.Time) {
	if op.share.Demand.IsZero() {
		op.bestAt, op.share.BestAllocation = time.Time{}, resource.Ones
		return
	}
	if !e.nodesChanged && !op.bestAt.IsZero() && now.Sub(op.bestAt) < e.settings.BestAllocationSharePeriod {
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

// publish gives the result of the update to the order of scheduling, and to the groups
// of allocations.
func (e *Engine) publish(p *pool, passed time.Duration) {
	var kinds allocation.Kinds
	for _, c := range p.pools {
		c.bound(ceiling(c.share, p.share.LimitsShare, e.total))
		c.order.SetRank(rank(c.share))
		c.surplus = p.surplus || e.surplus(p, c.share)
		e.publish(c, passed)
		kinds = kinds.And(c.order.Kinds())
		parts := c.share.Parts()
		c.promised = parts.Strong.Add(parts.Integral)
		c.order.SetPromised(c.promised)
		e.owe(&c.debt, c.share, c.order, passed, c.effective.PoolSatisfaction)
	}
	for _, op := range p.operations {
		s := op.share
		op.bound(ceiling(s, p.share.LimitsShare, e.total))
		op.order.SetRank(rank(s))
		op.order.SetShares(s.FairShare, s.DemandShare, e.total, allocation.Kinds{})
		kinds = kinds.And(op.order.Kinds())
		promised := resource.Vector{}
		if e.settings.Preemption.GuaranteePriority {
			promised = s.PromisedParts().Total
		}
		op.order.SetPromised(promised)
		e.owe(&op.debt, s, op.order, passed, p.effective.PoolSatisfaction)
		op.order.SetEnabled(op.active() && !p.surplus && !e.surplus(p, s))
		op.groups.SetBounds(e.bounds(op))
	}
	p.order.SetShares(p.share.FairShare, p.share.DemandShare, e.total, kinds)
}

// surplus elements are those of a FIFO pool that have no fair share and come after as
// many as may be scheduled (F.13).
func (e *Engine) surplus(p *pool, s *fairshare.Element) bool {
	most := e.settings.Preemption.MaxSchedulableInFIFO
	return p.effective.Mode == pooltree.FIFO && s.FairShare.MaxComponent() <= resource.Epsilon && rank(s) >= most
}

// bounds are what the groups of an operation are cut by (F.12.1).
func (e *Engine) bounds(op *operation) preemption.Bounds {
	s := op.effective.Starvation
	return preemption.Bounds{
		Fair: op.share.FairShare, Demand: op.share.DemandShare, Total: e.total,
		AggressiveThreshold: s.AggressiveThreshold, Threshold: s.Satisfaction, Protected: s.Protected(),
		OnBoundPreemptible: e.settings.Preemption.OnBoundPreemptible,
		Aggressive:         e.allowsAggressive(op),
	}
}

// allowsAggressive reports whether an operation can be preempted aggressively.
func (e *Engine) allowsAggressive(op *operation) bool {
	return op.pool.effective.Preemption.AllowAggressive && (!op.Gang || e.settings.Preemption.AggressiveForGangs)
}

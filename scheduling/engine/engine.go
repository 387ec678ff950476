package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

var (
	// ErrUnknown is returned for a name or an id that the engine does not know.
	ErrUnknown = errors.New("not known to the engine")
	// ErrExists is returned for a name or an id that the engine already knows.
	ErrExists = errors.New("already known to the engine")
	// ErrInUse is returned when a pool to be removed still has pools or operations.
	ErrInUse = errors.New("still in use")
)

// Config is the settings of an engine.
type Config struct {
	// OvercommitDuration is how long the allocations of a node may hold more than it has before
	// some are preempted: long enough for limits that only fluctuate (F.12.3).
	OvercommitDuration time.Duration
	// MaxStartsPerPlan is the maximum number of starts of one batch of heartbeats. It bounds the
	// size of the proposal that is made of the batch. A larger gang has a batch of its own.
	MaxStartsPerPlan int
}

// Default returns the default settings.
func Default() Config {
	return Config{OvercommitDuration: 15 * time.Second, MaxStartsPerPlan: 10000}
}

// Validate returns an error that names the first invalid setting.
func (c Config) Validate() error {
	switch {
	case c.OvercommitDuration < 0:
		return fmt.Errorf("overcommit duration: %v is negative", c.OvercommitDuration)
	case c.MaxStartsPerPlan <= 0:
		return fmt.Errorf("max starts per plan: %d is not positive", c.MaxStartsPerPlan)
	}
	return nil
}

// Engine holds the scheduling state of one pool tree. Its methods are for one goroutine at a
// time.
//
// It has one value per concern: holdings embed claims, claims embed gangs, and gangs embed the
// tree.
type Engine struct {
	*holdings

	repair       *repair
	graceful     *graceful
	stages       *stages
	reservations *reservations
	placement    *placement
	update       *update
	inquiries    *inquiries
	// plan is the last plan; the next one reuses its memory.
	plan Plan
}

// New returns an engine whose tree has only the root.
func New(config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	pools, err := pooltree.New(pooltree.Default())
	if err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	m := &moment{config: config, settings: pools.Settings(), stale: true}
	cl := &cluster{moment: m, nodes: map[scheduling.NodeID]*node{}, layout: 1}
	tr, err := newTree(m, cl, pools)
	if err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	gs := &gangs{tree: tr, beats: 1}
	hs := &holdings{claims: &claims{gangs: gs}, allocations: map[scheduling.JobID]*holding{}, inFlight: map[Ticket]*holding{}}
	vs := &selector{holdings: hs}
	re := &repair{holdings: hs}
	gr := &graceful{holdings: hs, victims: vs, repair: re}
	st := &stages{holdings: hs, victims: vs, graceful: gr}
	rs := &reservations{tree: tr, graceful: gr}
	return &Engine{
		holdings: hs, repair: re, graceful: gr, stages: st, reservations: rs,
		placement: newPlacement(hs, gr, rs),
		update:    &update{gangs: gs},
		inquiries: &inquiries{gangs: gs, victims: vs, graceful: gr, stages: st},
	}, nil
}

// Tick computes the fair shares of all pools and operations from their current demand and usage,
// and accrues volumes for the time since the last Tick. In a cluster without resources all
// shares are 0.
func (e *Engine) Tick(now time.Time) (fairshare.Report, error) {
	if e.cluster.nodesChanged {
		e.cluster.countMemory()
	}
	if e.moment.first.IsZero() {
		e.moment.first = now
	}
	e.moment.connected = now.Sub(e.moment.first) >= e.moment.settings.NodeReconnectionTimeout
	e.moment.now, e.inquiries.survey = now, nil
	e.holdings.noteLengths(now)
	e.claims.expireClaims(now)
	e.claims.watchGang(now)
	e.update.seekReach()
	report, err := e.update.divide(now)
	e.cluster.nodesChanged = false
	if err != nil {
		return report, err
	}
	e.update.alerts = append(e.update.alerts[:0], report.Alerts...)
	e.update.grow(e.tree.root)
	e.tree.root.order.Refresh()
	e.reservations.chargeReserved()
	e.update.publish(e.tree.root, now.Sub(e.update.ticked))
	e.update.below = false
	e.update.starve(e.tree.root, now)
	e.stages.findStarving()
	e.reservations.reviewReserved()
	e.repair.findExcess(now)
	e.update.ticked, e.moment.stale = now, false
	e.moment.updates++
	return report, nil
}

// moment is what all decisions depend on: the time, and the settings in force.
type moment struct {
	config Config
	// settings are the tree's.
	settings pooltree.Settings
	// now is the time of the last heartbeat or update. at is the node that is being filled.
	now time.Time
	at  *node
	// first is the time of the first Tick. connected says that the time for nodes to reconnect has
	// passed since the first Tick, so that awaited nodes no longer count.
	first     time.Time
	connected bool
	// updates counts the updates. stale says that the tree has changed since the last update.
	updates uint64
	stale   bool
	// age is incremented with every change that moves shares, except changes of what jobs use.
	age uint64
}

// changed notes that the tree differs from that of the last update.
func (m *moment) changed() {
	m.stale = true
	m.age++
}

// allowed returns what an element may use. A ceiling changes with the nodes of the cluster. So it
// counts only once usage has exceeded it for OvercommitDuration, as on a node that has shrunk.
func (m *moment) allowed(of *element, now time.Time) resource.Amounts {
	if of.beyond.IsZero() || now.Sub(of.beyond) < m.config.OvercommitDuration {
		return of.limits
	}
	return of.limits.Min(of.ceiling)
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

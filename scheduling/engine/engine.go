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
//
// It is put together from one value a concern, each of which knows only those above it here:
// holdings have claims in them, these gangs, and these the tree.
type Engine struct {
	*holdings

	repair       *repair
	graceful     *graceful
	stages       *stages
	reservations *reservations
	placement    *placement
	update       *update
	inquiries    *inquiries
	// plan is the last one, whose memory is used again.
	plan Plan
}

// New returns an engine whose tree has the root alone.
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

// Tick finds the fair shares of all pools and operations anew, from the demand
// and usage of this moment, and lets the time since the last one flow into volumes.
// In a cluster without resources all are 0.
func (e *Engine) Tick(now time.Time) (fairshare.Report, error) {
	if e.cluster.nodesChanged {
		e.cluster.countMemory()
	}
	if e.moment.first.IsZero() {
		e.moment.first = now
	}
	e.moment.connected = now.Sub(e.moment.first) >= e.moment.settings.NodeReconnectionTimeout
	e.moment.now, e.inquiries.survey = now, nil
	e.claims.expireClaims(now)
	e.claims.watchGang(now)
	e.update.seekReach()
	e.update.prepare(e.tree.root, now)
	e.cluster.nodesChanged = false
	report, err := e.tree.shares.Update(e.cluster.total, now)
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

// moment is what all decisions go by: the time, and the settings that hold.
type moment struct {
	config Config
	// settings are those of the tree.
	settings pooltree.Settings
	// now is the time of the last heartbeat or update; at is the node that is looked at.
	now time.Time
	at  *node
	// first is the time of the first Tick; connected says that nodes have had the
	// time to come back since, and those count no more that are awaited still.
	first     time.Time
	connected bool
	// updates numbers the updates; stale says that the tree has changed since the last one.
	updates uint64
	stale   bool
	// age grows with every change that moves shares other than what jobs use.
	age uint64
}

// changed says that the tree is another than at the last update.
func (m *moment) changed() {
	m.stale = true
	m.age++
}

// allowed is what an element may use. A ceiling moves with the nodes that there
// are: as with the jobs of a node that has shrunk, nothing has to go before that has lasted.
func (m *moment) allowed(of *element, now time.Time) resource.Amounts {
	if of.beyond.IsZero() || now.Sub(of.beyond) < m.config.OvercommitDuration {
		return of.limits
	}
	return of.limits.Min(of.ceiling)
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

package fairshare

import (
	"fmt"
	"math"
	"time"

	"weir/scheduling/resource"
)

// Tree divides a cluster among the elements below Root. One goroutine at a time
// may use it and its elements.
type Tree struct {
	Options Options
	// Root is a fair-share pool.
	Root *Element
	// Updated is the time of the last update, from which volume flows in. It is zero before the
	// first update, unless it is set together with restored volumes.
	Updated time.Time

	total resource.Amounts
	// pools are all pools, each before the pools below it. burst and relaxed are the pools with
	// volume, each after the pools below it.
	pools, burst, relaxed []*Element
	alerts                []Alert
	operations            int
	// promisers are the pools that compute promised fair shares.
	promisers []*Element
	// ratio is what the dominant shares of operations are multiplied by to get their FairShareRatio.
	ratio float64
	// guaranteed means that GuaranteedShare is up to date with this update.
	guaranteed bool
	// updates counts the updates. whole means that this one computes everything. touched are
	// pools with new input. base is what UpdateChanged builds on.
	updates uint64
	whole   bool
	touched touched
	base    base

	// points holds all functions by suggestion. fits holds the functions by fit factor of pools in
	// vector mode.
	points, fits []point
	summer       summer
	top          top
	// Scratch memory: takers is for distribute and grantRound, shares is for tierFactor, claimants is
	// for guaranteeByWeight.
	takers    []*Element
	shares    []resource.Vector
	claimants []claimant
}

// Report says what an update found.
type Report struct {
	// At is the time of the update.
	At time.Time
	// Pools and Operations count the elements, including the root.
	Pools, Operations int
	// Alerts are valid until the next update.
	Alerts []Alert
}

// NewTree returns a tree with nothing but the root.
func NewTree(o Options) *Tree {
	return &Tree{Options: o, Root: NewPool("<Root>")}
}

// Update computes the fair share of every element, and its parts, as parts of `total` (F.3). A time
// before the last update counts as that time.
//
// The error names an element with an invalid weight. Shares are then meaningless, and volumes are
// unchanged.
func (t *Tree) Update(total resource.Amounts, now time.Time) (Report, error) {
	t.begin(true)
	t.total, t.base.known = total, false
	t.points, t.fits, t.alerts, t.promisers = t.points[:0], t.fits[:0], t.alerts[:0], t.promisers[:0]
	t.pools, t.burst, t.relaxed, t.operations = t.pools[:0], t.burst[:0], t.relaxed[:0], 0
	if err := t.read(t.Root, nil); err != nil {
		return Report{At: now}, err
	}
	t.readPools()
	t.updateVolumes(now)
	t.adjustGuarantees()
	t.reorderFIFO()
	report := t.divide(now)
	t.base = base{known: true, options: t.Options, points: len(t.points)}
	return report, nil
}

// divide grants what volumes pay for, and assigns shares.
func (t *Tree) divide(now time.Time) Report {
	t.grantBurst()
	t.grantRelaxed()
	t.prepareTop()
	t.assignAll()
	return Report{At: now, Pools: len(t.pools), Operations: t.operations, Alerts: t.alerts}
}

// read reads the input of e and all below it, and sums it bottom-up.
func (t *Tree) read(e, parent *Element) error {
	if math.IsNaN(e.Weight) || e.Weight < 0 || math.IsInf(e.Weight, 0) {
		return fmt.Errorf("update fair share of %q: weight %v is not a finite number of at least 0", e.ID, e.Weight)
	}
	e.parent = parent
	e.ready = false
	e.FIFOIndex, e.EffectiveFIFOIndex = -1, -1
	e.PromisedFairShare = resource.Vector{}
	e.readLimits(t.total, t.Root.LimitsShare)
	if e.Pool == nil {
		t.operations++
		e.schedulable = e.Demand != e.Usage
		e.readShares(t.total)
		t.prepareOperation(e)
		return nil
	}
	return t.readChildren(e)
}

// readChildren reads the input below a pool.
func (t *Tree) readChildren(e *Element) error {
	p := e.Pool
	p.index, p.inputs, p.own, p.trial = len(t.pools), 1, built{}, built{}
	t.pools = append(t.pools, e)
	e.Demand, e.Usage = resource.Amounts{}, resource.Amounts{}
	e.schedulable = false
	e.sortChildren()
	p.subpools, p.branches = p.subpools[:0], p.branches[:0]
	for i, c := range e.Children {
		if err := t.read(c, e); err != nil {
			return err
		}
		if c.Pool != nil {
			c.Pool.place = i
			p.subpools = append(p.subpools, c)
		}
		if p.Mode == FIFO {
			c.FIFOIndex = int32(i)
		}
		e.Demand, e.Usage = e.Demand.Add(c.Demand), e.Usage.Add(c.Usage)
		e.schedulable = e.schedulable || c.schedulable
		p.branches = append(p.branches, c.branch())
	}
	e.readShares(t.total)
	return nil
}

func (e *Element) readShares(total resource.Amounts) {
	e.DemandShare, e.UsageShare = resource.Share(e.Demand, total), resource.Share(e.Usage, total)
}

// readLimits computes the limits share (F.2; L2).
func (e *Element) readLimits(total resource.Amounts, unlimited resource.Vector) {
	switch {
	case e.parent == nil || e.Limits != resource.Infinite:
		e.LimitsShare = resource.Share(e.Limits.Min(total), total)
	default:
		e.LimitsShare = unlimited
	}
	if e.Pool == nil {
		e.LimitsShare = e.LimitsShare.Min(e.BestAllocation)
	}
	if e.parent != nil && e.MaxShareRatio >= 0 {
		e.LimitsShare = e.LimitsShare.Min(e.parent.LimitsShare.Scale(e.MaxShareRatio))
	}
}

// readPools infers guarantees and computes ratios, which step 1 of F.3 does before volumes.
func (t *Tree) readPools() {
	for _, e := range t.pools {
		e.IntegralShare, e.Pool.round = resource.Vector{}, 0
		t.inferGuarantees(e)
	}
	t.listIntegral(t.Root)
	for i := len(t.pools) - 1; i >= 0; i-- {
		t.pools[i].addUp(t.total, t.Options.CapacityPeriod)
	}
	t.checkPromises()
}

// listIntegral lists the pools with volume, each after the pools below it.
func (t *Tree) listIntegral(e *Element) {
	for _, c := range e.subpools() {
		t.listIntegral(c)
	}
	switch e.Pool.Integral.Type {
	case Burst:
		t.burst = append(t.burst, e)
	case Relaxed:
		t.relaxed = append(t.relaxed, e)
	case NoIntegral:
	}
}

// addUp computes the integral ratios of a pool, including the pools below it (F.5.2).
func (e *Element) addUp(total resource.Amounts, capacityPeriod time.Duration) {
	p := e.Pool
	p.SpecifiedBurstRatio, p.SpecifiedFlowRatio = 0, 0
	if p.Integral.Type != NoIntegral {
		p.SpecifiedBurstRatio = resource.MaxRatio(p.Integral.Burst, total)
		p.SpecifiedFlowRatio = resource.MaxRatio(p.Integral.Flow, total)
	}
	p.BurstRatio = p.SpecifiedBurstRatio
	p.TotalBurstRatio, p.TotalFlowRatio = p.SpecifiedBurstRatio, p.SpecifiedFlowRatio
	p.Capacity = resource.VolumeOf(total, capacityPeriod).Scale(p.SpecifiedFlowRatio)
	for _, c := range e.subpools() {
		p.TotalBurstRatio += c.Pool.TotalBurstRatio
		p.TotalFlowRatio += c.Pool.TotalFlowRatio
	}
}

// checkPromises lists the pools that compute promised fair shares, and alerts on pools below them
// that ask for the same (F.5.6).
func (t *Tree) checkPromises() {
	for _, e := range t.pools {
		switch {
		case !e.Pool.ComputePromised:
		case e.promiserAbove():
			t.alerts = append(t.alerts, Alert{AlertNestedPromise, e.ID})
		default:
			t.promisers = append(t.promisers, e)
		}
	}
}

func (e *Element) promiserAbove() bool {
	for p := e.parent; p != nil; p = p.parent {
		if p.Pool.ComputePromised {
			return true
		}
	}
	return false
}

// weight returns the effective weight of an element: the configured weight, or the one inferred from
// its guarantee, or 1 (F.2).
func (t *Tree) weight(e *Element) float64 {
	if !e.InferWeight {
		return e.Weight
	}
	if t.Options.InferWeight > 0 && e.Pool != nil && e.parent != nil {
		own, all := e.guaranteed(), e.parent.guaranteed()
		if own >= resource.Epsilon && all >= resource.Epsilon {
			return t.Options.InferWeight * own / all
		}
	}
	return 1
}

func (e *Element) guaranteed() float64 {
	return e.StrongGuaranteeShare.MaxComponent() + e.Pool.TotalFlowRatio
}

// prepareOperation builds the function of an operation, and reports whether it has changed.
func (t *Tree) prepareOperation(e *Element) (changed bool) {
	from := len(t.points)
	step := e.Gang && t.Options.GangStep && e.parent.Pool.GangStep
	t.points = operationBySuggestion(t.points, e.UsageShare, e.DemandShare, e.LimitsShare, step)
	e.LimitedDemandShare = t.points[len(t.points)-1].share
	if t.whole {
		e.bySuggestion = endOf(t.points, from)
		return true
	}
	t.points, changed = e.bySuggestion.keep(t.points, from)
	return changed
}

// prepare builds the functions of a pool, and of the pools below it, that are not ready.
func (t *Tree) prepare(e *Element) {
	if e.ready {
		return
	}
	e.ready = true
	t.prepareBelow(e)
	own := &e.Pool.own
	if own.isFor(e) {
		return
	}
	if t.build(e, own) {
		t.touched.add(e, t.updates)
		if e.parent != nil {
			e.parent.Pool.inputs++
		}
	}
	f := own.function.of(t.points)
	e.bySuggestion, e.LimitedDemandShare = own.function, f[len(f)-1].share
}

func (t *Tree) prepareBelow(e *Element) {
	for _, c := range e.subpools() {
		t.prepare(c)
		b := &e.Pool.branches[c.Pool.place]
		b.function, b.weight = c.bySuggestion, t.weight(c)
	}
}

// build builds the function of a pool for what is granted now, from those of its children, and
// reports whether it has changed.
func (t *Tree) build(e *Element, b *built) (changed bool) {
	var f []point
	if e.Pool.Mode == FIFO {
		f = t.fifoByFit(e)
	} else {
		f = t.poolByFit(e.Pool.branches)
	}
	if t.Options.VectorFitFactor {
		from := len(t.fits)
		t.fits = append(t.fits, f...)
		e.byFit = span{from: int32(from), to: int32(len(t.fits))}
	}
	from := len(t.points)
	b.inputs, b.guarantee, b.limits = e.Pool.inputs, e.GuaranteeShare(), e.LimitsShare
	t.points = bySuggestion(t.points, f, b.guarantee, b.limits)
	if t.whole {
		b.function = endOf(t.points, from)
		return true
	}
	t.points, changed = b.function.keep(t.points, from)
	return changed
}

// try builds the function of a pool as if what is granted now were final.
func (t *Tree) try(e *Element) {
	t.prepareBelow(e)
	if !e.Pool.trial.isFor(e) {
		t.build(e, &e.Pool.trial)
	}
}

// beyondGuarantee returns what e takes at suggestion s beyond its strong guarantee and the integral
// share granted so far, by the function that was tried.
func (t *Tree) beyondGuarantee(e *Element, s float64) resource.Vector {
	share, _ := lens{scale: 1}.left(e.Pool.trial.function.of(t.points), s)
	return share.Sub(e.GuaranteeShare()).Max(resource.Vector{})
}

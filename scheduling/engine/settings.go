package engine

import (
	"fmt"
	"slices"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// SetTree replaces the pools of the engine, and their settings, by those of tree. A renamed pool
// keeps its volume and its other state. SetTree returns an error if a pool that is no longer in the
// tree has operations. The engine is then changed in part, but consistent.
func (e *Engine) SetTree(tree pooltree.Tree) error {
	e.moment.stale = true
	e.tree.renamePools(tree)
	e.moment.settings = tree.Settings()
	e.tree.shares.Options = shareOptions(e.moment.settings)
	e.tree.rated = false
	effective, err := tree.Effective(scheduling.RootPool)
	if err != nil {
		return fmt.Errorf("set tree: %w", err)
	}
	e.tree.setEffective(e.tree.root, effective)
	// Parents come first: a parent is in its final place before its children move below it, so no
	// move makes a cycle.
	for _, p := range tree.ParentsFirst() {
		effective, err := tree.Effective(p.Name)
		if err != nil {
			return fmt.Errorf("set tree: %w", err)
		}
		if err := e.SetPool(p.Name, p.Parent, effective.Weight); err != nil {
			return fmt.Errorf("set tree: %w", err)
		}
		e.tree.pools[p.Name].id = p.ID
		setShare(e.tree.pools[p.Name].share, p.Options, effective)
		e.tree.setEffective(e.tree.pools[p.Name], effective)
	}
	return e.removeOthers(e.tree.root, tree)
}

// setEffective applies the settings in force to a pool and to the operations in it.
func (tr *tree) setEffective(p *pool, to pooltree.Effective) {
	p.effective = to
	tr.cluster.layout++
	p.filter = tr.cluster.changeFilter(p.filter, to.TagFilter)
	p.fifo = to.Mode == pooltree.FIFO
	p.bound(to.Limits, keptCeiling(p.share, p.ceiling))
	p.order.SetTolerance(to.Preemption.LimitTolerance)
	tr.rated = tr.rated || to.Preemption.RateLimit != pooltree.NoRateLimit
	p.order.SetFilter(p.filter)
	p.order.SetOrder(allocation.Order{
		FIFO: p.fifo, ByOperations: !to.PoolSatisfaction, NoGuaranteesFirst: !tr.moment.settings.Preemption.GuaranteePriority,
	})
	for _, op := range p.operations {
		tr.settle(op)
	}
}

func (e *Engine) removeOthers(p *pool, tree pooltree.Tree) error {
	for _, c := range slices.Clone(p.pools) {
		if err := e.removeOthers(c, tree); err != nil {
			return err
		}
		if !tree.Has(c.name) {
			if err := e.RemovePool(c.name); err != nil {
				return fmt.Errorf("set tree: %w", err)
			}
		}
	}
	return nil
}

// shareOptions returns the settings of a tree on which fair shares depend.
func shareOptions(s pooltree.Settings) fairshare.Options {
	return fairshare.Options{
		MainResource:          s.MainResource,
		SmoothPeriod:          s.SmoothPeriod,
		CapacityPeriod:        s.PoolCapacitySaturation,
		RelaxedMultiplier:     s.RelaxedShareMultiplierLimit,
		DistributesFreeVolume: s.DistributeFreeVolume,
		InferWeight:           s.InferWeightMultiplier,
		GangStep:              s.GangStepFunction,
		FIFOReordering:        s.FIFOReordering,
		VectorFitFactor:       s.ImprovedFitFactor,
		DistributionGap:       s.ImprovedFitFactorDistributionGap,
	}
}

// setShare applies settings to the element of a pool. Its volume stays.
func setShare(e *fairshare.Element, o pooltree.PoolOptions, effective pooltree.Effective) {
	e.InferWeight = !effective.Weighted
	e.MaxShareRatio = or(o.MaxShareRatio, fairshare.NoShareRatio)
	p := e.Pool
	p.Mode, p.SortBy = modes[effective.Mode], make([]fairshare.SortKey, 0, len(effective.FIFOSort))
	for _, name := range effective.FIFOSort {
		if key, known := sortKeys[name]; known {
			p.SortBy = append(p.SortBy, key)
		}
	}
	p.StrongGuarantee = fairshare.Guarantee(or(o.StrongGuarantee, pooltree.Resources{}))
	p.GangStep = or(o.GangStepFunction, true)
	p.FIFOReordering = o.FIFOReordering
	p.ComputePromised = or(o.PromisedFairShare, false)
	p.PriorityAdjustment = or(o.PriorityGuarantee, false)
	p.PriorityDonor = or(o.PriorityGuaranteeDonorship, false)
	p.Integral = fairshare.Integral{AcceptsFreeVolume: true}
	if g := o.Integral; g != nil {
		p.Integral = fairshare.Integral{
			Type:                  guaranteeTypes[o.Guarantee()],
			Flow:                  g.ResourceFlow.Or(resource.Amounts{}),
			Burst:                 g.BurstGuarantee.Or(resource.Amounts{}),
			RelaxedMultiplier:     or(g.RelaxedMultiplier, 0),
			AcceptsFreeVolume:     or(g.CanAcceptFreeVolume, true),
			DistributesFreeVolume: g.DistributeFreeVolume,
		}
	}
}

// Values of settings by their names.
var (
	modes          = map[string]fairshare.Mode{pooltree.FIFO: fairshare.FIFO}
	guaranteeTypes = map[string]fairshare.GuaranteeType{pooltree.Burst: fairshare.Burst, pooltree.Relaxed: fairshare.Relaxed}
	sortKeys       = map[string]fairshare.SortKey{
		pooltree.SortByWeight: fairshare.ByWeight, pooltree.SortByStartTime: fairshare.ByStartTime, pooltree.SortByPendingJobCount: fairshare.ByPendingJobs,
	}
)

func or[T any](set *T, missing T) T {
	if set == nil {
		return missing
	}
	return *set
}

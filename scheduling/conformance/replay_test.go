package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// epoch is when every case begins.
var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// replay runs the case with each set of options and compares what comes of it.
func (c *testCase) replay(r *result) error {
	sets, err := c.matrix()
	if err == nil {
		err = c.generate()
	}
	if err != nil {
		return err
	}
	for _, set := range sets {
		w, err := c.run(set)
		if err != nil {
			return err
		}
		k := checker{result: r, world: w, name: fmt.Sprintf("%s %v", c.Name, set)}
		if err := k.check(); err != nil {
			return err
		}
	}
	return nil
}

// world is a case that is being replayed.
type world struct {
	*testCase
	tree     *fairshare.Tree
	elements map[string]*fairshare.Element
	total    resource.Amounts
	report   fairshare.Report
	now      time.Time
	// settings are those of the tree and the pools, ofOperations those of operations.
	settings     pooltree.Tree
	ofOperations map[string]pooltree.EffectiveOperation
	clocks       map[string]*preemption.Clock
}

// run does the updates of the case.
func (c *testCase) run(set options) (*world, error) {
	w := &world{
		testCase: c, tree: fairshare.NewTree(fairshare.Default()), elements: map[string]*fairshare.Element{}, now: epoch,
		ofOperations: map[string]pooltree.EffectiveOperation{}, clocks: map[string]*preemption.Clock{},
	}
	w.elements["<Root>"] = w.tree.Root
	var err error
	if w.total, err = c.Total.exact(); err != nil {
		return nil, err
	}
	if err := w.readSettings(); err != nil {
		return nil, err
	}
	for _, p := range c.Prior {
		if err := w.prior(p, set); err != nil {
			return nil, fmt.Errorf("prior_updates: %w", err)
		}
	}
	if c.Timeline == nil {
		return w, w.update(c.Pools, c.Operations, set, c.Elapsed)
	}
	return w, w.playTimeline(set)
}

// playTimeline updates at each moment of the timeline.
func (w *world) playTimeline(set options) error {
	var before *float64
	for _, m := range w.Timeline {
		if !m.Update {
			continue
		}
		var elapsed *float64
		if before != nil {
			passed := m.At - *before
			elapsed = &passed
		} else {
			w.now = w.now.Add(seconds(m.At))
		}
		if err := w.update(w.Pools, w.Operations, set, elapsed); err != nil {
			return fmt.Errorf("timeline: %w", err)
		}
		before = &m.At
	}
	return nil
}

// prior does an update before the one that is compared.
func (w *world) prior(p priorUpdate, set options) error {
	pools, operations := slices.Clone(w.Pools), slices.Clone(w.Operations)
	for id, override := range p.PoolOverrides {
		i := slices.IndexFunc(pools, func(c poolCase) bool { return c.ID == id })
		if i < 0 {
			return fmt.Errorf("pool_overrides: unknown pool %q", id)
		}
		if err := strict(override, &pools[i]); err != nil {
			return fmt.Errorf("pool_overrides: %w", err)
		}
	}
	for id, override := range p.OperationOverrides {
		i := slices.IndexFunc(operations, func(c operationCase) bool { return c.ID == id })
		if i < 0 {
			return fmt.Errorf("operation_overrides: unknown operation %q", id)
		}
		if err := strict(override, &operations[i]); err != nil {
			return fmt.Errorf("operation_overrides: %w", err)
		}
	}
	operations = slices.DeleteFunc(operations, func(c operationCase) bool { return slices.Contains(p.Absent, c.ID) })
	return w.update(pools, operations, set.with(p.Options), p.Elapsed)
}

// update sets the tree up anew and updates it.
func (w *world) update(pools []poolCase, operations []operationCase, set options, elapsed *float64) error {
	if err := w.configure(set); err != nil {
		return err
	}
	for _, e := range w.elements {
		e.Children = e.Children[:0]
	}
	for i := range pools {
		if err := w.setPool(&pools[i], int64(i)); err != nil {
			return fmt.Errorf("pool %q: %w", pools[i].ID, err)
		}
	}
	for i := range operations {
		if err := w.setOperation(&operations[i], int64(i)); err != nil {
			return fmt.Errorf("operation %q: %w", operations[i].ID, err)
		}
	}
	if w.NoUpdate {
		return nil
	}
	w.tree.Updated = time.Time{}
	if elapsed != nil {
		w.tree.Updated = w.now
		w.now = w.now.Add(seconds(*elapsed))
	}
	var err error
	if w.report, err = w.updateTree(); err != nil {
		return err
	}
	return w.judge(w.tree.Root)
}

func (w *world) configure(set options) error {
	o := fairshare.Default()
	if w.SmoothPeriod != nil {
		o.SmoothPeriod = seconds(*w.SmoothPeriod)
	}
	for name, value := range set {
		switch name {
		case "gang_step_function":
			o.GangStep = value
		case "fifo_reordering":
			o.FIFOReordering = value
		case "improved_fit_factor":
			o.VectorFitFactor = value
		case "fast_fifo":
			// The function of a FIFO pool is always made in linear time.
		default:
			return fmt.Errorf("unknown option %q", name)
		}
	}
	w.tree.Options = o
	return nil
}

func (w *world) setPool(c *poolCase, rank int64) error {
	e := w.elements[c.ID]
	if e == nil {
		e = fairshare.NewPool(c.ID)
		w.elements[c.ID] = e
		if err := setVolume(e.Pool, c.Integral); err != nil {
			return err
		}
	}
	p := e.Pool
	var err error
	if c.Truncates {
		return errors.New("fair_share_truncation_in_fifo is not there any more")
	}
	switch c.Mode {
	case "fair_share":
		p.Mode = fairshare.FairShare
	case "fifo":
		p.Mode = fairshare.FIFO
	default:
		return fmt.Errorf("unknown mode %q", c.Mode)
	}
	if p.StrongGuarantee, err = c.StrongGuarantee.named(); err != nil {
		return err
	}
	if p.SortBy, err = w.sortKeys(c.ID); err != nil {
		return err
	}
	p.ComputePromised = c.ComputePromised
	p.FIFOReordering = c.FIFOReordering
	p.GangStep = c.GangStep == nil || *c.GangStep
	p.PriorityAdjustment, p.PriorityDonor = c.PriorityAdjustment, c.PriorityDonor
	if err := setIntegral(p, c.Integral); err != nil {
		return err
	}
	p.Integral.DistributesFreeVolume = c.DistributesFree
	if c.MaxShareRatio != nil {
		e.MaxShareRatio = *c.MaxShareRatio
	}
	return w.place(e, c.Parent, rank, c.Weight, c.Limits)
}

func setIntegral(p *fairshare.Pool, c *integralCase) (err error) {
	p.Integral = fairshare.Integral{AcceptsFreeVolume: true}
	if c == nil {
		return nil
	}
	switch c.Type {
	case "none":
	case "burst":
		p.Integral.Type = fairshare.Burst
	case "relaxed":
		p.Integral.Type = fairshare.Relaxed
	default:
		return fmt.Errorf("unknown guarantee type %q", c.Type)
	}
	if p.Integral.Flow, err = c.Flow.exact(); err != nil {
		return err
	}
	if p.Integral.Burst, err = c.Burst.exact(); err != nil {
		return err
	}
	if c.Multiplier != nil {
		p.Integral.RelaxedMultiplier = *c.Multiplier
	}
	p.Integral.AcceptsFreeVolume = c.AcceptsFree == nil || *c.AcceptsFree
	return nil
}

func setVolume(p *fairshare.Pool, c *integralCase) error {
	if c == nil {
		return nil
	}
	for name, volume := range c.Volume {
		k, err := resource.ParseKind(name)
		if err != nil {
			return err
		}
		p.Volume = p.Volume.With(k, volume)
	}
	return nil
}

func (w *world) setOperation(c *operationCase, rank int64) (err error) {
	e := w.elements[c.ID]
	if e == nil {
		e = fairshare.NewOperation(c.ID)
		w.elements[c.ID] = e
	}
	if e.Demand, err = c.Demand.exact(); err != nil {
		return err
	}
	if e.Usage, err = c.Usage.exact(); err != nil {
		return err
	}
	e.Gang, e.PendingJobs = c.Gang, e.Demand.Sub(e.Usage).UserSlots
	if jobs, ok := w.Pending[c.ID]; ok {
		e.PendingJobs = jobs.Count
		var memory []fairshare.NodeMemory
		for _, n := range w.Nodes {
			have, err := n.Resources.exact()
			if err != nil {
				return err
			}
			memory = append(memory, fairshare.NodeMemory{Bytes: have.Memory, Nodes: int64(n.count())})
		}
		e.BestAllocation = fairshare.BestAllocationShare(e.Demand, w.total, memory)
	}
	return w.place(e, c.Parent, rank, c.Weight, c.Limits)
}

// place puts an element below its parent.
func (w *world) place(e *fairshare.Element, parent string, rank int64, weight *float64, limits amounts) (err error) {
	above := w.elements[parent]
	if above == nil || above.Pool == nil {
		return fmt.Errorf("unknown parent %q", parent)
	}
	above.Children = append(above.Children, e)
	e.Rank, e.Weight = rank, 1
	if weight != nil {
		e.Weight = *weight
	}
	e.Limits, err = resource.FromMapOr(limits, resource.Infinite)
	return err
}

// tagLimits is what the nodes have that the filter takes: the element's own one,
// and no other.
func (w *world) tagLimits(id string) (resource.Amounts, error) {
	text, found := "", false
	for _, p := range w.Pools {
		if p.ID == id {
			text, found = p.TagFilter, true
		}
	}
	for _, op := range w.Operations {
		if op.ID == id {
			text, found = op.TagFilter, true
		}
	}
	if !found {
		return resource.Amounts{}, errors.New("unknown element")
	}
	filter, err := pooltree.ParseFilter(text)
	if err != nil {
		return resource.Amounts{}, err
	}
	var sum resource.Amounts
	for _, n := range w.Nodes {
		have, err := n.Resources.exact()
		if err != nil {
			return resource.Amounts{}, err
		}
		if filter.Match(n.Tags) {
			sum = sum.Add(have.Times(int64(n.count())))
		}
	}
	return sum, nil
}

func (n nodeCase) count() int {
	if n.Count == nil {
		return 1
	}
	return *n.Count
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

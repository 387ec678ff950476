package pooltree

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// TreeOptions are the options of a tree that were set (F.17.1). A nil one takes its
// default. What the pointers point to must not be changed.
type TreeOptions struct {
	NodesFilter  *Filter `option:"nodes_filter" alias:"node_tag_filter" kind:"filter" help:"which nodes are of the tree: tags with & | ! and parentheses"`
	MainResource *string `option:"main_resource" values:"user_slots,cpu,gpu,memory,network" help:"resource that guarantees of the others are inferred from"`

	MaxOperationCount               *int64  `option:"max_operation_count" help:"operations in the tree that have not ended"`
	MaxRunningOperationCount        *int64  `option:"max_running_operation_count" help:"operations of the tree that run"`
	MaxOperationCountPerPool        *int64  `option:"max_operation_count_per_pool" help:"max_operation_count of pools that set none"`
	MaxRunningOperationCountPerPool *int64  `option:"max_running_operation_count_per_pool" help:"max_running_operation_count of pools that set none"`
	DefaultParentPool               *string `option:"default_parent_pool" help:"where ephemeral pools are made; when set, operations that name no pool go to one of their user's name there"`
	ForbidImmediateInRoot           *bool   `option:"forbid_immediate_operations_in_root" help:"no operation directly in the root"`
	MaxEphemeralPoolsPerUser        *int64  `option:"max_ephemeral_pools_per_user" alias:"max_ephemeral_pool_per_user" help:"ephemeral pools of one user at a time, besides the one of the user's name"`

	Starvation
	EnablePoolStarvation *bool          `option:"enable_pool_starvation" help:"pools starve as operations do"`
	PoolSatisfaction     *bool          `option:"use_pool_satisfaction_for_scheduling" help:"pools are served by their own satisfaction; off: by that of their least satisfied operation"`
	Backoff              *time.Duration `option:"preemptive_scheduling_backoff" help:"least time between two preemptions on a node"`
	TreePreemption

	IntegralGuarantees               *TreeIntegral `option:"integral_guarantees"`
	DistributeFreeVolume             *bool         `option:"should_distribute_free_volume_among_children" help:"volume that overflows goes to siblings"`
	InferWeightMultiplier            *float64      `option:"infer_weight_from_guarantees_share_multiplier" help:"pools without weight get this times their part of the parent's guarantee"`
	GangStepFunction                 *bool         `option:"enable_step_function_for_gang_operations" help:"gangs get all of their demand or nothing"`
	ImprovedFitFactor                *bool         `option:"enable_improved_fair_share_by_fit_factor_computation" help:"children jump one after another instead of together"`
	ImprovedFitFactorDistributionGap *bool         `option:"enable_improved_fair_share_by_fit_factor_computation_distribution_gap" help:"a second search gives out what is left below rounding"`
	FIFOReordering                   *bool         `option:"enable_fifo_children_reordering_for_guarantee_utilization" help:"in FIFO pools gangs that do not fit the guarantee step aside"`
	SingleJobVanillaIsGang           *bool         `option:"consider_single_allocation_vanilla_operations_as_gang" help:"an operation of one job is a gang"`
	GangsOnlyInFIFO                  *bool         `option:"allow_gang_operations_only_in_fifo_pools" help:"gangs are refused in fair-share pools"`

	GangTimeout *time.Duration `option:"gang_timeout" help:"room is held so long for a gang that does not fit; then others come first, for as long at least"`

	BestAllocationSharePeriod *time.Duration `option:"best_allocation_share_update_period" help:"how often memory that no job can use is looked for"`
	NodeReconnectionTimeout   *time.Duration `option:"node_reconnection_timeout" help:"after a change of leader, nodes that were online count as about to come back for that long"`
}

// TreeIntegral are the options of integral guarantees that hold for a whole tree.
type TreeIntegral struct {
	SmoothPeriod                *time.Duration `option:"smooth_period" help:"a pool spends its volume over at least this time"`
	PoolCapacitySaturation      *time.Duration `option:"pool_capacity_saturation_period" help:"flow over this time is the capacity of a pool"`
	RelaxedShareMultiplierLimit *float64       `option:"relaxed_share_multiplier_limit" help:"a relaxed pool gets at most this times its flow at once"`
}

// Settings are the options of a tree with the defaults filled in (F.17.1; R4).
type Settings struct {
	NodesFilter                     Filter
	MainResource                    resource.Kind
	MaxOperationCount               int64
	MaxRunningOperationCount        int64
	MaxOperationCountPerPool        int64
	MaxRunningOperationCountPerPool int64
	DefaultParentPool               scheduling.PoolName
	ForbidImmediateInRoot           bool
	MaxEphemeralPoolsPerUser        int64
	EnablePoolStarvation            bool
	PoolSatisfaction                bool
	Starvation                      EffectiveStarvation
	// Backoff is the least time between two looks for victims on a node.
	Backoff    time.Duration
	Preemption EffectivePreemption

	SmoothPeriod                time.Duration
	PoolCapacitySaturation      time.Duration
	RelaxedShareMultiplierLimit float64
	DistributeFreeVolume        bool
	// InferWeightMultiplier is 0 when weights are not inferred.
	InferWeightMultiplier            float64
	GangStepFunction                 bool
	ImprovedFitFactor                bool
	ImprovedFitFactorDistributionGap bool
	FIFOReordering                   bool
	SingleJobVanillaIsGang           bool
	GangsOnlyInFIFO                  bool
	// GangTimeout is for how long room is held for a gang that does not fit yet. After
	// that others come first, for as long at least.
	GangTimeout               time.Duration
	BestAllocationSharePeriod time.Duration
	NodeReconnectionTimeout   time.Duration
}

// Default returns the options of a tree that sets nothing.
func Default() TreeOptions { return TreeOptions{} }

// Settings returns the options with the defaults filled in.
func (o TreeOptions) Settings() Settings {
	integral := or(o.IntegralGuarantees, TreeIntegral{})
	main, err := resource.ParseKind(or(o.MainResource, resource.CPU.String()))
	if err != nil {
		main = resource.CPU
	}
	all, running := counts(o.MaxOperationCount, o.MaxRunningOperationCount, 50000, 2000)
	allPerPool, runningPerPool := counts(o.MaxOperationCountPerPool, o.MaxRunningOperationCountPerPool, 50, 8)
	return Settings{
		NodesFilter:                      or(o.NodesFilter, Filter{}),
		MainResource:                     main,
		MaxOperationCount:                all,
		MaxRunningOperationCount:         running,
		MaxOperationCountPerPool:         allPerPool,
		MaxRunningOperationCountPerPool:  runningPerPool,
		DefaultParentPool:                scheduling.PoolName(or(o.DefaultParentPool, string(scheduling.RootPool))),
		ForbidImmediateInRoot:            or(o.ForbidImmediateInRoot, true),
		MaxEphemeralPoolsPerUser:         or(o.MaxEphemeralPoolsPerUser, 1),
		EnablePoolStarvation:             or(o.EnablePoolStarvation, true),
		PoolSatisfaction:                 or(o.PoolSatisfaction, true),
		Starvation:                       o.Starvation.over(defaultStarvation),
		Backoff:                          or(o.Backoff, 5*time.Second),
		Preemption:                       o.TreePreemption.effective(),
		SmoothPeriod:                     or(integral.SmoothPeriod, time.Minute),
		PoolCapacitySaturation:           or(integral.PoolCapacitySaturation, 24*time.Hour),
		RelaxedShareMultiplierLimit:      or(integral.RelaxedShareMultiplierLimit, 3),
		DistributeFreeVolume:             or(o.DistributeFreeVolume, false),
		InferWeightMultiplier:            or(o.InferWeightMultiplier, 0),
		GangStepFunction:                 or(o.GangStepFunction, false),
		ImprovedFitFactor:                or(o.ImprovedFitFactor, false),
		ImprovedFitFactorDistributionGap: or(o.ImprovedFitFactorDistributionGap, false),
		FIFOReordering:                   or(o.FIFOReordering, false),
		SingleJobVanillaIsGang:           or(o.SingleJobVanillaIsGang, true),
		GangsOnlyInFIFO:                  or(o.GangsOnlyInFIFO, false),
		GangTimeout:                      or(o.GangTimeout, time.Minute),
		BestAllocationSharePeriod:        or(o.BestAllocationSharePeriod, time.Minute),
		NodeReconnectionTimeout:          or(o.NodeReconnectionTimeout, 5*time.Minute),
	}
}

// counts fills in the defaults of two limits, one on all operations and one on those that
// run. Where one is set, the default of the other is bounded by it.
func counts(all, running *int64, defaultAll, defaultRunning int64) (allowed, allowedRunning int64) {
	return or(all, max(defaultAll, or(running, 0))), or(running, min(defaultRunning, or(all, defaultAll)))
}

// Validate returns an error that names each option that cannot be.
func (o TreeOptions) Validate() error {
	s := o.Settings()
	c := checks{}
	c.count("max_operation_count", or(o.MaxOperationCount, 0))
	c.count("max_running_operation_count", or(o.MaxRunningOperationCount, 0))
	c.count("max_operation_count_per_pool", or(o.MaxOperationCountPerPool, 0))
	c.count("max_running_operation_count_per_pool", or(o.MaxRunningOperationCountPerPool, 0))
	c.count("max_ephemeral_pools_per_user", s.MaxEphemeralPoolsPerUser)
	c.runs("max_operation_count", "max_running_operation_count", o.MaxOperationCount, o.MaxRunningOperationCount)
	c.runs("max_operation_count_per_pool", "max_running_operation_count_per_pool", o.MaxOperationCountPerPool, o.MaxRunningOperationCountPerPool)
	c.starvation(s.Starvation)
	c.preemption(o.TreePreemption)
	c.between("infer_weight_from_guarantees_share_multiplier", o.InferWeightMultiplier, 1, MaxWeight)
	if g := o.IntegralGuarantees; g != nil {
		c.between("integral_guarantees/relaxed_share_multiplier_limit", g.RelaxedShareMultiplierLimit, 1, 10)
		c.positive("integral_guarantees/smooth_period", g.SmoothPeriod)
		c.positive("integral_guarantees/pool_capacity_saturation_period", g.PoolCapacitySaturation)
	}
	c.positive("best_allocation_share_update_period", o.BestAllocationSharePeriod)
	if o.GangTimeout != nil && (*o.GangTimeout < time.Second || *o.GangTimeout > time.Hour) {
		c.fault("gang_timeout", "%v is not a time from 1s to 1h", *o.GangTimeout)
	}
	return c.err()
}

// checks collects the faults of options.
type checks struct{ faults []option.Fault }

func (c *checks) err() error { return option.NewError(c.faults) }

func (c *checks) fault(path, format string, args ...any) {
	c.faults = append(c.faults, option.Fault{Path: path, Problem: fmt.Sprintf(format, args...)})
}

func (c *checks) count(path string, limit int64) {
	if limit < 0 {
		c.fault(path, "negative limit %d", limit)
	}
}

// runs takes a limit on all operations only if it is not below the one on those that run.
func (c *checks) runs(path, pathRunning string, all, running *int64) {
	if all != nil && running != nil && *all < *running {
		c.fault(path, "%d is less than %s %d", *all, pathRunning, *running)
	}
}

func (c *checks) between(path string, value *float64, low, high float64) {
	if value != nil && !(*value >= low && *value <= high) {
		c.fault(path, "%v is not a number from %v to %v", *value, low, high)
	}
}

func (c *checks) positive(path string, value *time.Duration) {
	if value != nil && *value <= 0 {
		c.fault(path, "a time above 0 is needed")
	}
}

// ReadTreeOptions reads the options of a tree from a document by name, aliases
// included, and checks them. The error is an *option.Error.
func ReadTreeOptions(document map[string]any) (TreeOptions, error) {
	var o TreeOptions
	if err := option.Read(&o, document); err != nil {
		return TreeOptions{}, err
	}
	return o, o.Validate()
}

func or[T any](set *T, missing T) T {
	if set == nil {
		return missing
	}
	return *set
}

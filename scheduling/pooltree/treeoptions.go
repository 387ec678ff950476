package pooltree

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// TreeOptions are the options of a tree (F.17.1). An option that is nil is not set. The values
// that the pointers point to must not be changed.
type TreeOptions struct {
	NodesFilter  *Filter `option:"nodes_filter" rule:"F.17.1" alias:"node_tag_filter" kind:"filter" help:"which nodes belong to the tree: an expression of tags with & | ! and parentheses"`
	MainResource *string `option:"main_resource" default:"cpu" rule:"F.5.1" values:"user_slots,cpu,gpu,memory,network" help:"resource from which guarantees of resources that a pool does not name are inferred"`

	ACL *access.List `option:"acl" rule:"T1" help:"who may do what in the whole tree; everyone may use its pools unless acl/use is set"`

	MaxOperationCount               *int64  `option:"max_operation_count" min:"0" unit:"operations" rule:"F.16" help:"maximum number of operations in the tree that have not ended (default: 50,000, or max_running_operation_count if that is greater)"`
	MaxRunningOperationCount        *int64  `option:"max_running_operation_count" min:"0" unit:"operations" rule:"F.16" help:"maximum number of running operations in the tree (default: 2000, or max_operation_count if that is less)"`
	MaxOperationCountPerPool        *int64  `option:"max_operation_count_per_pool" min:"0" unit:"operations" rule:"F.16" help:"max_operation_count of pools that set none (default: 50, or max_running_operation_count_per_pool if that is greater)"`
	MaxRunningOperationCountPerPool *int64  `option:"max_running_operation_count_per_pool" min:"0" unit:"operations" rule:"F.16" help:"max_running_operation_count of pools that set none (default: 8, or max_operation_count_per_pool if that is less)"`
	DefaultParentPool               *string `option:"default_parent_pool" default:"<Root>" rule:"F.17.1" help:"parent of ephemeral pools; when set, an operation that names no pool runs in an ephemeral pool here, named after its user"`
	ForbidImmediateInRoot           *bool   `option:"forbid_immediate_operations_in_root" default:"true" rule:"F.17.1" help:"operations may not be directly in the root pool, only in pools below it"`
	MaxEphemeralPoolsPerUser        *int64  `option:"max_ephemeral_pools_per_user" min:"0" default:"1" unit:"pools" rule:"F.17.1" alias:"max_ephemeral_pool_per_user" help:"maximum number of ephemeral pools of each user, not counting the one named after the user"`

	Starvation
	EnablePoolStarvation *bool          `option:"enable_pool_starvation" default:"true" rule:"F.11" help:"pools can starve, not only operations"`
	PoolSatisfaction     *bool          `option:"use_pool_satisfaction_for_scheduling" default:"true" rule:"F.13" help:"pools are served by their own satisfaction; if off, they are served by that of their least satisfied operation"`
	Backoff              *time.Duration `option:"preemptive_scheduling_backoff" default:"5s" rule:"F.12.3" help:"minimum time between two preemptions on a node"`
	TreePreemption

	IntegralGuarantees               *TreeIntegral `option:"integral_guarantees" help:"options of integral guarantees, which hold on average over time" rule:"F.6"`
	DistributeFreeVolume             *bool         `option:"should_distribute_free_volume_among_children" default:"false" rule:"F.6.2" help:"volume that overflows from a pool goes to its siblings"`
	InferWeightMultiplier            *float64      `option:"infer_weight_from_guarantees_share_multiplier" min:"1" max:"1e+09" rule:"F.5" help:"weight of a pool that sets none: this value times the pool's part of its parent's guarantees"`
	GangStepFunction                 *bool         `option:"enable_step_function_for_gang_operations" default:"false" rule:"F.7.2" help:"gangs get all of their demand or nothing"`
	ImprovedFitFactor                *bool         `option:"enable_improved_fair_share_by_fit_factor_computation" default:"false" rule:"F.7.4" help:"children whose share jumps at the same point jump one after another instead of together"`
	ImprovedFitFactorDistributionGap *bool         `option:"enable_improved_fair_share_by_fit_factor_computation_distribution_gap" default:"false" rule:"F.7.4" help:"the children of a pool may exceed its share by a rounding error if otherwise more than such an error would stay unassigned"`
	FIFOReordering                   *bool         `option:"enable_fifo_children_reordering_for_guarantee_utilization" default:"false" rule:"F.7.3" help:"in FIFO pools, gangs that do not fit into the pool's guarantee move behind those that do"`
	SingleJobVanillaIsGang           *bool         `option:"consider_single_allocation_vanilla_operations_as_gang" default:"true" rule:"F.8" help:"an operation of one job counts as a gang"`
	GangsOnlyInFIFO                  *bool         `option:"allow_gang_operations_only_in_fifo_pools" default:"false" rule:"F.8" help:"gangs are rejected in fair-share pools"`

	GangTimeout *time.Duration `option:"gang_timeout" min:"1s" max:"1h" default:"1m" rule:"J.5.1" help:"how long room is held for a gang that does not fit yet; after that, other operations come first for at least as long"`

	BestAllocationSharePeriod *time.Duration `option:"best_allocation_share_update_period" above:"0s" default:"1m" rule:"F.15" help:"how often to check for memory that no single job can use"`
	NodeReconnectionTimeout   *time.Duration `option:"node_reconnection_timeout" default:"5m" rule:"F.2" help:"how long a new leader still counts nodes that were online but have not reconnected"`
}

// TreeIntegral are the options of integral guarantees for a whole tree.
type TreeIntegral struct {
	SmoothPeriod                *time.Duration `option:"smooth_period" above:"0s" default:"1m" rule:"F.6" help:"minimum time over which a pool spends its volume"`
	PoolCapacitySaturation      *time.Duration `option:"pool_capacity_saturation_period" above:"0s" default:"24h" rule:"F.6.1" help:"upper bound of a pool's volume: what its resource_flow accumulates in this time"`
	RelaxedShareMultiplierLimit *float64       `option:"relaxed_share_multiplier_limit" min:"1" max:"10" default:"3" rule:"F.6.5" help:"upper bound of what a relaxed pool gets from its volume at one time, as a multiple of its resource_flow"`
}

// Settings are the options of a tree with the defaults filled in (F.17.1; R4).
type Settings struct {
	NodesFilter                     Filter `option:"nodes_filter"`
	MainResource                    resource.Kind
	MaxOperationCount               int64               `option:"max_operation_count"`
	MaxRunningOperationCount        int64               `option:"max_running_operation_count"`
	MaxOperationCountPerPool        int64               `option:"max_operation_count_per_pool"`
	MaxRunningOperationCountPerPool int64               `option:"max_running_operation_count_per_pool"`
	DefaultParentPool               scheduling.PoolName `option:"default_parent_pool"`
	ForbidImmediateInRoot           bool                `option:"forbid_immediate_operations_in_root"`
	MaxEphemeralPoolsPerUser        int64               `option:"max_ephemeral_pools_per_user"`
	EnablePoolStarvation            bool                `option:"enable_pool_starvation"`
	PoolSatisfaction                bool                `option:"use_pool_satisfaction_for_scheduling"`
	Starvation                      EffectiveStarvation
	// Backoff is the minimum time between two searches for victims on a node.
	Backoff    time.Duration `option:"preemptive_scheduling_backoff"`
	Preemption EffectivePreemption

	SmoothPeriod                time.Duration `option:"integral_guarantees/smooth_period"`
	PoolCapacitySaturation      time.Duration `option:"integral_guarantees/pool_capacity_saturation_period"`
	RelaxedShareMultiplierLimit float64       `option:"integral_guarantees/relaxed_share_multiplier_limit"`
	DistributeFreeVolume        bool          `option:"should_distribute_free_volume_among_children"`
	// InferWeightMultiplier is 0 if weights are not inferred.
	InferWeightMultiplier            float64 `option:"infer_weight_from_guarantees_share_multiplier"`
	GangStepFunction                 bool    `option:"enable_step_function_for_gang_operations"`
	ImprovedFitFactor                bool    `option:"enable_improved_fair_share_by_fit_factor_computation"`
	ImprovedFitFactorDistributionGap bool    `option:"enable_improved_fair_share_by_fit_factor_computation_distribution_gap"`
	FIFOReordering                   bool    `option:"enable_fifo_children_reordering_for_guarantee_utilization"`
	SingleJobVanillaIsGang           bool    `option:"consider_single_allocation_vanilla_operations_as_gang"`
	GangsOnlyInFIFO                  bool    `option:"allow_gang_operations_only_in_fifo_pools"`
	// GangTimeout is how long resources are held for a gang that does not fit yet.
	// After that, other operations come first, for at least as long.
	GangTimeout               time.Duration `option:"gang_timeout"`
	BestAllocationSharePeriod time.Duration `option:"best_allocation_share_update_period"`
	NodeReconnectionTimeout   time.Duration `option:"node_reconnection_timeout"`
}

var settingsHold = option.HoldsOf(Settings{}, TreeOptions{})

// Default returns the options of a tree that sets no options.
func Default() TreeOptions { return TreeOptions{} }

// Complete returns the options with defaults for those that are not set. An option that is
// still nil has no default.
func (o TreeOptions) Complete() TreeOptions {
	o.MaxOperationCount, o.MaxRunningOperationCount = counts(o.MaxOperationCount, o.MaxRunningOperationCount, 50000, 2000)
	o.MaxOperationCountPerPool, o.MaxRunningOperationCountPerPool = counts(o.MaxOperationCountPerPool, o.MaxRunningOperationCountPerPool, 50, 8)
	filter, spare, integral := or(o.NodesFilter, Filter{}), or(o.MinSpare, Resources{}), or(o.IntegralGuarantees, TreeIntegral{})
	o.NodesFilter, o.MinSpare, o.IntegralGuarantees = &filter, &spare, &integral
	option.Complete(&o)
	o.NonPreemptible = o.Starvation.over(EffectiveStarvation{}).NonPreemptible
	return o
}

// Settings returns the options with the defaults filled in.
func (o TreeOptions) Settings() Settings {
	o = o.Complete()
	main, err := resource.ParseKind(*o.MainResource)
	if err != nil {
		main = resource.CPU
	}
	s := Settings{MainResource: main, Starvation: o.Starvation.over(EffectiveStarvation{}), Preemption: o.TreePreemption.effective()}
	settingsHold.Set(&s, &o)
	return s
}

// counts fills in the defaults of two limits, one on all operations and one on running operations.
// If only one is set, the default of the other is adjusted so that the limit on running operations
// does not exceed the other.
func counts(all, running *int64, defaultAll, defaultRunning int64) (allowed, allowedRunning *int64) {
	whole, part := or(all, max(defaultAll, or(running, 0))), or(running, min(defaultRunning, or(all, defaultAll)))
	return &whole, &part
}

// Validate returns an error that names each invalid option.
func (o TreeOptions) Validate() error {
	s := o.Settings()
	c := checks{option.Check(o)}
	c.runs("max_operation_count", "max_running_operation_count", o.MaxOperationCount, o.MaxRunningOperationCount)
	c.runs("max_operation_count_per_pool", "max_running_operation_count_per_pool", o.MaxOperationCountPerPool, o.MaxRunningOperationCountPerPool)
	c.starvation(s.Starvation)
	c.faults = append(c.faults, o.ACL.Faults("acl")...)
	return c.err()
}

// checks collects the faults of options. It begins with the faults of single options.
type checks struct{ faults []option.Fault }

func (c *checks) err() error { return option.NewError(c.faults) }

func (c *checks) fault(path, format string, args ...any) {
	c.faults = append(c.faults, option.Fault{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// runs adds a fault if the limit on all operations is below the one on running operations.
func (c *checks) runs(path, pathRunning string, all, running *int64) {
	if all != nil && running != nil && *all < *running {
		c.fault(path, "%d is less than %s, %d", *all, pathRunning, *running)
	}
}

// ReadTreeOptions reads the options of a tree from a document that holds them by name or
// alias, and checks them. The error is an *option.Error.
func ReadTreeOptions(document map[string]any) (TreeOptions, error) {
	return read[TreeOptions](document)
}

// read reads options from a document and checks them.
func read[T interface{ Validate() error }](document map[string]any) (o T, err error) {
	if err = option.Read(&o, document); err != nil {
		return *new(T), err
	}
	return o, o.Validate()
}

func or[T any](set *T, missing T) T {
	if set == nil {
		return missing
	}
	return *set
}

var _ = option.Declare(TreeOptions{}, PoolOptions{}, OperationOptions{})

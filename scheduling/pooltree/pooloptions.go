package pooltree

import (
	"maps"
	"slices"

	"weir/scheduling/access"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// The modes of a pool.
const (
	// FairShare divides resources among all children at once, by weight.
	FairShare = "fair_share"
	// FIFO gives resources to operations and pools one after another.
	FIFO = "fifo"
)

// The types of integral guarantees (G3).
const (
	NoIntegral = "none"
	Burst      = "burst"
	Relaxed    = "relaxed"
)

// The keys by which a FIFO pool sorts the operations and pools in it.
const (
	// SortByWeight puts greater weights first.
	SortByWeight = "weight"
	// SortByStartTime puts operations that were started earlier first. A pool has the time of the
	// earliest operation below it.
	SortByStartTime = "start_time"
	// SortByPendingJobCount puts operations with fewer pending jobs first. A pool has the pending
	// jobs of all operations below it.
	SortByPendingJobCount = "pending_job_count"
)

// defaultFIFOSort is the order of FIFO pools that do not set one.
var defaultFIFOSort = []string{SortByWeight, SortByStartTime}

// PoolOptions are the options of a pool (F.17.2). An option that is nil is not set. The values
// that the pointers point to must not be changed.
type PoolOptions struct {
	Weight             *float64 `option:"weight" min:"0" max:"1e+09" default:"1" rule:"F.7.4" help:"weight relative to its siblings: they share what remains after guarantees in proportion to their weights"`
	MaxShareRatio      *float64 `option:"max_share_ratio" min:"0" max:"1" default:"1" rule:"F.17.2" help:"upper limit of its usage, as a part of what its parent may use, from 0 to 1"`
	Mode               *string  `option:"mode" default:"fair_share" rule:"F.7.3" values:"fair_share,fifo" help:"how the operations and pools in it share resources"`
	FIFOSortParameters []string `option:"fifo_sort_parameters" default:"weight,start_time" rule:"F.7.3" values:"weight,start_time,pending_job_count" help:"order of the operations and pools in a FIFO pool"`

	StrongGuarantee *Resources        `option:"strong_guarantee_resources" rule:"F.5" alias:"min_share_resources" kind:"resources" help:"resources that the pool gets whenever it demands them"`
	Integral        *IntegralOptions  `option:"integral_guarantees" help:"guarantees on average over time: what the pool does not use, it can use later" rule:"F.6"`
	ResourceLimits  *Resources        `option:"resource_limits" rule:"F.17.2" kind:"resources" help:"upper limit of the pool's usage"`
	TagFilter       *Filter           `option:"scheduling_tag_filter" rule:"F.17.2" kind:"filter" help:"which nodes of the tree the pool may use"`
	Ephemeral       *EphemeralOptions `option:"ephemeral_subpool_config" help:"options of the ephemeral subpools of users" rule:"F.17.2"`

	ACL *access.List `option:"acl" rule:"T1" inherit:"rights of a pool and of all pools above it add up" help:"who may do what with the pool, the operations in it and the pools below it, as user:NAME, group:NAME or * for everyone"`

	MaxOperationCount        *int64 `option:"max_operation_count" min:"0" unit:"operations" inherit:"own, else the tree's max_operation_count_per_pool" rule:"F.16" help:"maximum number of operations in it and below that have not ended"`
	MaxRunningOperationCount *int64 `option:"max_running_operation_count" min:"0" unit:"operations" inherit:"own, else the tree's max_running_operation_count_per_pool" rule:"F.16" help:"maximum number of running operations in the pool and its subpools"`
	ForbidImmediate          *bool  `option:"forbid_immediate_operations" default:"false" rule:"F.17.2" help:"operations cannot run directly in the pool, only in its subpools"`
	CreateEphemeralSubpools  *bool  `option:"create_ephemeral_subpools" default:"false" rule:"F.17.2" help:"operations go to a subpool of their user, pool$user"`
	LightweightOperations    *bool  `option:"enable_lightweight_operations" default:"false" rule:"F.16" help:"vanilla operations of a FIFO pool do not count as running"`

	PoolSatisfaction *bool `option:"use_pool_satisfaction_for_scheduling" inherit:"own, else the tree's" rule:"F.13" help:"the pool is served by its own satisfaction; if off, it is served by that of its least satisfied operation"`

	Starvation
	PoolPreemption
	_ option.Elsewhere `option:"preemptive_scheduling_backoff" elsewhere:"applies to nodes, which belong to no pool: set it for the whole tree (weir tree set)"`

	GangStepFunction           *bool `option:"enable_step_function_for_gang_operations" default:"true" inherit:"only if the tree sets it too" rule:"F.7.2" help:"gangs get all of their demand or nothing, if the tree sets this option too"`
	FIFOReordering             *bool `option:"enable_fifo_children_reordering_for_guarantee_utilization" default:"false" rule:"F.7.3" inherit:"own, else the parent's" help:"in a FIFO pool, gangs that do not fit into its guarantee move behind those that do"`
	PromisedFairShare          *bool `option:"compute_promised_guarantee_fair_share" default:"false" rule:"F.5.6" help:"compute the share that guarantees alone would give to each element"`
	PriorityGuarantee          *bool `option:"enable_priority_strong_guarantee_adjustment" default:"false" rule:"F.5.4" help:"if guarantees exceed the cluster, the guarantee of this pool is cut last"`
	PriorityGuaranteeDonorship *bool `option:"enable_priority_strong_guarantee_adjustment_donorship" default:"false" rule:"F.5.4" help:"if guarantees exceed the cluster, priority pools among its descendants are served before the others"`
	AlwaysAllowGangs           *bool `option:"always_allow_gang_operations" default:"false" rule:"F.8" help:"gangs are accepted even if the tree accepts them only in FIFO pools"`
	AllowChildrenGuarantees    *bool `option:"allow_children_guarantees" default:"true" rule:"F.5" help:"pools directly below may have strong guarantees"`
}

// IntegralOptions are a pool's integral guarantees (F.6).
type IntegralOptions struct {
	GuaranteeType        *string    `option:"guarantee_type" default:"none" rule:"F.6" values:"none,burst,relaxed" help:"how the pool spends its volume; burst: it is guaranteed up to burst_guarantee_resources while it has volume; relaxed: it gets up to a multiple of resource_flow, from what remains after other guarantees"`
	ResourceFlow         *Resources `option:"resource_flow" rule:"F.6.1" kind:"resources" help:"rate at which the pool accumulates volume"`
	BurstGuarantee       *Resources `option:"burst_guarantee_resources" rule:"F.6.4" kind:"resources" help:"resources that a burst pool can get while it has volume"`
	RelaxedMultiplier    *float64   `option:"relaxed_share_multiplier_limit" min:"1" max:"10" inherit:"own, else the tree's" rule:"F.6.5" help:"upper bound of what a relaxed pool gets from its volume at one time, as a multiple of its resource_flow"`
	CanAcceptFreeVolume  *bool      `option:"can_accept_free_volume" default:"true" rule:"F.6.2" help:"the pool accepts volume that overflows from other pools"`
	DistributeFreeVolume *bool      `option:"should_distribute_free_volume_among_children" inherit:"own, else the tree's" rule:"F.6.2" help:"volume that overflows from a subpool goes to its siblings"`
}

// EphemeralOptions are the options of the subpools that a pool creates for its users.
type EphemeralOptions struct {
	Mode                     *string    `option:"mode" default:"fair_share" values:"fair_share,fifo" help:"how the operations of a user share resources"`
	MaxRunningOperationCount *int64     `option:"max_running_operation_count" min:"0" unit:"operations" help:"maximum number of running operations of each user"`
	MaxOperationCount        *int64     `option:"max_operation_count" min:"0" unit:"operations" help:"maximum number of operations of each user that have not ended"`
	ResourceLimits           *Resources `option:"resource_limits" kind:"resources" help:"upper limit of each user's usage"`
}

// ReadPoolOptions reads the options of a pool from a document that holds them by name or
// alias. It makes only checks that need no other pool. The error is an *option.Error.
func ReadPoolOptions(document map[string]any) (PoolOptions, error) {
	return read[PoolOptions](document)
}

// Guarantee returns the type of the pool's integral guarantees.
func (o PoolOptions) Guarantee() string {
	if o.Integral == nil {
		return NoIntegral
	}
	return or(o.Integral.GuaranteeType, NoIntegral)
}

// mode returns the mode of the pool.
func (o PoolOptions) mode() string { return or(o.Mode, FairShare) }

func (o PoolOptions) lightweight() bool {
	return o.mode() == FIFO && or(o.LightweightOperations, false)
}

// operationCounts returns how many operations the pool may hold, and how many may run.
func (o PoolOptions) operationCounts(s Settings) (all, running int64) {
	whole, part := counts(o.MaxOperationCount, o.MaxRunningOperationCount, s.MaxOperationCountPerPool, s.MaxRunningOperationCountPerPool)
	return *whole, *part
}

// Validate returns an error that names each invalid option. It makes only checks that need
// no other pool.
func (o PoolOptions) Validate() error {
	c := checks{option.Check(o)}
	c.runs("max_operation_count", "max_running_operation_count", o.MaxOperationCount, o.MaxRunningOperationCount)
	for i, key := range o.FIFOSortParameters {
		if slices.Index(o.FIFOSortParameters, key) < i {
			c.fault("fifo_sort_parameters", "%s is named twice", key)
		}
	}
	if o.FIFOSortParameters != nil && len(o.FIFOSortParameters) == 0 {
		c.fault("fifo_sort_parameters", "an empty list sorts nothing: use weight, start_time or pending_job_count")
	}
	c.faults = append(c.faults, o.ACL.Faults("acl")...)
	o.validateIntegral(&c)
	return c.err()
}

func (o PoolOptions) validateIntegral(c *checks) {
	g := o.Integral
	if g == nil {
		return
	}
	switch o.Guarantee() {
	case Relaxed:
		if !g.BurstGuarantee.IsZero() {
			c.fault("integral_guarantees/burst_guarantee_resources", "only a burst pool has this: set guarantee_type to burst, or remove it")
		}
		if g.ResourceFlow.IsZero() {
			c.fault("integral_guarantees/resource_flow", "a relaxed pool must have a flow: set it")
		}
	case Burst:
		if g.BurstGuarantee.IsZero() {
			c.fault("integral_guarantees/burst_guarantee_resources", "a burst pool must have a burst guarantee: set it")
		}
		if g.ResourceFlow.IsZero() {
			c.fault("integral_guarantees/resource_flow", "a burst pool must have a flow: set it")
		}
	}
}

// Effective holds the effective settings of a pool, or of the root.
type Effective struct {
	// Weight is DefaultWeight if no weight is set. Weighted says whether a weight is set.
	Weight   float64 `option:"weight"`
	Weighted bool
	// MaxShareRatio is 1 when none is set.
	MaxShareRatio            float64  `option:"max_share_ratio"`
	Mode                     string   `option:"mode"`
	FIFOSort                 []string `option:"fifo_sort_parameters"`
	MaxOperationCount        int64    `option:"max_operation_count"`
	MaxRunningOperationCount int64    `option:"max_running_operation_count"`
	// Limits are Infinite for resources without a limit.
	Limits          resource.Amounts
	TagFilter       Filter `option:"scheduling_tag_filter"`
	ForbidImmediate bool   `option:"forbid_immediate_operations"`
	// Lightweight says that vanilla operations do not count as running.
	Lightweight bool `option:"enable_lightweight_operations"`
	// PoolSatisfaction says whether the pool is served by its own satisfaction. If it is false, the
	// pool is served by the satisfaction of its least satisfied operation (F.13).
	PoolSatisfaction bool `option:"use_pool_satisfaction_for_scheduling"`
	Starvation       EffectiveStarvation
	Preemption       EffectivePoolPreemption
	// CanStarve says whether the pool itself can starve.
	CanStarve        bool
	GangStepFunction bool `option:"enable_step_function_for_gang_operations"`
	FIFOReordering   bool `option:"enable_fifo_children_reordering_for_guarantee_utilization"`
	AllowGangs       bool
}

var poolHolds = option.HoldsOf(Effective{}, PoolOptions{})

// effective returns the effective settings of a pool whose parent has the settings `parent`.
func (o PoolOptions) effective(s Settings, parent Effective) Effective {
	e := Effective{
		Weight: DefaultWeight, Weighted: o.Weight != nil, MaxShareRatio: 1, Mode: FairShare, FIFOSort: defaultFIFOSort,
		Limits: o.ResourceLimits.Or(resource.Infinite), PoolSatisfaction: s.PoolSatisfaction,
		Starvation: o.Starvation.over(parent.Starvation), Preemption: o.PoolPreemption.over(parent.Preemption),
		CanStarve: s.EnablePoolStarvation, GangStepFunction: true, FIFOReordering: parent.FIFOReordering,
	}
	poolHolds.Set(&e, &o)
	e.MaxOperationCount, e.MaxRunningOperationCount = o.operationCounts(s)
	e.Lightweight = o.lightweight()
	e.GangStepFunction = e.GangStepFunction && s.GangStepFunction
	e.AllowGangs = !s.GangsOnlyInFIFO || e.Mode == FIFO || or(o.AlwaysAllowGangs, false)
	return e
}

// Document returns the settings by option name, as the API shows them. A limit that is not set
// is nil.
func (e Effective) Document() map[string]any {
	out := poolHolds.Document(e)
	out["resource_limits"], out["enable_pool_starvation"], out["allow_gang_operations"] = limited(e.Limits), e.CanStarve, e.AllowGangs
	maps.Copy(out, e.Starvation.Document())
	maps.Copy(out, e.Preemption.Document())
	return out
}

// rootEffective returns the effective settings of the root of a tree.
func rootEffective(s Settings) Effective {
	return Effective{
		Weight: DefaultWeight, MaxShareRatio: 1, Mode: FairShare, FIFOSort: defaultFIFOSort,
		MaxOperationCount: s.MaxOperationCount, MaxRunningOperationCount: s.MaxRunningOperationCount,
		Limits: resource.Infinite, ForbidImmediate: s.ForbidImmediateInRoot, Starvation: s.Starvation,
		Preemption: rootPreemption, GangStepFunction: s.GangStepFunction, FIFOReordering: false, AllowGangs: !s.GangsOnlyInFIFO,
	}
}

package pooltree

import (
	"maps"
	"slices"

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
	// SortByStartTime puts earlier operations first; for a pool, the earliest operation
	// below it counts.
	SortByStartTime = "start_time"
	// SortByPendingJobCount puts fewer pending jobs first; for a pool, those of all
	// operations below it count.
	SortByPendingJobCount = "pending_job_count"
)

// defaultFIFOSort is the order of FIFO pools that do not set one.
var defaultFIFOSort = []string{SortByWeight, SortByStartTime}

// PoolOptions are the options of a pool (F.17.2). A nil one is not set. The values
// that the pointers point to must not be changed.
type PoolOptions struct {
	Weight             *float64 `option:"weight" min:"0" max:"1e+09" default:"1" rule:"F.7.4" help:"part in what siblings divide, relative to theirs"`
	MaxShareRatio      *float64 `option:"max_share_ratio" min:"0" max:"1" default:"1" rule:"F.17.2" help:"largest part of the parent's resources, from 0 to 1"`
	Mode               *string  `option:"mode" default:"fair_share" rule:"F.7.3" values:"fair_share,fifo" help:"how operations and pools in it share"`
	FIFOSortParameters []string `option:"fifo_sort_parameters" default:"weight,start_time" rule:"F.7.3" values:"weight,start_time,pending_job_count" help:"order of the operations and pools in a FIFO pool"`

	StrongGuarantee *Resources        `option:"strong_guarantee_resources" rule:"F.5" alias:"min_share_resources" kind:"resources" help:"what the pool gets whenever it asks"`
	Integral        *IntegralOptions  `option:"integral_guarantees" help:"guarantees over time" rule:"F.6"`
	ResourceLimits  *Resources        `option:"resource_limits" rule:"F.17.2" kind:"resources" help:"what the pool never exceeds"`
	TagFilter       *Filter           `option:"scheduling_tag_filter" rule:"F.17.2" kind:"filter" help:"which nodes of the tree the pool may use"`
	Ephemeral       *EphemeralOptions `option:"ephemeral_subpool_config" help:"what the subpools of users have" rule:"F.17.2"`

	MaxOperationCount        *int64 `option:"max_operation_count" min:"0" unit:"operations" inherit:"own, else the tree's max_operation_count_per_pool" rule:"F.16" help:"operations in it and below that have not ended"`
	MaxRunningOperationCount *int64 `option:"max_running_operation_count" min:"0" unit:"operations" inherit:"own, else the tree's max_running_operation_count_per_pool" rule:"F.16" help:"operations in it and below that run"`
	ForbidImmediate          *bool  `option:"forbid_immediate_operations" default:"false" rule:"F.17.2" help:"no operation directly in the pool"`
	CreateEphemeralSubpools  *bool  `option:"create_ephemeral_subpools" default:"false" rule:"F.17.2" help:"operations go to a subpool of their user, pool$user"`
	LightweightOperations    *bool  `option:"enable_lightweight_operations" default:"false" rule:"F.16" help:"vanilla operations of a FIFO pool do not count as running"`

	PoolSatisfaction *bool `option:"use_pool_satisfaction_for_scheduling" inherit:"own, else the tree's" rule:"F.13" help:"the pool is served by its own satisfaction; off: by that of its least satisfied operation"`

	Starvation
	PoolPreemption
	_ option.Elsewhere `option:"preemptive_scheduling_backoff" elsewhere:"is of nodes, which are no pool's: set it for the whole tree (weir tree set)"`

	GangStepFunction           *bool `option:"enable_step_function_for_gang_operations" default:"true" inherit:"where the tree has it" rule:"F.7.2" help:"gangs get all of their demand or nothing, where the tree wants it"`
	FIFOReordering             *bool `option:"enable_fifo_children_reordering_for_guarantee_utilization" default:"false" rule:"F.7.3" inherit:"own, else the parent's" help:"gangs that do not fit into the guarantee let smaller ones go first"`
	PromisedFairShare          *bool `option:"compute_promised_guarantee_fair_share" default:"false" rule:"F.5.6" help:"say what the guarantee alone would give to each element"`
	PriorityGuarantee          *bool `option:"enable_priority_strong_guarantee_adjustment" default:"false" rule:"F.5.4" help:"when guarantees do not fit, this one is cut last"`
	PriorityGuaranteeDonorship *bool `option:"enable_priority_strong_guarantee_adjustment_donorship" default:"false" rule:"F.5.4" help:"priority pools below take from the others below"`
	AlwaysAllowGangs           *bool `option:"always_allow_gang_operations" default:"false" rule:"F.8" help:"gangs are taken whatever the tree says"`
	AllowChildrenGuarantees    *bool `option:"allow_children_guarantees" default:"true" rule:"F.5" help:"pools right below may have strong guarantees"`
}

// IntegralOptions are a pool's integral guarantees (F.6).
type IntegralOptions struct {
	GuaranteeType        *string    `option:"guarantee_type" default:"none" rule:"F.6" values:"none,burst,relaxed" help:"burst: at once up to the burst guarantee; relaxed: in time"`
	ResourceFlow         *Resources `option:"resource_flow" rule:"F.6.1" kind:"resources" help:"what fills the volume, all the time"`
	BurstGuarantee       *Resources `option:"burst_guarantee_resources" rule:"F.6.4" kind:"resources" help:"what a burst pool gets while it has volume"`
	RelaxedMultiplier    *float64   `option:"relaxed_share_multiplier_limit" min:"1" max:"10" inherit:"own, else the tree's" rule:"F.6.5" help:"at most this times the flow at once, from 1 to 10"`
	CanAcceptFreeVolume  *bool      `option:"can_accept_free_volume" default:"true" rule:"F.6.2" help:"volume that overflows elsewhere may come here"`
	DistributeFreeVolume *bool      `option:"should_distribute_free_volume_among_children" inherit:"own, else the tree's" rule:"F.6.2" help:"volume that overflows goes to siblings"`
}

// EphemeralOptions are the options of the subpools that a pool creates for its users.
type EphemeralOptions struct {
	Mode                     *string    `option:"mode" default:"fair_share" values:"fair_share,fifo" help:"how the operations of a user share"`
	MaxRunningOperationCount *int64     `option:"max_running_operation_count" min:"0" unit:"operations" help:"operations of a user that run"`
	MaxOperationCount        *int64     `option:"max_operation_count" min:"0" unit:"operations" help:"operations of a user that have not ended"`
	ResourceLimits           *Resources `option:"resource_limits" kind:"resources" help:"what a user never exceeds"`
}

// ReadPoolOptions reads the options of a pool from a document by name, aliases
// included, and checks them as far as that needs no other pool. The error is an
// *option.Error.
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
			c.fault("fifo_sort_parameters", "%s is there twice", key)
		}
	}
	if o.FIFOSortParameters != nil && len(o.FIFOSortParameters) == 0 {
		c.fault("fifo_sort_parameters", "an empty list sorts nothing: name weight, start_time or pending_job_count")
	}
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
			c.fault("integral_guarantees/burst_guarantee_resources", "a relaxed pool has no burst: set guarantee_type to burst, or remove it")
		}
		if g.ResourceFlow.IsZero() {
			c.fault("integral_guarantees/resource_flow", "a relaxed pool lives on its flow: set it")
		}
	case Burst:
		if g.BurstGuarantee.IsZero() {
			c.fault("integral_guarantees/burst_guarantee_resources", "a burst pool needs them")
		}
		if g.ResourceFlow.IsZero() {
			c.fault("integral_guarantees/resource_flow", "a burst pool lives on its flow: set it")
		}
	}
}

// Effective holds the effective settings of a pool, or of the root.
type Effective struct {
	// Weight is DefaultWeight if none is set; Weighted says whether one is.
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
	// PoolSatisfaction says whether the pool is served by its own satisfaction, and not
	// by that of its least satisfied operation (F.13).
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

// effective returns the effective settings of a pool whose parent has the settings parent.
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

// Document returns the settings by option name, as the API shows them. A setting without a bound
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

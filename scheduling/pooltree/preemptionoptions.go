package pooltree

import (
	"math"
	"time"

	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// The scopes of preemption priority: which elements must starve for an operation to preempt.
const (
	// OperationAndAncestors means the operation and all pools above it.
	OperationAndAncestors = "operation_and_ancestors"
	// OperationOnly means the operation alone.
	OperationOnly = "operation_only"
)

// The modes in which allocations of an operation are preempted.
const (
	// PreemptNormally preempts allocations when another operation starves.
	PreemptNormally = "normal"
	// PreemptGracefully preempts allocations as soon as they are beyond the fair share, and gives
	// them more time to stop (J.3.1).
	PreemptGracefully = "graceful"
)

// TreePreemption are the preemption options of a whole tree (F.17.1).
type TreePreemption struct {
	CountCoefficient     *float64   `option:"allocation_count_preemption_timeout_coefficient" min:"1" default:"1" rule:"F.11" alias:"job_count_preemption_timeout_coefficient" help:"an operation with fewer pending jobs than this starves sooner: its timeouts are multiplied by its pending jobs divided by this"`
	FromStarving         *bool      `option:"allow_preemption_from_starving_operations" default:"false" rule:"F.12" help:"jobs of starving operations can be preempted too"`
	OnBoundPreemptible   *bool      `option:"consider_allocation_on_fair_share_bound_preemptible" default:"false" rule:"F.12.1" help:"the job whose usage crosses a preemption threshold of the fair share can be preempted"`
	AggressiveForGangs   *bool      `option:"allow_aggressive_preemption_for_gang_operations" default:"true" rule:"F.12" help:"jobs of gangs can be preempted aggressively"`
	AbsoluteTolerance    *bool      `option:"enable_absolute_fair_share_starvation_tolerance" default:"false" rule:"F.11" help:"an operation that lacks less than its smallest job needs does not count as below its fair share"`
	PriorityScope        *string    `option:"scheduling_preemption_priority_scope" default:"operation_and_ancestors" rule:"F.12.2" values:"operation_and_ancestors,operation_only" help:"whether an operation can preempt only if it starves itself, or also if a pool above it starves"`
	GuaranteePriority    *bool      `option:"enable_guarantee_priority_scheduling" default:"true" rule:"F.12.2" help:"operations whose usage is below what guarantees promise them come first"`
	MinSpare             *Resources `option:"min_spare_allocation_resources_on_node" rule:"F.12.3" kind:"resources" help:"nodes with less than this free get no new jobs"`
	MaxSchedulableInFIFO *int64     `option:"max_schedulable_element_count_in_fifo_pool" min:"0" unit:"operations" rule:"F.13" help:"in a FIFO pool with more operations than this, those without fair share wait"`
}

// EffectivePreemption holds the effective preemption settings of a tree.
type EffectivePreemption struct {
	// CountCoefficient is at least 1. If an operation has fewer pending jobs than this, its
	// starvation timeouts are multiplied by its pending jobs / CountCoefficient (F.11).
	CountCoefficient   float64 `option:"allocation_count_preemption_timeout_coefficient"`
	FromStarving       bool    `option:"allow_preemption_from_starving_operations"`
	OnBoundPreemptible bool    `option:"consider_allocation_on_fair_share_bound_preemptible"`
	AggressiveForGangs bool    `option:"allow_aggressive_preemption_for_gang_operations"`
	// AbsoluteTolerance says that an operation is not below its fair share if it lacks less than its
	// smallest job needs.
	AbsoluteTolerance bool `option:"enable_absolute_fair_share_starvation_tolerance"`
	// PriorityScope is OperationAndAncestors or OperationOnly.
	PriorityScope     string `option:"scheduling_preemption_priority_scope"`
	GuaranteePriority bool   `option:"enable_guarantee_priority_scheduling"`
	// MinSpare is what must be free on a node for a job to start on it. The default is
	// 0, since jobs may need very little.
	MinSpare resource.Amounts
	// MaxSchedulableInFIFO is math.MaxInt64 if there is no limit.
	MaxSchedulableInFIFO int64 `option:"max_schedulable_element_count_in_fifo_pool"`
}

var preemptionHolds = option.HoldsOf(EffectivePreemption{}, TreePreemption{})

// effective returns the effective settings. The options must be complete.
func (o TreePreemption) effective() EffectivePreemption {
	e := EffectivePreemption{MinSpare: o.MinSpare.Amounts, MaxSchedulableInFIFO: math.MaxInt64}
	preemptionHolds.Set(&e, &o)
	return e
}

// PoolPreemption are the preemption options that only pools have (F.17.2).
type PoolPreemption struct {
	AllowNormal     *bool      `option:"allow_normal_preemption" default:"true" inherit:"false if it is false for any pool above" rule:"F.12" help:"jobs in it can be preempted for starving operations, not counting aggressive starvation"`
	AllowAggressive *bool      `option:"allow_aggressive_preemption" default:"true" rule:"F.12" inherit:"own, else the parent's" alias:"allow_aggressive_starvation_preemption" help:"jobs in it can be preempted aggressively"`
	RateLimit       *int64     `option:"preemption_rate_limit" min:"0" unit:"jobs a minute" inherit:"own; those of pools above apply as well" rule:"F.12" help:"maximum number of jobs, in the pool and below, that are preempted for others in a minute"`
	LimitTolerance  *Resources `option:"resource_limits_overcommit_tolerance" inherit:"own; those of pools above apply as well" rule:"F.12" kind:"resources" help:"how far jobs that preempt others in the pool may exceed its resource_limits until the preempted jobs have ended"`
}

// NoRateLimit is the rate limit of pools without one.
const NoRateLimit = -1

// EffectivePoolPreemption holds the effective preemption settings of a pool.
type EffectivePoolPreemption struct {
	// AllowNormal is false if the pool or any pool above it sets it to false.
	AllowNormal bool
	// AllowAggressive is the pool's own setting, or else its parent's.
	AllowAggressive bool
	// RateLimit is the pool's own rate limit, or NoRateLimit if the pool has none. The rate limits
	// of pools above apply as well.
	RateLimit int64
	// LimitTolerance is the pool's own tolerance.
	LimitTolerance resource.Amounts
}

func (o PoolPreemption) over(parent EffectivePoolPreemption) EffectivePoolPreemption {
	return EffectivePoolPreemption{
		AllowNormal:     parent.AllowNormal && or(o.AllowNormal, true),
		AllowAggressive: or(o.AllowAggressive, parent.AllowAggressive),
		RateLimit:       or(o.RateLimit, NoRateLimit),
		LimitTolerance:  o.LimitTolerance.Or(resource.Amounts{}),
	}
}

// rootPreemption holds the effective preemption settings of the root.
var rootPreemption = EffectivePoolPreemption{AllowNormal: true, AllowAggressive: true, RateLimit: NoRateLimit}

// The metrics by which packing compares heartbeats (F.14).
const (
	// PackByAngle is 1 minus the cosine of the angle between the resources that a job
	// needs and those that are free.
	PackByAngle = "angle"
	// PackByAngleLength is PackByAngle times the length of the vector of free resources, divided
	// by the length of the vector of needed ones.
	PackByAngleLength = "angle_length"
)

// PackingOptions let an operation wait for nodes whose free resources fit its jobs well
// (F.14).
type PackingOptions struct {
	Enable            *bool          `option:"enable" default:"false" rule:"F.14" help:"jobs wait for nodes whose free resources are in the same proportion as the job's needs"`
	Metric            *string        `option:"metric" default:"angle_length" rule:"F.14" values:"angle,angle_length" help:"how nodes are compared"`
	MaxBetter         *int64         `option:"max_better_past_snapshots" min:"1" default:"2" unit:"nodes" rule:"F.14" help:"a node is rejected if this many earlier ones were better"`
	AbsoluteTolerance *float64       `option:"absolute_metric_value_tolerance" min:"0" default:"0.05" rule:"F.14" help:"a node counts as better only if its metric is lower by more than this"`
	RelativeTolerance *float64       `option:"relative_metric_value_tolerance" min:"1" default:"1.5" rule:"F.14" help:"a node counts as better only if its metric is also lower by more than this factor"`
	MinWindowSize     *int64         `option:"min_window_size_for_schedule" min:"0" default:"0" unit:"nodes" rule:"F.14" help:"no job starts before at least this many earlier nodes are remembered"`
	MaxWindowSize     *int64         `option:"max_heartbeat_window_size" min:"1" max:"1000" default:"10" unit:"nodes" rule:"F.14" help:"maximum number of earlier nodes that are remembered"`
	MaxHeartbeatAge   *time.Duration `option:"max_heartbeat_age" above:"0s" default:"1h" rule:"F.14" help:"how long an earlier node is remembered"`
}

// EffectivePacking holds the effective packing settings of an operation.
type EffectivePacking struct {
	Enable bool `option:"enable"`
	// Metric is PackByAngle or PackByAngleLength.
	Metric            string        `option:"metric"`
	MaxBetter         int           `option:"max_better_past_snapshots"`
	AbsoluteTolerance float64       `option:"absolute_metric_value_tolerance"`
	RelativeTolerance float64       `option:"relative_metric_value_tolerance"`
	MinWindowSize     int           `option:"min_window_size_for_schedule"`
	MaxWindowSize     int           `option:"max_heartbeat_window_size"`
	MaxHeartbeatAge   time.Duration `option:"max_heartbeat_age"`
}

var (
	packingHolds = option.HoldsOf(EffectivePacking{}, PackingOptions{})
	// plainPacking holds the settings of operations without packing options.
	plainPacking = packing(PackingOptions{})
)

// Document returns the settings by option name, as the API shows them.
func (p EffectivePacking) Document() map[string]any { return packingHolds.Document(p) }

func (o *PackingOptions) effective() EffectivePacking {
	if o == nil {
		return plainPacking
	}
	return packing(*o)
}

// packing returns the effective settings for these options.
func packing(set PackingOptions) (e EffectivePacking) {
	option.Complete(&set)
	packingHolds.Set(&e, &set)
	return e
}

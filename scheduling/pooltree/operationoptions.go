package pooltree

import (
	"fmt"
	"maps"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// OperationOptions are the options of an operation in a tree (F.17.3). An option that is nil is
// not set. The values that the pointers point to must not be changed.
type OperationOptions struct {
	Weight                *float64       `option:"weight" min:"0" max:"1e+09" default:"1" rule:"F.7.4" help:"weight relative to its siblings: they share what remains after guarantees in proportion to their weights"`
	MaxShareRatio         *float64       `option:"max_share_ratio" min:"0" max:"1" default:"1" rule:"F.17.3" help:"upper limit of its usage, as a part of what its pool may use, from 0 to 1"`
	ResourceLimits        *Resources     `option:"resource_limits" rule:"F.17.3" kind:"resources" help:"upper limit of the operation's usage"`
	LimitsBoundDemand     *bool          `option:"apply_specified_resource_limits_to_demand" default:"false" rule:"F.2" help:"demand beyond resource_limits does not count as demand"`
	TagFilter             *Filter        `option:"scheduling_tag_filter" rule:"F.17.3" kind:"filter" help:"which nodes of the tree the operation may use"`
	FairShareTimeout      *time.Duration `option:"fair_share_starvation_timeout" inherit:"own, within the bounds of its pool; else the pool's" rule:"F.11" alias:"fair_share_preemption_timeout" help:"time below its fair share after which it starves"`
	MinShareTimeout       *time.Duration `option:"min_share_preemption_timeout" inherit:"own, within the bounds of its pool; else the pool's" rule:"F.11" help:"time below its min share after which it starves"`
	Tolerance             *float64       `option:"fair_share_starvation_tolerance" min:"0" max:"1" inherit:"own, within the bounds of its pool; else the pool's" rule:"F.11" help:"it counts as below its fair share while it has less than this part of it"`
	NonPreemptible        *Resources     `option:"non_preemptible_resource_usage_threshold" inherit:"for each resource, the lesser of its own and the pool's" rule:"F.12" kind:"resources" help:"its jobs are not preempted while it uses no more than this"`
	MaxUnpreemptableCount *int64         `option:"max_unpreemptable_running_job_count" min:"0" unit:"jobs" inherit:"the lesser of its own and the pool's" rule:"F.12" alias:"max_unpreemptible_running_job_count,max_unpreemptible_running_allocation_count,max_unpreemptable_running_allocation_count" help:"its jobs are not preempted while it runs no more than this many"`
	Notice
	PreemptionMode *string         `option:"preemption_mode" default:"normal" rule:"J.3.1" values:"normal,graceful" help:"normal: its jobs are preempted when another operation starves; graceful: as soon as they are beyond its fair share, with more time to stop"`
	Packing        *PackingOptions `option:"packing" help:"whether its jobs wait for nodes that fit them better" rule:"F.14"`
}

// ReadOperationOptions reads the options of an operation from a document that holds them by
// name or alias, and checks them. The error is an *option.Error.
func ReadOperationOptions(document map[string]any) (OperationOptions, error) {
	return read[OperationOptions](document)
}

// Validate returns an error that names each invalid option.
func (o OperationOptions) Validate() error {
	c := checks{option.Check(o)}
	if e := o.Packing.effective(); e.MinWindowSize > e.MaxWindowSize {
		c.fault("packing/min_window_size_for_schedule", "%d must be from 0 to max_heartbeat_window_size (%d)", e.MinWindowSize, e.MaxWindowSize)
	}
	return c.err()
}

// EffectiveOperation holds the effective settings of an operation in a tree.
type EffectiveOperation struct {
	Weight        float64 `option:"weight"`
	MaxShareRatio float64 `option:"max_share_ratio"`
	// Limits are Infinite for resources without a limit.
	Limits            resource.Amounts
	LimitsBoundDemand bool   `option:"apply_specified_resource_limits_to_demand"`
	TagFilter         Filter `option:"scheduling_tag_filter"`
	Starvation        EffectiveStarvation
	// Graceful says that the operation's jobs beyond its fair share are preempted
	// gracefully, even if no other operation starves.
	Graceful bool
	Packing  EffectivePacking
}

var operationHolds = option.HoldsOf(EffectiveOperation{}, OperationOptions{})

// Document returns the settings by option name, as the API shows them. A limit that is not set
// is nil.
func (e EffectiveOperation) Document() map[string]any {
	out := operationHolds.Document(e)
	out["resource_limits"], out["preemption_mode"], out["packing"] = limited(e.Limits), e.PreemptionMode(), e.Packing.Document()
	maps.Copy(out, e.Starvation.Document())
	return out
}

// Effective returns the effective settings of an operation in a pool with these settings.
// The pool's bounds limit the operation's own timeouts and tolerance. The aggressive timeout is at
// least the fair share timeout. For each resource, the lesser of the non-preemptible thresholds
// of the operation and of the pool applies (F.11). The operation's own Notice has no bounds.
func (o OperationOptions) Effective(pool Effective) EffectiveOperation {
	own := Starvation{
		FairShareTimeout: o.FairShareTimeout, MinShareTimeout: o.MinShareTimeout, Tolerance: o.Tolerance,
		NonPreemptible: o.NonPreemptible, MaxUnpreemptableCount: o.MaxUnpreemptableCount, Notice: o.Notice,
	}.over(pool.Starvation)
	own.FairShareTimeout = max(own.FairShareTimeout, own.FairShareTimeoutBound)
	own.MinShareTimeout = max(own.MinShareTimeout, own.MinShareTimeoutBound)
	own.AggressiveTimeout = max(own.AggressiveTimeout, own.FairShareTimeout)
	own.Tolerance = min(own.Tolerance, own.ToleranceBound)
	own.NonPreemptible = own.NonPreemptible.lesser(pool.Starvation.NonPreemptible)
	e := EffectiveOperation{
		Weight: DefaultWeight, MaxShareRatio: 1, Limits: o.ResourceLimits.Or(resource.Infinite), Starvation: own,
		Graceful: or(o.PreemptionMode, PreemptNormally) == PreemptGracefully, Packing: o.Packing.effective(),
	}
	operationHolds.Set(&e, &o)
	return e
}

// Bounded describes each option of an operation whose value exceeds a bound of its pool, and the
// value that applies instead.
func (o OperationOptions) Bounded(name scheduling.PoolName, pool Effective) (all []string) {
	s := pool.Starvation
	timeout := func(path string, own *time.Duration, bound time.Duration) {
		if own != nil && *own < bound {
			all = append(all, bounded(path, name, "less", option.FormatDuration(*own), option.FormatDuration(bound)))
		}
	}
	timeout("fair_share_starvation_timeout", o.FairShareTimeout, s.FairShareTimeoutBound)
	timeout("min_share_preemption_timeout", o.MinShareTimeout, s.MinShareTimeoutBound)
	if o.Tolerance != nil && *o.Tolerance > s.ToleranceBound {
		all = append(all, bounded("fair_share_starvation_tolerance", name, "more", fmt.Sprint(*o.Tolerance), fmt.Sprint(s.ToleranceBound)))
	}
	return all
}

func bounded(path string, pool scheduling.PoolName, than, own, bound string) string {
	return fmt.Sprintf("%s %s: pool %q allows no %s than %s; %s applies", path, own, pool, than, bound, bound)
}

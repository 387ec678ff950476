package pooltree

import (
	"time"

	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// Starvation are the options of starvation and preemption that trees and pools have
// (F.11, F.17.1, F.17.2). A pool inherits the options that it does not set.
type Starvation struct {
	FairShareTimeout      *time.Duration `option:"fair_share_starvation_timeout" default:"30s" rule:"F.11" inherit:"own, else the parent's" alias:"fair_share_preemption_timeout" help:"time below its fair share after which an element starves"`
	MinShareTimeout       *time.Duration `option:"min_share_preemption_timeout" default:"15s" rule:"F.11" inherit:"own, else the parent's" help:"time below its min share after which an element starves"`
	AggressiveTimeout     *time.Duration `option:"fair_share_aggressive_starvation_timeout" default:"2m" rule:"F.11" inherit:"own, else the parent's" help:"time below its fair share after which an element starves aggressively"`
	Tolerance             *float64       `option:"fair_share_starvation_tolerance" min:"0" max:"1" default:"0.8" rule:"F.11" inherit:"own, else the parent's" help:"an element counts as below its fair share while it has less than this part of it"`
	FairShareTimeoutBound *time.Duration `option:"fair_share_starvation_timeout_lower_bound" default:"0s" rule:"F.11" inherit:"own, else the parent's" help:"lower bound of the fair_share_starvation_timeout of operations"`
	MinShareTimeoutBound  *time.Duration `option:"min_share_preemption_timeout_lower_bound" default:"0s" rule:"F.11" inherit:"own, else the parent's" help:"lower bound of the min_share_preemption_timeout of operations"`
	ToleranceBound        *float64       `option:"fair_share_starvation_tolerance_upper_bound" min:"0" max:"1" default:"1" rule:"F.11" inherit:"own, else the parent's" help:"upper bound of the fair_share_starvation_tolerance of operations"`
	EnableAggressive      *bool          `option:"enable_aggressive_starvation" default:"false" rule:"F.11" inherit:"own, else the parent's" help:"elements can starve aggressively"`
	Satisfaction          *float64       `option:"preemption_satisfaction_threshold" above:"0" default:"1" rule:"F.12" inherit:"own, else the parent's" help:"jobs beyond this part of the fair share can be preempted"`
	AggressiveThreshold   *float64       `option:"aggressive_preemption_satisfaction_threshold" min:"0" default:"0.2" rule:"F.12" inherit:"own, else the parent's" help:"jobs beyond this fraction of the fair share can be preempted aggressively"`
	NonPreemptible        *Resources     `option:"non_preemptible_resource_usage_threshold" rule:"F.12" inherit:"own, else the parent's" kind:"resources" help:"jobs of operations that use no more than this are not preempted"`
	MaxUnpreemptableCount *int64         `option:"max_unpreemptable_running_job_count" min:"0" unit:"jobs" rule:"F.12" inherit:"own, else the parent's" alias:"max_unpreemptible_running_job_count,max_unpreemptible_running_allocation_count,max_unpreemptable_running_allocation_count" help:"jobs of operations that run no more than this many are not preempted"`
	WaitingTimeout        *time.Duration `option:"waiting_for_resources_on_node_timeout" default:"30s" rule:"F.12.3" inherit:"own, else the parent's" help:"how long a job still waits for the resources of its victims after their deadline"`
	Notice
}

// Notice are the options of how jobs are notified of preemption. Trees, pools and
// operations have them; pools and operations inherit the options that they do not set.
type Notice struct {
	PreemptionTimeout *time.Duration `option:"allocation_preemption_timeout" default:"15s" rule:"J.3" inherit:"own, else the parent's" alias:"job_interrupt_timeout,interruption_timeout" help:"how long a preempted job has to end by itself"`
	GracefulTimeout   *time.Duration `option:"allocation_graceful_preemption_timeout" default:"10m" rule:"J.3.1" inherit:"own, else the parent's" alias:"job_graceful_interrupt_timeout" help:"how long a job that is preempted gracefully has to end by itself"`
	MinRunTime        *time.Duration `option:"min_run_time" default:"0s" rule:"F.12" inherit:"own, else the parent's" help:"jobs that have run for less than this are not preempted for others"`
}

// EffectiveStarvation holds the effective starvation settings of an element.
type EffectiveStarvation struct {
	FairShareTimeout  time.Duration `option:"fair_share_starvation_timeout"`
	MinShareTimeout   time.Duration `option:"min_share_preemption_timeout"`
	AggressiveTimeout time.Duration `option:"fair_share_aggressive_starvation_timeout"`
	Tolerance         float64       `option:"fair_share_starvation_tolerance"`
	// FairShareTimeoutBound and MinShareTimeoutBound are the least timeouts that an
	// operation may have. ToleranceBound is the greatest tolerance.
	FairShareTimeoutBound time.Duration `option:"fair_share_starvation_timeout_lower_bound"`
	MinShareTimeoutBound  time.Duration `option:"min_share_preemption_timeout_lower_bound"`
	ToleranceBound        float64       `option:"fair_share_starvation_tolerance_upper_bound"`

	EnableAggressive    bool    `option:"enable_aggressive_starvation"`
	Satisfaction        float64 `option:"preemption_satisfaction_threshold"`
	AggressiveThreshold float64 `option:"aggressive_preemption_satisfaction_threshold"`
	// NonPreemptible is the usage up to which an operation is not preempted. Resources that it does
	// not name are unbounded. If it is nil or names no resource, there is no threshold.
	NonPreemptible *Resources `option:"non_preemptible_resource_usage_threshold"`
	// WaitingTimeout is how long a job waits for the resources of its victims after
	// their deadline.
	WaitingTimeout time.Duration `option:"waiting_for_resources_on_node_timeout"`
	EffectiveNotice
}

var starvationHolds = option.HoldsOf(EffectiveStarvation{}, Starvation{})

// Document returns the settings by option name, as the API shows them.
func (s EffectiveStarvation) Document() map[string]any { return starvationHolds.Document(s) }

// Protected returns the usage up to which an operation is not preempted: Infinite for
// resources that the threshold does not name, 0 if there is no threshold.
func (s EffectiveStarvation) Protected() resource.Amounts {
	if s.NonPreemptible == nil || s.NonPreemptible.Named == ([resource.Count]bool{}) {
		return resource.Amounts{}
	}
	return s.NonPreemptible.Or(resource.Infinite)
}

// EffectiveNotice holds the effective notice settings of an element.
type EffectiveNotice struct {
	// PreemptionTimeout is how long a preempted job has to stop. GracefulTimeout is
	// how long a job that is preempted gracefully has to stop.
	PreemptionTimeout time.Duration `option:"allocation_preemption_timeout"`
	GracefulTimeout   time.Duration `option:"allocation_graceful_preemption_timeout"`
	// MinRunTime is how long a job must have run before it can be preempted for others or
	// gracefully.
	MinRunTime time.Duration `option:"min_run_time"`
}

// over returns the effective settings: the options of the receiver that are set, and inherited values
// for the rest.
func (s Starvation) over(inherited EffectiveStarvation) EffectiveStarvation {
	e := inherited
	starvationHolds.Set(&e, &s)
	if s.MaxUnpreemptableCount != nil {
		threshold := or(e.NonPreemptible, Resources{})
		threshold.Amounts.UserSlots, threshold.Named[resource.UserSlots] = *s.MaxUnpreemptableCount, true
		e.NonPreemptible = &threshold
	}
	return e
}

func (c *checks) atLeast(path string, timeout, bound time.Duration) {
	if timeout < bound {
		c.fault(path, "%s is less than %s_lower_bound, %s", option.FormatDuration(timeout), path, option.FormatDuration(bound))
	}
}

// starvation checks the settings of an element against each other, and against the bounds that it
// sets for operations.
func (c *checks) starvation(s EffectiveStarvation) {
	if s.Tolerance > s.ToleranceBound {
		c.fault("fair_share_starvation_tolerance", "%v is more than fair_share_starvation_tolerance_upper_bound, %v", s.Tolerance, s.ToleranceBound)
	}
	c.atLeast("fair_share_starvation_timeout", s.FairShareTimeout, s.FairShareTimeoutBound)
	c.atLeast("min_share_preemption_timeout", s.MinShareTimeout, s.MinShareTimeoutBound)
	if s.AggressiveThreshold > s.Satisfaction {
		c.fault("aggressive_preemption_satisfaction_threshold", "%v must be from 0 to preemption_satisfaction_threshold (%v)",
			s.AggressiveThreshold, s.Satisfaction)
	}
	if s.AggressiveTimeout < s.FairShareTimeout {
		c.fault("fair_share_aggressive_starvation_timeout", "%s is less than fair_share_starvation_timeout, %s",
			option.FormatDuration(s.AggressiveTimeout), option.FormatDuration(s.FairShareTimeout))
	}
}

package explain

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Rule is why a job may be preempted for a starving element (F.12.3).
type Rule uint8

const (
	// BeyondOperation jobs are beyond the fair share of their operation.
	BeyondOperation Rule = iota
	// BeyondPools jobs are in pools that have more than their fair share.
	BeyondPools
	// ForGuarantee jobs are in such pools, and another pool is guaranteed their resources.
	ForGuarantee
	// ForTurn jobs are in such pools, and it is the turn of a pool that has lacked its fair
	// share for longer.
	ForTurn
	// ForLarger jobs are smaller than the job that they make room for.
	ForLarger
)

// Reason is why an allocation was chosen to leave.
type Reason struct {
	// Pool is the pool that starves, or whose limits are violated. If it is empty, the beneficiary
	// itself starves, or the limits of the operation that loses the job are violated.
	Pool scheduling.PoolName
	// Since is when the starving element fell below its fair share.
	Since time.Time
	// Rule is why the job is preempted for another one. Of is the pool that has more than its fair
	// share, or for ForLarger the pool that keeps Kept. Usage, Fair and Kept are then those of Of
	// or, if Of is empty, those of the operation that loses the job.
	Rule Rule
	Of   scheduling.PoolName
	// Resource is the one that the numbers are about: for limits, the first that is used beyond
	// them; otherwise, the one of which the operation that loses the job uses most.
	Resource resource.Kind
	// Usage is the share that was used with the job. Fair is the fair share. Threshold is the part
	// of the fair share beyond which jobs are preempted in this way.
	Usage, Fair, Threshold float64
	// Kept is the share used by allocations that cannot be preempted in this way. They started
	// before all allocations that can be.
	Kept float64
	// Ceiling says that Limit comes from max_share_ratio, not from resource_limits.
	Ceiling bool
	// If limits are violated, Used is what is used, and Limit is what is allowed. On an
	// overcommitted node, Used is what its jobs hold, and Limit is what the node has.
	Used, Limit int64
}

// Message explains to people why a job of the operation `of` has to leave a node. The parameter
// goesFor is the operation for which the job is preempted, if there is one.
func (r Reason) Message(kind lifecycle.PreemptionKind, node scheduling.NodeID, of, goesFor scheduling.OperationID) string {
	switch kind {
	case lifecycle.Preemption, lifecycle.AggressivePreemption:
		who := fmt.Sprintf("operation %s", goesFor)
		if r.Pool != "" {
			who += fmt.Sprintf(" of pool %s, which", r.Pool)
		}
		return fmt.Sprintf("%s has been below its fair share since %s; %s", who, r.Since.UTC().Format(time.RFC3339), r.beyond(of))
	case lifecycle.GracefulPreemption:
		return r.beyond(of)
	case lifecycle.ResourceLimitsViolated:
		who := fmt.Sprintf("operation %s", of)
		if r.Pool != "" {
			who = fmt.Sprintf("pool %s", r.Pool)
		}
		allows := "limit is"
		if r.Ceiling {
			allows = "max_share_ratio allows"
		}
		return fmt.Sprintf("%s uses %s of %s, but its %s %s", who, amount(r.Resource, r.Used), r.Resource, allows, amount(r.Resource, r.Limit))
	default:
		return fmt.Sprintf("node %s has %s of %s, less than the %s that its jobs hold", node, amount(r.Resource, r.Limit), r.Resource, amount(r.Resource, r.Used))
	}
}

func (r Reason) beyond(id scheduling.OperationID) string {
	pool := fmt.Sprintf("pool %s uses %s of all %s, its fair share is %s", r.Of, percent(r.Usage), r.Resource, percent(r.Fair))
	switch r.Rule {
	case ForLarger:
		return fmt.Sprintf("its job is larger than the jobs preempted for it; the rest of pool %s keeps at least %s of all %s (threshold %.4g)", r.Of, percent(r.Kept), r.Resource, r.Threshold)
	case ForGuarantee:
		return pool + ", and what is beyond it is needed for another pool's guarantee"
	case ForTurn:
		return pool + ", and it is the turn of a pool that has lacked its fair share for longer"
	case BeyondPools:
		return pool + ", and its latest jobs may be preempted"
	}
	return fmt.Sprintf("operation %s uses %s of all %s, its fair share is %s, and its latest jobs may be preempted, down to %s (threshold %.4g)",
		id, percent(r.Usage), r.Resource, percent(r.Fair), percent(r.Kept), r.Threshold)
}

// It is the word for the operation in question.
const It = "it"

// Fares says how near an element is to starving. The parameter who names the element.
func Fares(c preemption.Clock, t preemption.Timeouts, who string) Fact {
	starves, _ := c.Starves(t)
	share, since, setting := "fair share", c.From(), "fair_share_starvation_timeout"
	if c.Since.IsZero() || !c.MinSince.IsZero() && starves.Equal(c.MinSince.Add(t.MinShare)) {
		share, since, setting = "min share", c.MinSince, "min_share_preemption_timeout"
	}
	switch {
	case since.IsZero():
		return Fact{Code: FactHasFair, Text: who + " has its fair share: no other job has to leave for it"}
	case c.Starvation != preemption.NonStarving:
		return Fact{Code: FactStarving, At: since, Setting: c.Starvation.String(),
			Text: fmt.Sprintf("%s has been below its %s since %s and is %s: jobs beyond the fair share of others may be preempted for it", who, share, clock(since), c.Starvation)}
	case !t.CanStarve:
		return Fact{Code: FactBelowFair, At: since, Text: fmt.Sprintf("%s has been below its %s since %s, but cannot starve (enable_pool_starvation is off)", who, share, clock(since))}
	}
	return Fact{Code: FactBelowFair, At: since, Until: starves, Setting: setting,
		Text: fmt.Sprintf("%s has been below its %s since %s: if that lasts until %s it starves, and jobs of others may be preempted for it", who, share, clock(since), clock(starves))}
}

// Job describes a job, and how safe it is from preemption.
type Job struct {
	Job       scheduling.JobID
	Operation scheduling.OperationID
	Node      scheduling.NodeID
	Started   time.Time
	Level     preemption.Level
	// Leaving says that the job was told at Ordered to leave by Deadline. Kind is the kind of
	// preemption. For is the operation for whose job it leaves, or empty if it leaves for no job.
	Leaving           bool
	Ordered, Deadline time.Time
	Kind              lifecycle.PreemptionKind
	For               scheduling.OperationID
	// Usage and Fair are the usage and fair share of its operation in Resource, the resource of
	// which the operation uses most.
	Resource    resource.Kind
	Usage, Fair float64
	// Spared counts how often each block has spared allocations of its operation.
	Spared [preemption.BlockedByRate + 1]uint64
}

// Explain explains how safe a job is from preemption, or why it has to leave.
func (j Job) Explain() Explanation {
	x := Explanation{Facts: []Fact{j.standing(), {
		Code: FactShare, Operation: j.Operation, Resource: j.Resource.String(), Value: j.Usage, Bound: j.Fair,
		Text: fmt.Sprintf("its operation uses %s of all %s; its fair share is %s", percent(j.Usage), j.Resource, percent(j.Fair)),
	}}}
	for block, n := range j.Spared {
		if n > 0 {
			name := preemption.Block(block).String()
			x.Facts = append(x.Facts, Fact{
				Code: FactSpared, Operation: j.Operation, Setting: name, Count: int64(n),
				Text: fmt.Sprintf("jobs of its operation were spared from preemption %s: %s", times(n), name),
			})
		}
	}
	x.Verdict = x.Facts[0].Code
	return x
}

// standing says whether a job is safe from preemption.
func (j Job) standing() Fact {
	f := Fact{Job: j.Job, Operation: j.Operation, Node: j.Node, At: j.Started}
	switch {
	case j.Leaving:
		f.Code, f.At, f.Until, f.Setting = FactLeaving, j.Ordered, j.Deadline, j.Kind.String()
		f.Text = "it has been told to end at once"
		if j.Deadline.After(j.Ordered) {
			f.Text = fmt.Sprintf("it was told at %s to leave, and may stay until %s", clock(j.Ordered), clock(j.Deadline))
		}
		if j.For != "" {
			f.Operation = j.For
			f.Text += fmt.Sprintf("; its resources are then held for a job of operation %s", j.For)
		}
	case j.Level == preemption.NonPreemptible:
		f.Code = FactProtected
		f.Text = "it is within the fair share of its operation: it is not preempted for others"
	default:
		f.Code, f.Setting = FactPreemptible, j.Level.String()
		f.Text = fmt.Sprintf("it is beyond the protected part of its operation's fair share (%s): it is preempted when a starving operation needs its resources", j.Level)
	}
	return f
}

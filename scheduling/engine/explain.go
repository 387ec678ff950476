package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// The codes of facts. Programs know them: never change one. Those of the first group say
// what an operation waits for, and are verdicts.
const (
	FactNoJobs         = "no_pending_jobs"
	FactNotRunning     = "not_running"
	FactSuspended      = "suspended"
	FactStarting       = "starting"
	FactStartsSoon     = "starts_soon"
	FactVictims        = "waiting_for_victims"
	FactNoNodes        = "no_nodes"
	FactNoMatch        = "no_node_matches"
	FactTooSmall       = "no_node_big_enough"
	FactLimit          = "limit_reached"
	FactWithheld       = "graceful_share_reached"
	FactPacking        = "waiting_for_better_node"
	FactTurn           = "waiting_for_turn"
	FactLacking        = "resources_lacking"
	FactBackoff        = "preemption_backoff"
	FactNoVictims      = "no_victims"
	FactNodes          = "nodes"
	FactPosition       = "position"
	FactEstimate       = "estimated_start"
	FactLikelyVictims  = "likely_victims"
	FactBelowFair      = "below_fair_share"
	FactHasFair        = "has_fair_share"
	FactStarving       = "starving"
	FactRefused        = "passed_over"
	FactShare          = "fair_share"
	FactShareStrong    = "share_by_guarantee"
	FactShareIntegral  = "share_by_integral_guarantee"
	FactShareWeight    = "share_by_weight"
	FactBoundDemand    = "share_bound_by_demand"
	FactBoundLimit     = "share_bound_by_limits"
	FactBoundWeight    = "share_bound_by_weight"
	FactBoundGuarantee = "share_bound_by_guarantee"
	FactBoundFIFO      = "share_bound_by_fifo_order"
	FactSpared         = "spared"
	FactProtected      = "protected"
	FactPreemptible    = "preemptible"
	FactLeaving        = "leaving"
)

// Fact is one thing that explains. Which fields are set follows from the code.
type Fact struct {
	Code string
	// Text says it for people.
	Text string

	Pool      scheduling.PoolName
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	Job       scheduling.JobID
	Node      scheduling.NodeID
	// Resource is the name of one, Setting that of an option.
	Resource, Setting string
	// Value is a part of the cluster or an amount, in cores and bytes, and Bound what it
	// is held against.
	Value, Bound float64
	// Count is how many, of Of.
	Count, Of int64
	// At is when it was, Until when it is over at the latest.
	At, Until time.Time
}

// Explanation says why something is as it is: the first fact says it in short, those
// that follow why.
type Explanation struct {
	// Verdict is the code of the first fact.
	Verdict string
	Facts   []Fact
	// Tasks are those of an operation with pending jobs, by name.
	Tasks []TaskExplanation
	// Position is the place in the order of scheduling, from 1, among Waiting operations
	// with pending jobs; 0: it has none.
	Position, Waiting int
	// Start is when a job is expected to start; zero: nobody knows.
	Start time.Time
	// Victims are the jobs that would have to leave if somebody had to now.
	Victims []Victim
	Share   ShareExplanation
}

// TaskExplanation says what the pending jobs of a task wait for.
type TaskExplanation struct {
	Name    scheduling.TaskName
	Verdict string
	// Pending are the jobs that are neither about to start nor have a claim.
	Pending int64
	PerJob  resource.Amounts
	Nodes   NodeCounts
}

// Victim is a job that could have to leave.
type Victim struct {
	Job       scheduling.JobID
	Operation scheduling.OperationID
	Node      scheduling.NodeID
	Started   time.Time
}

// Explain says of an operation why its jobs do not start, and why its share is what it
// is. It costs time in proportion to the number of nodes, and the engine nothing when
// nobody asks.
func (e *Engine) Explain(id scheduling.OperationID, now time.Time) (Explanation, error) {
	op := e.operations[id]
	if op == nil {
		return Explanation{}, fmt.Errorf("explain operation %s: %w", id, ErrUnknown)
	}
	var x Explanation
	e.explainWait(&x, op, now)
	e.explainHunger(&x, op)
	x.Facts = append(x.Facts, e.explainRefusals(id)...)
	x.Share = e.explainShare(&x, starver{operation: op})
	x.Verdict = x.Facts[0].Code
	return x, nil
}

// ExplainPool says of a pool why its share is what it is, and what keeps it from more.
func (e *Engine) ExplainPool(name scheduling.PoolName) (Explanation, error) {
	p := e.pools[name]
	if p == nil {
		return Explanation{}, fmt.Errorf("explain pool %q: %w", name, ErrUnknown)
	}
	var x Explanation
	x.Share = e.explainShare(&x, starver{pool: p})
	if p.parent != nil {
		x.Facts = append(x.Facts, hungerFact(p.hunger, timeouts(p.effective.Starvation, p.effective.CanStarve), "pool "+quote(p.name)))
	}
	for up := p; up != nil; up = up.parent {
		if k, reached := reached(up.order, up.effective.Limits); reached {
			x.Facts = append(x.Facts, limitFact(k, up.order, up.effective.Limits, up.name))
		}
	}
	refusals, err := e.PoolRefusals(name)
	if err != nil {
		return x, err
	}
	for _, r := range refusals {
		x.Facts = append(x.Facts, refusalFact(r))
	}
	x.Verdict = x.Facts[0].Code
	return x, nil
}

// ExplainJob says of a job how safe it is, or why it has to leave.
func (e *Engine) ExplainJob(job scheduling.JobID) (Explanation, error) {
	h := e.allocations[job]
	if h == nil {
		return Explanation{}, fmt.Errorf("explain job %s: %w", job, ErrUnknown)
	}
	x := Explanation{Facts: []Fact{e.standing(h)}}
	b := h.operation.groups.Bounds()
	k := resource.Dominant(h.operation.order.Usage(), e.total)
	x.Facts = append(x.Facts, Fact{
		Code: FactShare, Operation: h.operation.ID, Resource: k.String(),
		Value: resource.Share(h.operation.order.Usage(), e.total)[k], Bound: b.Fair[k],
		Text: fmt.Sprintf("its operation uses %s of all %s; its fair share is %s", percent(resource.Share(h.operation.order.Usage(), e.total)[k]), k, percent(b.Fair[k])),
	})
	for block, n := range h.operation.spared {
		if n > 0 {
			x.Facts = append(x.Facts, sparedFact(h.operation.ID, blockName(block), n))
		}
	}
	x.Verdict = x.Facts[0].Code
	return x, nil
}

// refusalFact says how often something was left out.
func refusalFact(r Refusal) Fact {
	f := Fact{
		Code: FactRefused, Setting: r.Cause.String(), Pool: r.Of, Node: r.Node, Resource: r.Resource.String(), Count: int64(r.Count), At: r.At,
	}
	who := "it was"
	if r.Of != "" {
		who = fmt.Sprintf("pool %q was", r.Of)
	}
	f.Text = fmt.Sprintf("%s passed over %s because %s, last on node %s at %s", who, times(r.Count), refusalReason(r), r.Node, clock(r.At))
	return f
}

// explainRefusals are the looks at nodes that came to nothing.
func (e *Engine) explainRefusals(id scheduling.OperationID) []Fact {
	noted, err := e.Facts(id)
	if err != nil {
		return nil
	}
	var all []Fact
	for _, r := range noted.Refusals {
		all = append(all, refusalFact(r))
	}
	if noted.Ended.End != NotEnded && noted.Ended.End != ClaimStarted {
		all = append(all, Fact{
			Code: FactVictims, Node: noted.Ended.Node, At: noted.Ended.At, Setting: noted.Ended.End.String(),
			Text: fmt.Sprintf("what was held for it on node %s was given back at %s: %s", noted.Ended.Node, clock(noted.Ended.At), noted.Ended.End),
		})
	}
	return all
}

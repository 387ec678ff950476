package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Facts is what the engine has noted of an operation while it decided. It shares nothing
// with the engine.
type Facts struct {
	Operation scheduling.OperationID
	// Refusals are the looks at nodes that came to nothing, the operation's own first and
	// then those of the pools above it, which were left out with all that is in them.
	Refusals []explain.Refusal
	// Stage is the preemptive stage in which the operation takes part, Preempting whether
	// it does; Starving is the pool by whose starvation, empty: by its own; Since is when
	// that came to be below its fair share.
	Stage      preemption.Stage
	Preempting bool
	Starving   scheduling.PoolName
	Since      time.Time
	// Claims are what is held for its jobs on nodes.
	Claims []ClaimView
	// Ended is how the last of its claims ended that has, zero if none has.
	Ended EndedClaim
	// Going are those allocations of others that leave for it, and its own that leave.
	Going []Holding
	// Spared counts, by block, how often allocations of it were no victims because of
	// that.
	Spared map[preemption.Block]uint64
	// Started is when a job of it was started last, zero: never by this engine.
	Started time.Time
}

// ClaimEnd says how a claim ended.
type ClaimEnd uint8

// The ends of claims.
const (
	// NotEnded is that of an operation of which no claim has ended.
	NotEnded ClaimEnd = iota
	// ClaimStarted: its job was started.
	ClaimStarted
	// ClaimUnwanted: the operation wants no more jobs, or may not start any there.
	ClaimUnwanted
	// ClaimUnmet: all victims have gone, and there is too little all the same.
	ClaimUnmet
	// ClaimExpired: victims should have gone, and have not.
	ClaimExpired
	// ClaimNodeLost: the node has gone.
	ClaimNodeLost
	// ClaimRefused: the order to the victims was not committed.
	ClaimRefused
	// ClaimOverLimits: with it the operation, or a pool above, used more than its limits.
	ClaimOverLimits
)

// String returns the name of the end, such as "expired".
func (c ClaimEnd) String() string {
	return [...]string{"none", "started", "unwanted", "unmet", "expired", "node_lost", "refused", "over_limits"}[c]
}

// EndedClaim is a claim that has ended.
type EndedClaim struct {
	End  ClaimEnd
	At   time.Time
	Node scheduling.NodeID
}

// Facts returns what has been noted of an operation.
func (e *Engine) Facts(id scheduling.OperationID) (Facts, error) {
	op := e.tree.operations[id]
	if op == nil {
		return Facts{}, fmt.Errorf("facts of operation %s: %w", id, ErrUnknown)
	}
	f := Facts{Operation: id, Ended: op.ended, Started: op.lastStart, Spared: map[preemption.Block]uint64{}}
	f.Refusals = refusals(f.Refusals, op.order, "")
	for p := op.pool; p != nil; p = p.parent {
		f.Refusals = refusals(f.Refusals, p.order, p.name)
	}
	f.Stage, f.Preempting = op.stage, op.starver != starver{}
	switch {
	case op.starver.pool != nil:
		f.Starving, f.Since = op.starver.pool.name, op.starver.pool.clock.From()
	case op.starver.operation != nil:
		f.Since = op.clock.From()
	}
	for block, n := range op.spared {
		if n > 0 {
			f.Spared[preemption.Block(block)] = n
		}
	}
	for _, c := range op.claims {
		f.Claims = append(f.Claims, c.view())
		for _, h := range c.node.held {
			if h.leavesFor(c) {
				f.Going = append(f.Going, h.view())
			}
		}
	}
	if op.leavers == 0 {
		return f, nil
	}
	for _, h := range e.Holdings() {
		if h.Leaving && h.Operation == id {
			f.Going = append(f.Going, h)
		}
	}
	return f, nil
}

// PoolRefusals returns the looks at nodes that came to nothing for a pool as a whole, and
// those of the pools above it.
func (e *Engine) PoolRefusals(name scheduling.PoolName) ([]explain.Refusal, error) {
	p := e.tree.pools[name]
	if p == nil {
		return nil, fmt.Errorf("facts of pool %q: %w", name, ErrUnknown)
	}
	var all []explain.Refusal
	for ; p != nil; p = p.parent {
		all = refusals(all, p.order, p.name)
	}
	return all, nil
}

// Holding returns the allocation of a job.
func (e *Engine) Holding(job scheduling.JobID) (Holding, bool) {
	h := e.holdings.allocations[job]
	if h == nil {
		return Holding{}, false
	}
	return h.view(), true
}

// explained are the looks at nodes that came to nothing, and how the last claim ended.
func (f Facts) explained() (all []explain.Fact) {
	for _, r := range f.Refusals {
		all = append(all, r.Fact())
	}
	if f.Ended.End != NotEnded && f.Ended.End != ClaimStarted {
		all = append(all, explain.GivenBack(f.Ended.Node, f.Ended.At, f.Ended.End))
	}
	return all
}

// ExplainJob says of a job how safe it is, or why it has to leave.
func (e *Engine) ExplainJob(job scheduling.JobID) (explain.Explanation, error) {
	h := e.holdings.allocations[job]
	if h == nil {
		return explain.Explanation{}, fmt.Errorf("explain job %s: %w", job, ErrUnknown)
	}
	j, op := h.explained(), h.operation
	j.Resource = resource.Dominant(op.order.Usage(), e.cluster.total)
	j.Usage, j.Fair = resource.Share(op.order.Usage(), e.cluster.total)[j.Resource], op.groups.Bounds().Fair[j.Resource]
	j.Spared = op.spared
	return j.Explain(), nil
}

// explained is h for those who ask.
func (h *holding) explained() explain.Job {
	j := explain.Job{Job: h.Job, Operation: h.operation.ID, Node: h.node.id, Started: h.Started, Level: h.Level()}
	if l := h.leaving; l != nil {
		j.Leaving, j.Ordered, j.Deadline, j.Kind = true, l.ordered, l.deadline, l.kind
		if l.claim != nil {
			j.For = l.claim.operation.ID
		}
	}
	return j
}

// refusals adds those of an element, in the order of causes.
func refusals(to []explain.Refusal, of *allocation.Element, name scheduling.PoolName) []explain.Refusal {
	for cause, noted := range of.Facts {
		if noted.Count == 0 {
			continue
		}
		r := explain.Refusal{
			Cause: allocation.Cause(cause), Count: noted.Count, Of: name, At: noted.Last.At, Node: noted.Last.Node, Resource: noted.Last.Resource,
		}
		if by := noted.Last.By; by != nil {
			if p, ok := by.Owner().(*pool); ok {
				r.By = p.name
			}
		}
		to = append(to, r)
	}
	return to
}

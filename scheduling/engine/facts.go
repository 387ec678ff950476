package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

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

// explained are the looks at nodes that came to nothing for an operation, the operation's own
// first and then those of the pools above it, and how the last of its claims ended that has.
func (op *operation) explained() (all []explain.Fact) {
	for _, r := range op.refusals() {
		all = append(all, r.Fact())
	}
	if c := op.ended; c.End != NotEnded && c.End != ClaimStarted {
		all = append(all, explain.GivenBack(c.Node, c.At, c.End))
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

// refusals are the looks at nodes that came to nothing for an element, in the order of causes, and
// then for the pools above it as a whole, which left out what is in them.
func (e *element) refusals() (all []explain.Refusal) {
	for ; e != nil; e = e.above {
		for cause, noted := range e.order.Facts {
			if noted.Count == 0 {
				continue
			}
			r := explain.Refusal{
				Cause: allocation.Cause(cause), Count: noted.Count, Of: e.name, At: noted.Last.At, Node: noted.Last.Node, Resource: noted.Last.Resource,
			}
			if by := noted.Last.By; by != nil {
				if p, ok := by.Owner().(*pool); ok {
					r.By = p.name
				}
			}
			all = append(all, r)
		}
	}
	return all
}

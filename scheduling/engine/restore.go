package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// What an engine goes on from that is made while the cluster runs: what has been left by
// preemptions that another engine planned, and what that one tells of them.

// AddClaim holds resources of a node for a job for which others have been told to go
// there. They may have gone, or be told of by Leave later. Operations, demand and
// allocations come first. A claim whose job is not wanted any more is left out.
func (e *Engine) AddClaim(id scheduling.NodeID, b Beneficiary, planned, expires time.Time) error {
	n := e.cluster.node(id)
	if e.claims.findClaim(n, b, planned) != nil {
		return fmt.Errorf("add claim of operation %s on node %s: %w", b.Operation, id, ErrExists)
	}
	if c := e.claims.claimAgain(n, b, planned); c != nil {
		c.expires, c.restored = expires, true
		e.claims.trim(n)
	}
	e.cluster.forgetNode(n)
	return nil
}

// EndClaims gives back what is held on a node that is lost: jobs that wait for it may
// start elsewhere.
func (e *Engine) EndClaims(id scheduling.NodeID) {
	n := e.cluster.nodes[id]
	for n != nil && len(n.claims) > 0 {
		e.claims.endClaim(n.claims[len(n.claims)-1], ClaimNodeLost)
	}
}

// SetRate tells when jobs of a pool, and of those below it, were preempted within the last
// minute. A pool that is not known is left out.
func (e *Engine) SetRate(id scheduling.PoolID, times []time.Time) {
	for _, p := range e.tree.pools {
		if p.id != id {
			continue
		}
		for _, at := range slices.SortedFunc(slices.Values(times), time.Time.Compare) {
			p.rate.Take(at)
		}
	}
}

// SetAttempted tells when preemption was tried last on a node: it is tried again when the
// backoff is over. A node that is not known is left out.
func (e *Engine) SetAttempted(id scheduling.NodeID, at time.Time) {
	if n := e.cluster.nodes[id]; n != nil && at.After(n.attempted) {
		n.attempted = at
	}
}

// limited returns those of p and the pools above it that have a rate limit, by id; rated
// says that some have one.
func (p *pool) limited(rated bool) (ids []scheduling.PoolID) {
	if !rated {
		return nil
	}
	for ; p != nil; p = p.parent {
		if p.effective.Preemption.RateLimit != pooltree.NoRateLimit && p.id != 0 {
			ids = append(ids, p.id)
		}
	}
	return ids
}

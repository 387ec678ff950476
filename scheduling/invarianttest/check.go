// Package invarianttest checks, for tests, what must hold in an engine at every moment, and names
// the first breach.
//
// It recomputes every sum from the holdings, and does not rely on sums that the engine keeps. The
// package is pure.
package invarianttest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// ErrBreach is wrapped by every error of Check.
var ErrBreach = errors.New("invariant broken")

// View is what Check reads: an *engine.Engine.
type View interface {
	Snapshot() engine.Snapshot
	Holdings() []engine.Holding
}

// Check returns an error that names the first breach, or nil if there is none.
func Check(v View) error {
	s := v.Snapshot()
	c := checker{
		snapshot: &s, holdings: v.Holdings(), inFlight: map[taskKey]int64{}, claimed: map[taskKey]int64{},
		nodes: sums[scheduling.NodeID]{}, operations: sums[scheduling.OperationID]{}, pools: sums[scheduling.PoolName]{},
	}
	for _, check := range []func() error{
		c.count, c.checkNodes, c.checkOperations, c.checkPools, c.checkFairShares, c.checkGroups,
	} {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", ErrBreach, err)
		}
	}
	return nil
}

type taskKey struct {
	operation scheduling.OperationID
	task      scheduling.TaskName
	group     int64
}

// sum is the recount of a node, an operation or a pool.
type sum struct {
	// held is the usage. For a node it includes the usage of leaving jobs. For operations and pools it
	// includes claims. leaving is the usage of jobs that were ordered to leave.
	held, leaving, claimed resource.Amounts
	fair                   resource.Vector
	jobs                   int
}

// sums are recounts by name.
type sums[K comparable] map[K]*sum

// of returns the sum of a name, and adds one if there is none.
func (s sums[K]) of(name K) *sum {
	if s[name] == nil {
		s[name] = &sum{}
	}
	return s[name]
}

// checker holds the recount.
type checker struct {
	snapshot          *engine.Snapshot
	holdings          []engine.Holding
	inFlight, claimed map[taskKey]int64
	nodes             sums[scheduling.NodeID]
	operations        sums[scheduling.OperationID]
	pools             sums[scheduling.PoolName]
}

// count adds up what is held, by node, operation and task, and the claims, which are usage of
// their operations.
func (c *checker) count() error {
	inFlight := 0
	jobs := map[scheduling.JobID]bool{}
	for _, h := range c.holdings {
		n, op := c.nodes.of(h.Node), c.operations.of(h.Operation)
		n.held = n.held.Add(h.Resources)
		if h.Leaving {
			n.leaving, op.leaving = n.leaving.Add(h.Resources), op.leaving.Add(h.Resources)
		} else {
			op.held = op.held.Add(h.Resources)
		}
		if h.Ticket != 0 {
			inFlight++
			c.inFlight[taskKey{h.Operation, h.Task, h.Group}]++
			continue
		}
		if jobs[h.Job] {
			return fmt.Errorf("job %s has two allocations", h.Job)
		}
		jobs[h.Job] = true
		op.jobs++
	}
	if inFlight != c.snapshot.InFlight {
		return fmt.Errorf("%d starts are in flight, but the snapshot counts %d", inFlight, c.snapshot.InFlight)
	}
	for _, claim := range c.snapshot.Claims {
		n, op := c.nodes.of(claim.Node), c.operations.of(claim.Operation)
		n.claimed, op.held = n.claimed.Add(claim.Resources), op.held.Add(claim.Resources)
		c.claimed[taskKey{claim.Operation, claim.Task, claim.Group}]++
	}
	return nil
}

func (c *checker) checkNodes() error {
	var total resource.Amounts
	for _, n := range c.snapshot.Nodes {
		has := c.nodes.of(n.ID)
		if n.Leaving != has.leaving || n.Claimed != has.claimed {
			return fmt.Errorf("node %s: %v is leaving and %v is claimed, but by its allocations and claims these are %v and %v", n.ID, n.Leaving, n.Claimed, has.leaving, has.claimed)
		}
		if n.Usage != has.held {
			return fmt.Errorf("node %s: usage is %v, but its allocations hold %v", n.ID, n.Usage, has.held)
		}
		if n.Known && !n.Overcommitted && !n.Usage.Fits(n.Limits) {
			return fmt.Errorf("node %s: usage %v is above limits %v", n.ID, n.Usage, n.Limits)
		}
		if n.Known && !n.Claimed.IsZero() && !n.Overcommitted && !n.Usage.Sub(n.Leaving).Add(n.Claimed).Fits(n.Limits) {
			return fmt.Errorf("node %s: claims of %v do not fit: it will hold %v of %v", n.ID, n.Claimed, n.Usage.Sub(n.Leaving), n.Limits)
		}
		if n.Known && n.Schedulable {
			total = total.Add(n.Limits)
		}
		delete(c.nodes, n.ID)
	}
	if id, lost := first(c.nodes); lost {
		return fmt.Errorf("node %s: not in the snapshot, but its allocations hold %v", id, c.nodes[id].held)
	}
	if total != c.snapshot.Total {
		return fmt.Errorf("cluster: total is %v, but its nodes have %v", c.snapshot.Total, total)
	}
	return nil
}

func (c *checker) checkOperations() error {
	for _, op := range c.snapshot.Operations {
		has := c.operations.of(op.ID)
		if op.Shares.Usage != has.held {
			return fmt.Errorf("operation %s: usage is %v, but its allocations hold %v", op.ID, op.Shares.Usage, has.held)
		}
		if op.Shares.Leaving != has.leaving {
			return fmt.Errorf("operation %s: %v is leaving, but its leaving allocations hold %v", op.ID, op.Shares.Leaving, has.leaving)
		}
		if op.Allocations != has.jobs {
			return fmt.Errorf("operation %s: the snapshot counts %d allocations, but it has %d", op.ID, op.Allocations, has.jobs)
		}
		for _, t := range op.Tasks {
			if held := c.inFlight[taskKey{op.ID, t.Name, t.Group}]; held != t.InFlight {
				return fmt.Errorf("operation %s: task %q: the snapshot counts %d starts in flight, but it has %d", op.ID, t.Name, t.InFlight, held)
			}
			if claims := c.claimed[taskKey{op.ID, t.Name, t.Group}]; claims != t.Claimed {
				return fmt.Errorf("operation %s: task %q: the snapshot counts %d claims, but it has %d", op.ID, t.Name, t.Claimed, claims)
			}
			if t.Pending < 0 || t.Effective != max(t.Pending-t.InFlight-t.Claimed, 0) || t.Claimed > max(t.Pending-t.InFlight, 0) {
				return fmt.Errorf("operation %s: task %q: %d pending less %d in flight and %d claimed is not %d",
					op.ID, t.Name, t.Pending, t.InFlight, t.Claimed, t.Effective)
			}
		}
		if err := c.shares(op.Shares); err != nil {
			return fmt.Errorf("operation %s: %w", op.ID, err)
		}
		c.pools.of(op.Pool).add(op.Shares)
		delete(c.operations, op.ID)
	}
	if id, lost := first(c.operations); lost {
		return fmt.Errorf("operation %s: not in the snapshot, but its allocations hold %v", id, c.operations[id].held)
	}
	return nil
}

// checkPools checks the pools from the last to the first: all pools below a pool come after it.
func (c *checker) checkPools() error {
	for _, p := range slices.Backward(c.snapshot.Pools) {
		below := c.pools.of(p.Name)
		if p.Shares.Usage != below.held {
			return fmt.Errorf("pool %q: usage is %v, but that of its children is %v", p.Name, p.Shares.Usage, below.held)
		}
		if p.Shares.Leaving != below.leaving {
			return fmt.Errorf("pool %q: %v is leaving, but in its children it is %v", p.Name, p.Shares.Leaving, below.leaving)
		}
		if err := c.shares(p.Shares); err != nil {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
		c.pools.of(p.Parent).add(p.Shares)
	}
	return nil
}

// add counts the usage, what is leaving, and the fair share of a child.
func (s *sum) add(child engine.Shares) {
	s.held, s.leaving, s.fair = s.held.Add(child.Usage), s.leaving.Add(child.Leaving), s.fair.Add(child.FairShare)
}

// checkFairShares checks that the fair shares of children do not exceed that of their pool. It
// checks nothing if the tree has changed since the last update, which computed the fair shares.
func (c *checker) checkFairShares() error {
	if c.snapshot.Stale {
		return nil
	}
	for _, p := range c.snapshot.Pools {
		if sum := c.pools.of(p.Name).fair; !sum.Within(p.Shares.FairShare, resource.Epsilon) {
			return fmt.Errorf("pool %q: fair share is %v, but that of its children is %v", p.Name, p.Shares.FairShare, sum)
		}
	}
	return nil
}

// shares checks the numbers of one pool or operation.
func (c *checker) shares(s engine.Shares) error {
	for k := range resource.Kind(resource.Count) {
		if v := s.Usage.Of(k); v < 0 {
			return fmt.Errorf("usage of %s is negative: %d", k, v)
		}
		if v := s.FairShare[k]; !(v >= 0 && v <= 1+resource.Epsilon) {
			return fmt.Errorf("fair share of %s is not from 0 to 1: %v", k, v)
		}
		for _, v := range []float64{s.DemandShare[k], s.UsageShare[k], s.Satisfaction} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return fmt.Errorf("demand share %v, usage share %v or satisfaction %v is negative or not finite", s.DemandShare[k], s.UsageShare[k], s.Satisfaction)
			}
		}
	}
	return nil
}

// first returns the least key of m, which ought to be empty.
func first[K cmp.Ordered, V any](m map[K]V) (least K, ok bool) {
	for k := range m {
		if !ok || k < least {
			least, ok = k, true
		}
	}
	return least, ok
}

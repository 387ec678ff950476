// Package invariant says what must hold in an engine at every moment, and names
// the first breach.
//
// It counts everything again from what is held, and believes no sum that the
// engine keeps. The package is pure.
package invariant

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

// View is what Check looks at: an *engine.Engine.
type View interface {
	Snapshot() engine.Snapshot
	Holdings() []engine.Holding
}

// Check returns an error that names the first breach, and nil when all is well.
func Check(v View) error {
	s, holdings := v.Snapshot(), v.Holdings()
	c := checker{
		snapshot: &s,
		onNode:   map[scheduling.NodeID]resource.Amounts{},
		going:    map[scheduling.NodeID]resource.Amounts{},
		goingOf:  map[scheduling.OperationID]resource.Amounts{},
		claimed:  map[scheduling.NodeID]resource.Amounts{},
		claimsOf: map[taskKey]int64{},
		ofTask:   map[taskKey]int64{},
		jobsOf:   map[scheduling.OperationID]int{},
		usageOf:  map[scheduling.OperationID]resource.Amounts{},
		poolSums: map[scheduling.PoolName]resource.Amounts{},
		goneSums: map[scheduling.PoolName]resource.Amounts{},
		fairSums: map[scheduling.PoolName]resource.Vector{},
	}
	for _, check := range []func() error{
		func() error { return c.count(holdings) },
		c.claims, c.nodes, c.operations, c.pools, c.fairShares,
		func() error { return c.groups(holdings) },
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

// checker holds what was counted again.
type checker struct {
	snapshot *engine.Snapshot
	onNode   map[scheduling.NodeID]resource.Amounts
	going    map[scheduling.NodeID]resource.Amounts
	goingOf  map[scheduling.OperationID]resource.Amounts
	claimed  map[scheduling.NodeID]resource.Amounts
	claimsOf map[taskKey]int64
	ofTask   map[taskKey]int64
	jobsOf   map[scheduling.OperationID]int
	usageOf  map[scheduling.OperationID]resource.Amounts
	poolSums map[scheduling.PoolName]resource.Amounts
	goneSums map[scheduling.PoolName]resource.Amounts
	fairSums map[scheduling.PoolName]resource.Vector
}

// count adds up what is held, by node, operation and task.
func (c *checker) count(holdings []engine.Holding) error {
	inFlight := 0
	jobs := map[scheduling.JobID]bool{}
	for _, h := range holdings {
		c.onNode[h.Node] = c.onNode[h.Node].Add(h.Resources)
		if h.Leaving {
			c.going[h.Node] = c.going[h.Node].Add(h.Resources)
			c.goingOf[h.Operation] = c.goingOf[h.Operation].Add(h.Resources)
		} else {
			c.usageOf[h.Operation] = c.usageOf[h.Operation].Add(h.Resources)
		}
		if h.Ticket != 0 {
			inFlight++
			c.ofTask[taskKey{h.Operation, h.Task, h.Group}]++
			continue
		}
		if jobs[h.Job] {
			return fmt.Errorf("job %s has two allocations", h.Job)
		}
		jobs[h.Job] = true
		c.jobsOf[h.Operation]++
	}
	if inFlight != c.snapshot.InFlight {
		return fmt.Errorf("%d starts are in flight, %d are counted", inFlight, c.snapshot.InFlight)
	}
	return nil
}

// claims adds up what is held for those who wait for what others leave: it is usage of
// theirs.
func (c *checker) claims() error {
	for _, claim := range c.snapshot.Claims {
		c.claimed[claim.Node] = c.claimed[claim.Node].Add(claim.Resources)
		c.claimsOf[taskKey{claim.Operation, claim.Task, claim.Group}]++
		c.usageOf[claim.Operation] = c.usageOf[claim.Operation].Add(claim.Resources)
	}
	return nil
}

func (c *checker) nodes() error {
	var total resource.Amounts
	for _, n := range c.snapshot.Nodes {
		if n.Leaving != c.going[n.ID] || n.Claimed != c.claimed[n.ID] {
			return fmt.Errorf("node %s: %v is leaving and %v claimed, its allocations and claims say %v and %v", n.ID, n.Leaving, n.Claimed, c.going[n.ID], c.claimed[n.ID])
		}
		if n.Usage != c.onNode[n.ID] {
			return fmt.Errorf("node %s: usage is %v, its allocations hold %v", n.ID, n.Usage, c.onNode[n.ID])
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
		delete(c.onNode, n.ID)
	}
	if id, lost := first(c.onNode); lost {
		return fmt.Errorf("node %s: not there, its allocations hold %v", id, c.onNode[id])
	}
	if total != c.snapshot.Total {
		return fmt.Errorf("cluster: total is %v, its nodes have %v", c.snapshot.Total, total)
	}
	return nil
}

func (c *checker) operations() error {
	for _, op := range c.snapshot.Operations {
		if op.Shares.Usage != c.usageOf[op.ID] {
			return fmt.Errorf("operation %s: usage is %v, its allocations hold %v", op.ID, op.Shares.Usage, c.usageOf[op.ID])
		}
		if op.Shares.Leaving != c.goingOf[op.ID] {
			return fmt.Errorf("operation %s: %v is leaving, its allocations that leave hold %v", op.ID, op.Shares.Leaving, c.goingOf[op.ID])
		}
		if op.Allocations != c.jobsOf[op.ID] {
			return fmt.Errorf("operation %s: %d allocations are counted, it has %d", op.ID, op.Allocations, c.jobsOf[op.ID])
		}
		for _, t := range op.Tasks {
			if held := c.ofTask[taskKey{op.ID, t.Name, t.Group}]; held != t.InFlight {
				return fmt.Errorf("operation %s: task %q: %d starts in flight are counted, it has %d", op.ID, t.Name, t.InFlight, held)
			}
			if claims := c.claimsOf[taskKey{op.ID, t.Name, t.Group}]; claims != t.Claimed {
				return fmt.Errorf("operation %s: task %q: %d claims are counted, it has %d", op.ID, t.Name, t.Claimed, claims)
			}
			if t.Pending < 0 || t.Effective != max(t.Pending-t.InFlight-t.Claimed, 0) || t.Claimed > max(t.Pending-t.InFlight, 0) {
				return fmt.Errorf("operation %s: task %q: %d pending less %d in flight and %d claimed is not %d",
					op.ID, t.Name, t.Pending, t.InFlight, t.Claimed, t.Effective)
			}
		}
		if err := c.shares(op.Shares); err != nil {
			return fmt.Errorf("operation %s: %w", op.ID, err)
		}
		c.poolSums[op.Pool] = c.poolSums[op.Pool].Add(op.Shares.Usage)
		c.goneSums[op.Pool] = c.goneSums[op.Pool].Add(op.Shares.Leaving)
		c.fairSums[op.Pool] = c.fairSums[op.Pool].Add(op.Shares.FairShare)
		delete(c.usageOf, op.ID)
	}
	if id, lost := first(c.usageOf); lost {
		return fmt.Errorf("operation %s: not there, its allocations hold %v", id, c.usageOf[id])
	}
	return nil
}

// pools goes from the last pool up: all below a pool come after it.
func (c *checker) pools() error {
	for _, p := range slices.Backward(c.snapshot.Pools) {
		if p.Shares.Usage != c.poolSums[p.Name] {
			return fmt.Errorf("pool %q: usage is %v, that of its children %v", p.Name, p.Shares.Usage, c.poolSums[p.Name])
		}
		if p.Shares.Leaving != c.goneSums[p.Name] {
			return fmt.Errorf("pool %q: %v is leaving, of its children %v", p.Name, p.Shares.Leaving, c.goneSums[p.Name])
		}
		if err := c.shares(p.Shares); err != nil {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
		c.poolSums[p.Parent] = c.poolSums[p.Parent].Add(p.Shares.Usage)
		c.goneSums[p.Parent] = c.goneSums[p.Parent].Add(p.Shares.Leaving)
		c.fairSums[p.Parent] = c.fairSums[p.Parent].Add(p.Shares.FairShare)
	}
	return nil
}

// fairShares are those of the last update and add up unless the tree has changed
// since.
func (c *checker) fairShares() error {
	if c.snapshot.Stale {
		return nil
	}
	for _, p := range c.snapshot.Pools {
		if sum := c.fairSums[p.Name]; !sum.Within(p.Shares.FairShare, resource.Epsilon) {
			return fmt.Errorf("pool %q: fair share is %v, that of its children %v", p.Name, p.Shares.FairShare, sum)
		}
	}
	return nil
}

// shares checks the numbers of one pool or operation.
func (c *checker) shares(s engine.Shares) error {
	for k := range resource.Kind(resource.Count) {
		if v := s.Usage.Of(k); v < 0 {
			return fmt.Errorf("usage of %s is %d", k, v)
		}
		if v := s.FairShare[k]; !(v >= 0 && v <= 1+resource.Epsilon) {
			return fmt.Errorf("fair share of %s is %v", k, v)
		}
		for _, v := range []float64{s.DemandShare[k], s.UsageShare[k], s.Satisfaction} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return fmt.Errorf("demand share %v, usage share %v or satisfaction %v is no share", s.DemandShare[k], s.UsageShare[k], s.Satisfaction)
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

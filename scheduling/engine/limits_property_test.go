package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// lowered is a full cluster with a random tree, of which settings are about to change.
type lowered struct {
	*drive
	set   options
	pools map[scheduling.PoolName]pool
	of    map[scheduling.OperationID]scheduling.PoolName
	nodes []scheduling.NodeID
	// changed is when they did.
	changed time.Time
}

func newLowered(t *rapid.T) *lowered {
	l := &lowered{
		set:   options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h", "min_run_time": rapid.SampledFrom([]string{"0s", "1h"}).Draw(t, "min run time")},
		pools: map[scheduling.PoolName]pool{}, of: map[scheduling.OperationID]scheduling.PoolName{},
	}
	parents := []scheduling.PoolName{scheduling.RootPool}
	for i := range rapid.IntRange(1, 5).Draw(t, "pools") {
		name := scheduling.PoolName(fmt.Sprint("p", i))
		l.pools[name] = pool{parent: rapid.SampledFrom(parents).Draw(t, "parent")}
		parents = append(parents, name)
	}
	l.drive = newDrive(t, l.set, l.pools)
	l.takes = time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds to leave")) * time.Second
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		l.nodes = append(l.nodes, scheduling.NodeID(fmt.Sprint("n", i)))
		l.node(l.nodes[i], rapid.Int64Range(1, 8).Draw(t, "slots"))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "operations") {
		id := scheduling.OperationID(fmt.Sprint("o", i))
		l.of[id] = rapid.SampledFrom(parents[1:]).Draw(t, "pool")
		needs := resource.Amounts{UserSlots: rapid.Int64Range(0, 2).Draw(t, "slots of a job"), CPU: resource.Hundredths(50 * rapid.Int64Range(1, 5).Draw(t, "cpu of a job"))}
		l.wants(id, l.of[id], rapid.Int64Range(0, 8).Draw(t, "jobs"), needs, nil)
		l.pass(time.Second, time.Second, l.nodes...)
	}
	return l
}

// drawCut draws lower limits, a lower ratio, or nothing.
func drawCut(t *rapid.T) options {
	o := options{}
	switch rapid.IntRange(0, 3).Draw(t, "cut") {
	case 0:
		o["resource_limits"] = options{"cpu": float64(rapid.IntRange(0, 20).Draw(t, "cpu")) / 2}
	case 1:
		o["resource_limits"] = options{"user_slots": float64(rapid.IntRange(0, 8).Draw(t, "slots")), "cpu": float64(rapid.IntRange(0, 20).Draw(t, "cpu")) / 2}
	case 2:
		o["max_share_ratio"] = float64(rapid.IntRange(0, 9).Draw(t, "ratio")) / 10
	}
	return o
}

// change lowers settings, and moves operations.
func (l *lowered) change(t *rapid.T) {
	parents := []scheduling.PoolName{}
	for name, p := range l.pools {
		parents = append(parents, name)
		p.options = options{}
		l.pools[name] = p
	}
	slices.Sort(parents)
	for _, name := range parents {
		p := l.pools[name]
		p.options = drawCut(t)
		if rapid.Bool().Draw(t, "forbids preemption") {
			p.options["allow_normal_preemption"], p.options["preemption_rate_limit"] = false, 0.0
		}
		l.pools[name] = p
	}
	l.tree(l.set, l.pools)
	for i := range len(l.of) {
		id := scheduling.OperationID(fmt.Sprint("o", i))
		if rapid.IntRange(0, 2).Draw(t, "moves") == 0 {
			l.of[id] = rapid.SampledFrom(parents).Draw(t, "to")
		}
		must(t, l.SetOperation(l.record(id, l.of[id], drawCut(t))))
	}
	l.changed = l.now
}

// bounds are what the operation and all pools above it may use, and use.
func (l *lowered) bounds(s engine.Snapshot, id scheduling.OperationID) (allowed, usage []resource.Amounts) {
	allow := func(shares engine.Shares, ratio *float64, parent scheduling.PoolName) {
		may := shares.Limits
		if l.now.Sub(l.changed) >= 16*time.Second && ratio != nil {
			above := s.Pools[slices.IndexFunc(s.Pools, func(p engine.PoolView) bool { return p.Name == parent })]
			may = may.Min(above.Shares.Attributes.LimitsShare.Scale(*ratio).Amounts(s.Total))
		}
		allowed, usage = append(allowed, may), append(usage, shares.Usage)
	}
	op := s.Operations[slices.IndexFunc(s.Operations, func(op engine.OperationView) bool { return op.ID == id })]
	allow(op.Shares, op.Options.MaxShareRatio, op.Pool)
	for name := op.Pool; name != scheduling.RootPool; name = l.pools[name].parent {
		var ratio *float64
		if r, set := l.pools[name].options["max_share_ratio"].(float64); set {
			ratio = &r
		}
		allow(s.Pools[slices.IndexFunc(s.Pools, func(p engine.PoolView) bool { return p.Name == name })].Shares, ratio, l.pools[name].parent)
	}
	return allowed, usage
}

// check is for after a heartbeat of all nodes: nothing is used beyond what may be, and each
// of the jobs that had to go in it had to.
func (l *lowered) check(t *rapid.T) {
	s := l.Snapshot()
	for id := range l.of {
		allowed, usage := l.bounds(s, id)
		for i := range usage {
			if !usage[i].Fits(allowed[i]) {
				t.Fatalf("%v is used of %v, by operation %s or pool %d above it", usage[i], allowed[i], id, i)
			}
		}
	}
	for _, v := range l.victims {
		if v.Kind != lifecycle.ResourceLimitsViolated {
			t.Fatalf("%s goes for %s", v.Job, v.Kind)
		}
		allowed, usage := l.bounds(s, v.Operation)
		needed := false
		for i := range usage {
			needed = needed || !usage[i].Add(l.needs[v.Operation]).Fits(allowed[i])
		}
		if !needed {
			t.Fatalf("job %s had to go for nothing: %s", v.Job, v.Message())
		}
	}
	l.victims = nil
}

// TestNothingStaysAboveLimits lowers limits and ratios of a full cluster with any tree, and
// moves operations: a heartbeat of each node later nothing uses more than its limits, 15 s
// later nothing more than its ratio allows, by as few jobs as that takes, and then no more
// have to go.
func TestNothingStaysAboveLimits(t *testing.T) {
	gone := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		l := newLowered(t)
		l.change(t)
		for l.now.Sub(l.changed) < 18*time.Second {
			l.tick(time.Second)
			l.beat(rapid.Permutation(l.nodes).Draw(t, "order of nodes")...)
			for _, v := range l.victims {
				gone[v.Reason.Ceiling]++
			}
			l.check(t)
		}
		l.pass(time.Minute, time.Second, l.nodes...)
		if len(l.victims) > 0 {
			t.Fatalf("it goes on: %+v", l.victims)
		}
	})
	t.Logf("%d jobs had to go for limits, %d for ratios", gone[false], gone[true])
}

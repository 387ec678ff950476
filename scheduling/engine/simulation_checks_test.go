package engine_test

import (
	"slices"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// checkLimitsShares counts again what limits and filters leave to pools (F.2).
func (s *simulation) checkLimitsShares(t *rapid.T) {
	snapshot := s.engine.Snapshot()
	for _, p := range snapshot.Pools {
		limits, total := p.Effective.Limits, resource.Amounts{}
		for _, n := range snapshot.Nodes {
			if n.Known && n.Schedulable && p.Effective.TagFilter.Match(n.Tags) {
				total = total.Add(n.Limits)
			}
		}
		if !p.Effective.TagFilter.Empty() {
			limits = limits.Min(total)
		}
		if want := resource.Share(limits.Min(snapshot.Total), snapshot.Total); p.Shares.Attributes.LimitsShare != want {
			t.Fatalf("limits share of pool %q is %v, want %v of %v with filter %q", p.Name, p.Shares.Attributes.LimitsShare, want, limits, p.Effective.TagFilter)
		}
	}
}

// checkNothingIsLeft holds a heartbeat to "whatever fits is started". What victims leave beyond what
// they leave for is for the next one.
func (s *simulation) checkNothingIsLeft(t *rapid.T, ids []scheduling.NodeID, plan engine.Plan) {
	snapshot := s.engine.Snapshot()
	served := map[scheduling.NodeID]bool{}
	for _, id := range ids {
		served[id] = true
	}
	for _, p := range plan.Preempts {
		delete(served, p.Node)
	}
	for _, n := range snapshot.Nodes {
		if !served[n.ID] || !n.Known || !n.Schedulable || n.Overcommitted || n.Reserved != "" {
			continue
		}
		for _, op := range snapshot.Operations {
			for _, task := range op.Tasks {
				if task.Gang.Size == 0 && !task.Out && op.Enabled && !op.Suspended && !op.Removed && !op.Effective.Graceful && task.Effective > 0 && task.PerJob.Fits(spare(n).Min(room(snapshot, op, n))) {
					t.Fatalf("%d jobs of task %q of %s wait and fit on %s", task.Effective, task.Name, op.ID, n.ID)
				}
			}
		}
	}
}

// spare is what nobody has a claim on.
func spare(n engine.NodeView) resource.Amounts {
	free := n.Limits.Sub(n.Usage)
	return free.Min(free.Add(n.Leaving).Sub(n.Claimed))
}

// room is what the limits of an operation and of all pools above leave to it on a node:
// nothing when it may not use the node.
func room(s engine.Snapshot, op engine.OperationView, n engine.NodeView) resource.Amounts {
	left := op.Shares.Limits.Sub(op.Shares.Held())
	taken := op.Effective.TagFilter.Match(n.Tags)
	for name := op.Pool; name != ""; {
		i := slices.IndexFunc(s.Pools, func(p engine.PoolView) bool { return p.Name == name })
		p := s.Pools[i]
		left = left.Min(p.Shares.Limits.Sub(p.Shares.Held()))
		taken = taken && p.Effective.TagFilter.Match(n.Tags)
		name = p.Parent
	}
	if !taken {
		return resource.Amounts{}
	}
	return left
}

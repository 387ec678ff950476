package invarianttest

import (
	"fmt"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// CheckPlan returns an error that names the first breach by a plan. Nothing else may have happened
// between the two snapshots. Elements that use more than before must be within their limits, jobs
// must start only on nodes that match the filters of their operation and of all pools above, and
// gangs must start as a whole.
func CheckPlan(before engine.Snapshot, plan engine.Plan, after engine.Snapshot) error {
	c := planChecker{pools: map[scheduling.PoolName]engine.PoolView{}, tags: map[scheduling.NodeID][]string{}}
	was := map[scheduling.PoolName]resource.Amounts{}
	wasOf := map[scheduling.OperationID]resource.Amounts{}
	for _, p := range before.Pools {
		was[p.Name] = p.Shares.Held()
	}
	for _, op := range before.Operations {
		wasOf[op.ID] = op.Shares.Held()
	}
	for _, n := range after.Nodes {
		c.tags[n.ID] = n.Tags
	}
	for _, p := range after.Pools {
		c.pools[p.Name] = p
		limits := p.Shares.Limits.Add(p.Effective.Preemption.LimitTolerance)
		if held := p.Shares.Held(); !held.Fits(was[p.Name]) && !held.Fits(limits) {
			return fmt.Errorf("%w: pool %q: usage grew from %v to %v, but its limits are %v", ErrBreach, p.Name, was[p.Name], held, limits)
		}
	}
	operations := map[scheduling.OperationID]engine.OperationView{}
	for _, op := range after.Operations {
		operations[op.ID] = op
		if held := op.Shares.Held(); !held.Fits(wasOf[op.ID]) && !held.Fits(op.Shares.Limits) {
			return fmt.Errorf("%w: operation %s: usage grew from %v to %v, but its limits are %v", ErrBreach, op.ID, wasOf[op.ID], held, op.Shares.Limits)
		}
	}
	if err := gangs(before, plan); err != nil {
		return fmt.Errorf("%w: %w", ErrBreach, err)
	}
	for _, start := range plan.Starts {
		if err := c.matches(operations[start.Operation], start.Node); err != nil {
			return fmt.Errorf("%w: %w", ErrBreach, err)
		}
	}
	return nil
}

// gangs returns an error when some jobs of a gang start without the others.
func gangs(before engine.Snapshot, plan engine.Plan) error {
	starts, together := map[taskKey]int64{}, map[taskKey]int64{}
	for _, s := range plan.Starts {
		key := taskKey{operation: s.Operation, task: s.Task}
		starts[key]++
		if s.AllOrNone {
			together[key]++
		}
	}
	for _, op := range before.Operations {
		for _, t := range op.Tasks {
			key := taskKey{operation: op.ID, task: t.Name}
			if n := starts[key]; n > 0 && (together[key] != t.Gang.Missing || t.Gang.Missing > 0 && n != t.Gang.Missing) {
				return fmt.Errorf("operation %s: %d jobs of task %q start, %d of them all or none, but %d of a gang of %d are missing",
					op.ID, n, t.Name, together[key], t.Gang.Missing, t.Gang.Size)
			}
		}
	}
	return nil
}

type planChecker struct {
	pools map[scheduling.PoolName]engine.PoolView
	tags  map[scheduling.NodeID][]string
}

// matches returns an error when an operation may not use a node.
func (c planChecker) matches(op engine.OperationView, node scheduling.NodeID) error {
	tags := c.tags[node]
	if f := op.Effective.TagFilter; !f.Match(tags) {
		return fmt.Errorf("operation %s: a job starts on node %s with tags %v, but its filter is %q", op.ID, node, tags, f)
	}
	for name := op.Pool; name != ""; name = c.pools[name].Parent {
		if f := c.pools[name].Effective.TagFilter; !f.Match(tags) {
			return fmt.Errorf("operation %s: a job starts on node %s with tags %v, but the filter of pool %q is %q", op.ID, node, tags, name, f)
		}
	}
	return nil
}

package engine

import (
	"time"

	"weir/scheduling"
)

// Heartbeat plans what to start and to preempt on these nodes, in their order (F.12.3).
// Nodes that are not known get nothing.
//
// On each node the jobs of claims start first whose resources have become free. Then
// go those that leave gracefully, jobs start in what is free, and one may be started by
// preemption of others. What is above limits, or above what the node has, goes last.
func (e *Engine) Heartbeat(now time.Time, nodes []scheduling.NodeID) Plan {
	e.moment.now = now
	e.gangs.beats++
	plan := Plan{Starts: e.plan.Starts[:0], Preempts: e.plan.Preempts[:0]}
	plan.Gathers = e.claims.tendGangs(now)
	e.holdings.startGang(&plan)
	for i, id := range nodes {
		n := e.cluster.nodes[id]
		if n == nil || !n.known {
			continue
		}
		if len(plan.Starts) >= e.moment.config.MaxStartsPerPlan {
			plan.Unserved = append(plan.Unserved, nodes[i:]...)
			break
		}
		e.look(n, now, &plan)
		e.holdings.startGang(&plan)
	}
	plan.Gathers = e.gangs.chooseGang(now) || plan.Gathers
	e.plan.Starts, e.plan.Preempts = plan.Starts, plan.Preempts
	return plan
}

// look plans for one node.
func (e *Engine) look(n *node, now time.Time, plan *Plan) {
	n.looked = now
	open := n.schedulable && !n.overcommitted
	if open {
		e.holdings.keep(n, now, plan)
	}
	e.graceful.dismiss(n, now, plan)
	if open {
		e.placement.fill(n, now, plan)
		e.stages.run(n, now, plan)
	}
	e.repair.repair(n, now, plan)
	e.repair.relieve(n, now, plan)
	e.repair.hasten(n, now, plan)
}

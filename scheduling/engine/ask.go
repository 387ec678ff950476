package engine

import (
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// ask takes note of an operation.
func (iq *inquiries) ask(op *operation, now time.Time) explain.Asked {
	a := explain.Asked{ID: op.ID, Started: op.Started, Below: !op.clock.From().IsZero(), Pending: op.jobs(), Backoff: iq.moment.settings.Backoff}
	for _, c := range op.claims {
		if c.gang == nil {
			a.Held = append(a.Held, c.explained().Fact())
		}
	}
	flying := int64(0)
	for i := range op.tasks {
		flying += op.tasks[i].inFlight
	}
	switch {
	case !op.active():
		a.State = explain.NotRunning(op.Suspended)
	case a.Pending > 0:
		iq.askTasks(&a, op, now)
	case iq.gangs.gathering != nil && iq.gangs.gathering.operation == op:
		a.State = iq.gangCause(iq.gangs.gathering, now)
		if a.State.Code == explain.FactGang && iq.gangs.gathering.claims >= iq.gangs.gathering.missing() {
			a.Gathering = iq.gatheringOf(iq.gangs.gathering, now)
		}
	case flying > 0 || len(op.claims) == 0:
		a.State = explain.NoneWaits(flying)
	default:
		a.State, a.Held = a.Held[0], a.Held[1:]
	}
	return a
}

// askTasks takes note of those of its tasks that have jobs to start, and of what may let
// them.
func (iq *inquiries) askTasks(a *explain.Asked, op *operation, now time.Time) {
	a.Gates = iq.cluster.gates(&op.element)
	a.Unpacked = op.effective.Packing.Enable && op.order.Facts[allocation.Unpacked].Count > 0
	a.Resource = explain.Greatest(op.share)
	a.Usage, a.Share = resource.Share(op.order.Usage(), iq.cluster.total)[a.Resource], op.share.FairShare[a.Resource]
	a.Packed = (explain.Packed(op.share, a.Resource) || a.Share >= 1-resource.LargeEpsilon) && a.Usage >= a.Share-resource.LargeEpsilon
	if op.starver != (starver{}) {
		vain := op.order.Facts[allocation.NoVictims]
		a.Starves, a.Since, a.Stage, a.VainLooks, a.Vain = explain.It, op.clock.From(), op.stage, vain.Count, vain.Last
		if p := op.starver.pool; p != nil {
			a.Starves, a.Since = explain.PoolTitle(p.name), p.clock.From()
		}
	}
	a.Behind = explain.Behind(op.level(), a.Resource, op.clock.Status, op.ahead)
	for i := range op.tasks {
		t := &op.tasks[i]
		if t.effective() == 0 {
			continue
		}
		out := explain.Task{
			TaskID: t.TaskID, Pending: t.effective(), PerJob: t.perJob, View: iq.gangs.view(op, t.Name), Withheld: iq.graceful.withheld(op, t.perJob),
			Awaits: iq.cluster.waitsForNodes(op, t), Limit: explain.JobLimit(op.allLimits(), t.perJob, op.beyondLimits(t.perJob)),
		}
		if g := op.missing(t.Name); g != nil {
			f := iq.gangCause(g, now)
			out.Gang = &f
			if f.Code == explain.FactGang || f.Code == explain.FactGangTurn || f.Code == explain.FactGangPause {
				out.Gathering = iq.gatheringOf(g, now)
			}
		}
		a.Tasks = append(a.Tasks, out)
	}
}

// allLimits are those of an element and of the pools above.
func (e *element) allLimits() (all []explain.Limits) {
	for ; e != nil; e = e.above {
		all = append(all, explain.Limits{Pool: e.name, Held: withLeaving(e.order), Set: e.limits, Ceiling: e.ceiling})
	}
	return all
}

// gates are the filters of an element and of the pools above.
func (cl *cluster) gates(e *element) (all []explain.Gate) {
	for ; e != nil; e = e.above {
		if e.filter != allocation.NoFilter {
			all = append(all, explain.Gate{Pool: e.name, Filter: cl.filters.all[e.filter].String(), At: e.filter})
		}
	}
	return all
}

// explained is a claim for those who ask.
func (c *claim) explained() explain.Claim {
	x := explain.Claim{Task: c.task, Node: c.node.id, Ordered: c.ordered, Expires: c.expires, Victims: c.victims}
	for _, h := range c.node.held {
		if h.leavesFor(c) {
			x.Leaving = append(x.Leaving, h.explained())
		}
	}
	return x
}

// level is an element, below the pools above it, for those who ask; nil of none.
func (e *element) level() *explain.Level {
	if e == nil {
		return nil
	}
	l := &explain.Level{Share: e.share, Pool: e.name, Above: e.above.level()}
	if e.name == "" {
		l.Operation = scheduling.OperationID(e.share.ID)
	}
	if e.above != nil && e.above.fifo {
		l.FIFO = int(rank(e.share)) + 1
	}
	return l
}

// ahead is what comes before an operation in its FIFO pool, in pools of that too.
func (op *operation) ahead() (a explain.Ahead) {
	var all []*operation
	for _, other := range op.pool.operations {
		if rank(other.share) < rank(op.share) {
			all = append(all, other)
		}
	}
	for _, p := range op.pool.pools {
		if rank(p.share) < rank(op.share) {
			all = p.below(all)
		}
	}
	var first *operation
	for _, other := range slices.DeleteFunc(all, func(other *operation) bool { return !other.active() }) {
		a.Running += other.held
		jobs := other.jobs()
		if jobs == 0 {
			continue
		}
		a.Waiting++
		a.Jobs += jobs
		if first == nil || other.pool == first.pool && rank(other.share) < rank(first.share) {
			first, a.First = other, other.ID
		}
	}
	return a
}

// fares says how an operation does, and from when on others leave for it.
func (iq *inquiries) fares(op *operation, by [preemption.StageCount]starver) (facts []explain.Fact) {
	who := by[preemption.NormalStage]
	if who == (starver{}) {
		who = by[preemption.AggressiveStage]
	}
	if who.pool == nil || !op.clock.From().IsZero() {
		facts = append(facts, explain.Fares(op.clock, iq.tree.timeoutsOf(op), explain.It))
	}
	if p := who.pool; p != nil {
		facts = append(facts, explain.Fares(p.clock, p.timeouts(), explain.PoolTitle(p.name)))
	}
	return facts
}

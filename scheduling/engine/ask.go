package engine

import (
	"math"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// ask notes for an inquiry what the engine knows of an operation.
func (iq *inquiries) ask(op *operation, now time.Time) explain.Asked {
	a := explain.Asked{ID: op.ID, Started: op.Started, Below: !op.clock.From().IsZero(), Begun: op.begun, Pending: op.jobs(), Backoff: iq.moment.settings.Backoff}
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

// askTasks notes the tasks of an operation that have jobs to start, and what decides whether these
// jobs may start.
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

// allLimits are the limits of an element and of the pools above it.
func (e *element) allLimits() (all []explain.Limits) {
	for ; e != nil; e = e.above {
		all = append(all, explain.Limits{Pool: e.name, Held: withLeaving(e.order), Set: e.limits, Ceiling: e.ceiling})
	}
	return all
}

// gates are the filters of an element and of the pools above it.
func (cl *cluster) gates(e *element) (all []explain.Gate) {
	for ; e != nil; e = e.above {
		if e.filter != allocation.NoFilter {
			all = append(all, explain.Gate{Pool: e.name, Filter: cl.filters.all[e.filter].String(), At: e.filter})
		}
	}
	return all
}

// explained describes a claim for an inquiry.
func (c *claim) explained() explain.Claim {
	x := explain.Claim{Task: c.task, Node: c.node.id, Ordered: c.ordered, Expires: c.expires, Victims: c.victims}
	for _, h := range c.node.held {
		if h.leavesFor(c) {
			x.Leaving = append(x.Leaving, h.explained())
		}
	}
	return x
}

// level describes an element and the pools above it for an inquiry. It returns nil for a nil
// element.
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

// ahead counts the active operations that come before op in its FIFO pool, including those in pools
// below it.
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
		a.Running += len(other.held)
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

// fares says how near an operation is to starving, and how near the pool is whose starvation lets
// the operation preempt.
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

// task describes a gang for an inquiry.
func (gs *gangs) task(g *gang) explain.GangTask {
	return explain.GangTask{Task: g.task, Gang: gs.view(g.operation, g.task)}
}

// gangCause returns what keeps the jobs of a gang from starting together, given that some node could
// hold each of them.
func (iq *inquiries) gangCause(g *gang, now time.Time) explain.Fact {
	of, all := iq.gangs.task(g), g.together()
	if waiting := g.waiting(); waiting < of.Missing {
		return of.Incomplete(waiting)
	}
	if iq.gangs.gathering == g {
		return iq.gatheringFact(g)
	}
	if fit := iq.cluster.hopeFor(g); !fit.All() {
		return of.TooBig(fit, fit.Lacks(iq.cluster.hostsOf(g, !iq.moment.connected)))
	}
	if f := of.Limited(g.operation.allLimits(), all, g.operation.beyondLimits(all)); f != nil {
		return *f
	}
	if now.Before(g.again) {
		return of.Pause(g.again)
	}
	if other := iq.gangs.gathering; other != nil {
		return iq.gangs.task(other).ComesFirst(other.operation.ID)
	}
	return of.Turn()
}

// gatheringFact says where room is held for a gang, and how many jobs have to leave for it.
func (iq *inquiries) gatheringFact(g *gang) explain.Fact {
	on, leaving := map[scheduling.NodeID]int{}, 0
	for _, c := range g.operation.claims {
		if c.gang == g {
			on[c.node.id]++
			leaving += c.victims
		}
	}
	return iq.gangs.task(g).Gathers(on, leaving)
}

// gatheringOf notes the state of a gang that gathers room, or is to gather it.
func (iq *inquiries) gatheringOf(g *gang, now time.Time) *explain.Gathering {
	a := &explain.Gathering{Missing: g.missing(), Held: g.claims}
	others, one := g.rest()
	a.Each = one
	a.From = iq.gangs.turnOf(g, now)
	a.Until = later(now, a.From).Add(iq.moment.settings.GangTimeout)
	if iq.gangs.gathering == g {
		a.Until = g.end()
		for _, c := range g.operation.claims {
			if c.gang == g && c.victims > 0 {
				a.Leaves = later(a.Leaves, c.leaves())
			}
		}
	}
	_, hopes, _ := iq.hopes(g.operation)
	if by := hopes[preemption.NormalStage]; by != (starver{}) {
		a.Starves = by.owed(one, others, iq.cluster.total)
	}
	a.Behind = g.operation.order.SatisfactionWithout(resource.Amounts{}.Sub(others), one) >= 1-resource.Epsilon
	return a
}

// turnOf returns the time by which a gang may begin to gather. It is zero if the gang already
// gathers, or may begin at once.
func (gs *gangs) turnOf(g *gang, now time.Time) (from time.Time) {
	if gs.gathering == g {
		return from
	}
	if now.Before(g.again) {
		from = g.again
	}
	if gs.gathering == nil {
		return from
	}
	turn := gs.gathering.end()
	for _, other := range gs.all {
		if other != g && other != gs.gathering && gs.mayGather(other, now) && other.operation.order.Before(g.operation.order) {
			turn = turn.Add(gs.moment.settings.GangTimeout)
		}
	}
	return later(from, turn)
}

// leaves returns the latest deadline of the allocations that leave for a claim.
func (c *claim) leaves() (at time.Time) {
	for _, h := range c.node.held {
		if h.leavesFor(c) {
			at = later(at, h.leaving.deadline)
		}
	}
	return at
}

// For each preemption stage, hopes returns when the operation may begin to preempt others, and for
// which starving element: the operation itself or a pool above it. A stage is empty if that element
// will have reached its fair share before the operation's turn comes; outrun then says why.
func (iq *inquiries) hopes(op *operation) (all [preemption.StageCount]explain.Hope, by [preemption.StageCount]starver, outrun string) {
	from := func(who starver, c preemption.Clock, t preemption.Timeouts) {
		var at [preemption.StageCount]time.Time
		at[preemption.NormalStage], at[preemption.AggressiveStage] = c.Starves(t)
		for stage, at := range at {
			if known := all[stage].At; !at.IsZero() && (known.IsZero() || at.Before(known)) {
				all[stage].At, by[stage] = at, who
			}
		}
	}
	from(starver{operation: op}, op.clock, iq.tree.timeoutsOf(op))
	if iq.moment.settings.Preemption.PriorityScope != pooltree.OperationOnly {
		for p := op.pool; p.parent != nil; p = p.parent {
			from(starver{pool: p}, p.clock, p.timeouts())
		}
	}
	for stage := range all {
		h, who := &all[stage], by[stage]
		if h.At.IsZero() {
			continue
		}
		var taken resource.Amounts
		if h.Rivals, taken = iq.rivals(op, who, h.At); !who.owed(op.order.Next(), taken, iq.cluster.total) {
			outrun = explain.Outrun("")
			if who.pool != nil {
				outrun = explain.Outrun(who.pool.name)
			}
			*h, by[stage] = explain.Hope{}, starver{}
		}
	}
	return all, by, outrun
}

// rivals counts the jobs for which others are preempted before the turn of op. They are jobs of
// operations below the starving pool, and of operations that starve by the time `at`. The result
// taken is the part of what the pool lacks that operations below it take.
func (iq *inquiries) rivals(op *operation, by starver, at time.Time) (jobs int, taken resource.Amounts) {
	counted := map[*operation]bool{op: true}
	count := func(other *operation, lacks bool) {
		if counted[other] || !other.active() || !other.order.Before(op.order) {
			return
		}
		counted[other] = true
		n, needs := iq.before(other, op)
		jobs += n
		if lacks {
			taken = taken.Add(needs.Times(int64(n)))
		}
	}
	if by.pool != nil {
		for _, other := range by.pool.below(nil) {
			count(other, true)
		}
	}
	for _, other := range op.pool.operations {
		if starves, _ := other.clock.Starves(iq.tree.timeoutsOf(other)); !starves.IsZero() && !starves.After(at) {
			count(other, false)
		}
	}
	for stage := range iq.stages.starving {
		for _, other := range iq.stages.starving[stage] {
			count(other, false)
		}
	}
	return jobs, taken
}

// before returns how many jobs another operation starts before it is the turn of op, and what each
// of these jobs needs. In the FIFO pool of op, the other operation starts all its jobs. Elsewhere,
// it starts jobs until its satisfaction, or that of its pool, reaches the satisfaction of op or of
// op's pool.
func (iq *inquiries) before(other, op *operation) (jobs int, needs resource.Amounts) {
	waiting := other.jobs()
	for i := range other.tasks {
		if t := &other.tasks[i]; t.effective() > 0 {
			needs = needs.Max(t.perJob)
		}
	}
	if waiting == 0 {
		return 0, needs
	}
	if other.pool == op.pool && op.pool.fifo {
		return int(min(waiting, math.MaxInt32)), needs
	}
	mine, its, share := op.order, other.order, other.share
	for p := other.pool; p != nil && !op.order.Below(p.order); p = p.parent {
		its, share = p.order, p.share
	}
	for p := op.pool; p != nil && !other.order.Below(p.order); p = p.parent {
		mine = p.order
	}
	k := explain.Greatest(share)
	lacks := min(mine.Satisfaction(), 1)*share.FairShare[k]*float64(iq.cluster.total.Of(k)) - float64(its.Usage().Of(k))
	n := int64(1)
	if needs.Of(k) > 0 {
		n = max(1, int64(math.Ceil(lacks/float64(needs.Of(k)))))
	}
	return int(min(n, waiting, math.MaxInt32)), needs
}

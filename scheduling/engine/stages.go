package engine

import (
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// kinds are the preemption kinds of the stages.
var kinds = [preemption.StageCount]lifecycle.PreemptionKind{
	preemption.AggressiveStage: lifecycle.AggressivePreemption, preemption.NormalStage: lifecycle.Preemption,
}

// starver is the lowest starving element on the way from an operation to the root: the
// operation or a pool.
type starver struct {
	operation *operation
	pool      *pool
}

// stages starts jobs of starving elements in place of others (F.12.3).
type stages struct {
	*holdings

	victims  *selector
	graceful *graceful

	// starving are the operations that may preempt others, by stage, as of the last update. choosy
	// says that some of these operations wait for nodes that fit their jobs well.
	starving [preemption.StageCount][]*operation
	choosy   bool
	turns    []turn
}

// findStarving finds the operations that may preempt others, by stage, after an update.
func (st *stages) findStarving() {
	for s := range st.starving {
		clear(st.starving[s])
		st.starving[s] = st.starving[s][:0]
	}
	st.graceful.any, st.choosy = false, false
	st.collect(st.tree.root, [preemption.StageCount]starver{})
}

// collect finds the operations below a pool that may preempt others. The parameter above holds, by
// stage, the lowest starving element above the pool.
func (st *stages) collect(p *pool, above [preemption.StageCount]starver) {
	starves(p.clock.Starvation, starver{pool: p}, &above)
	for _, c := range p.pools {
		st.collect(c, above)
	}
	for _, op := range p.operations {
		st.graceful.any = st.graceful.any || op.effective.Graceful
		by := above
		if st.moment.settings.Preemption.PriorityScope == pooltree.OperationOnly {
			by = [preemption.StageCount]starver{}
		}
		starves(op.clock.Starvation, starver{operation: op}, &by)
		op.starver = starver{}
		if !op.active() {
			continue
		}
		for s := range by {
			if by[s] == op.starver {
				continue
			}
			st.choosy = st.choosy || op.effective.Packing.Enable
			// An element that starves below one that starves aggressively may also preempt its
			// siblings.
			st.starving[s] = append(st.starving[s], op)
			if op.starver == (starver{}) {
				op.starver, op.stage = by[s], preemption.Stage(s)
			}
		}
	}
}

// starves replaces the starving elements above by the element itself, in the stages in which its
// own starvation lets it preempt.
func starves(s preemption.Starvation, own starver, by *[preemption.StageCount]starver) {
	for stage := range preemption.StageCount {
		if s.Acts(stage) {
			by[stage] = own
		}
	}
}

// owed reports whether a job would still be owed to the starving element if it also used the
// amounts in `more`. What was started or claimed since the update counts as used. An operation is
// owed a job while it is below its min share, or below its fair share by more than the tolerance. A
// pool is owed a job while it is below its fair share.
func (s starver) owed(job, more, total resource.Amounts) bool {
	if s.pool != nil {
		return s.pool.order.SatisfactionWithout(resource.Amounts{}.Sub(more), job) < 1-resource.Epsilon
	}
	shares := s.operation.shares(more, total)
	return preemption.BelowMinShare(shares) || preemption.OperationStatus(shares, s.operation.effective.Starvation.Tolerance, true, s.operation.least) == preemption.BelowFairShare
}

// element returns the starving element in the order of scheduling.
func (s starver) element() *allocation.Element {
	if s.pool != nil {
		return s.pool.order
	}
	return s.operation.order
}

// satisfaction returns the satisfaction of the starving element, in the resource by which the job
// counts.
func (s starver) satisfaction(job resource.Amounts) float64 {
	return s.element().SatisfactionWithout(resource.Amounts{}, job)
}

// run preempts jobs of a node for a starving element. It tries the aggressive stage first, and the
// normal stage unless the aggressive one has served an operation.
func (st *stages) run(n *node, now time.Time, plan *Plan) {
	hungry := len(st.starving[preemption.AggressiveStage])+len(st.starving[preemption.NormalStage]) > 0
	if !hungry || !n.attempted.IsZero() && now.Sub(n.attempted) < st.moment.settings.Backoff {
		return
	}
	n.attempted = now
	for stage := range preemption.StageCount {
		if len(st.starving[stage]) > 0 && st.serve(stage, n, now, plan) {
			return
		}
	}
}

// turn is a task of an operation that may preempt, and the element whose starvation allows this.
type turn struct {
	op   *operation
	task allocation.Task
	by   starver
}

// creditor returns the lowest element on the way from an operation to the root that starves in a
// stage and is still owed a job of a task, together with all jobs that have to start with that job.
// The result ok is false if there is no such element.
func (st *stages) creditor(stage preemption.Stage, op *operation, task allocation.Task) (by starver, ok bool) {
	g := op.missing(task.Name)
	if g != nil && g.vain && g.vainIn == st.moment.age {
		return by, false
	}
	owed := func(s starver) bool {
		if g == nil {
			return s.owed(task.PerJob, resource.Amounts{}, st.cluster.total)
		}
		others, _ := g.rest()
		return s.element().SatisfactionWithout(resource.Amounts{}.Sub(others), task.PerJob) < 1-resource.Epsilon
	}
	by = starver{operation: op}
	if op.clock.Starvation.Acts(stage) && owed(by) {
		return by, true
	}
	for p := op.pool; p != nil && st.moment.settings.Preemption.PriorityScope != pooltree.OperationOnly; p = p.parent {
		by = starver{pool: p}
		if p.clock.Starvation.Acts(stage) && owed(by) {
			return by, true
		}
	}
	return by, false
}

// serve starts a job by preemption. It tries the operations of a stage that have a job that fits the
// node once victims have left, in the order of scheduling. If no victims were found for a job because
// of the starvation of a pool, jobs below that pool that are as large or larger are not tried.
func (st *stages) serve(stage preemption.Stage, n *node, now time.Time, plan *Plan) bool {
	if len(plan.Starts) >= st.moment.config.MaxStartsPerPlan {
		return false
	}
	st.victims.round++
	candidates, discount := st.victims.candidates(stage, n, now)
	if discount.IsZero() && !st.choosy && !slices.ContainsFunc(n.held, (*holding).Grouped) {
		// Nothing on the node may be preempted: everything is in flight or leaving.
		return false
	}
	turns := st.contenders(stage, n, discount, now)
	for i := range turns {
		switch i {
		case 0:
			for j := range turns {
				if byTurn(turns[j], turns[0]) < 0 {
					turns[0], turns[j] = turns[j], turns[0]
				}
			}
		case 1:
			// The first one usually succeeds, so the others are sorted only here.
			slices.SortFunc(turns[1:], byTurn)
		}
		next := &turns[i]
		p := next.by.pool
		if p == nil || p.failed != st.victims.round || !p.failedFor.Fits(next.task.PerJob) {
			if st.displace(stage, n, *next, candidates, now, plan) {
				return true
			}
			if p != nil {
				p.failed, p.failedFor = st.victims.round, next.task.PerJob
			}
		}
		next.op.order.Note(allocation.NoVictims, allocation.Fact{At: now, Node: n.id})
	}
	return false
}

// byTurn orders turns by the order of scheduling of their operations.
func byTurn(a, b turn) int {
	switch {
	case a.op == b.op:
		return 0
	case a.op.order.Before(b.op.order):
		return -1
	}
	return 1
}

// contenders returns the operations that may preempt in a stage and have a job that fits the node
// once all candidates have left.
func (st *stages) contenders(stage preemption.Stage, n *node, discount resource.Amounts, now time.Time) []turn {
	all, on := st.turns[:0], n.offered(now)
	spare := on.Free
	for _, op := range st.starving[stage] {
		if !op.active() {
			continue
		}
		on.Free = spare.Add(discount)
		if op.round == st.victims.round {
			on.Free = on.Free.Sub(op.discount)
		}
		t, fits := op.order.Fitting(on)
		cause := allocation.NoVictims
		switch {
		case !fits, discount.IsZero() && !op.effective.Packing.Enable:
			// A job that fits without victims has already started.
		case op.lacksPorts(n, t.Name, now, portsGrace):
			cause = allocation.Portless
		case st.graceful.withheld(op, t.PerJob):
			cause = allocation.Withheld
		case st.cluster.crowded(op, t.TaskID, t.PerJob, n):
			cause = allocation.Crowded
		default:
			if by, owed := st.creditor(stage, op, t); owed {
				all = append(all, turn{op, t, by})
			}
			continue
		}
		op.order.Note(cause, allocation.Fact{At: now, Node: n.id})
	}
	st.turns = all
	return all
}

// displace preempts the victims that a job of an operation needs, and makes a claim for the job. It
// reports whether this was possible.
func (st *stages) displace(stage preemption.Stage, n *node, next turn, candidates []*holding, now time.Time, plan *Plan) bool {
	op, task := next.op, next.task
	victims, room, ok := st.victims.choose(stage, n, op, task.PerJob, task.PerJob, next.by, candidates)
	g := op.missing(task.Name)
	switch {
	case !ok:
		return false
	case len(victims) > 0:
		c := st.claims.addClaim(n, op, task.TaskID, task.PerJob, now)
		if g != nil {
			st.gangs.gather(g, c)
		}
		for _, h := range victims {
			reason := st.victims.beyond(h, stage, next)
			st.holdings.preempt(h, now, kinds[stage], c, reason, plan)
			if h.payer != nil {
				h.leaving.paid = h.payer.pay(h.lost, now.Sub(h.Started), st.cluster.total)
			}
			st.victims.took(op, h.operation)
		}
	case !st.moment.settings.Preemption.MinSpare.Fits(room):
		return false
	case g != nil:
		st.gangs.gather(g, st.claims.addClaim(n, op, task.TaskID, task.PerJob, now))
	default:
		// It fits without victims, and has waited long enough for a better node (F.14).
		op.order.Serve(task.PerJob)
		op.order.AddPending(task.TaskID, -1)
		st.holdings.start(n, op, task.TaskID, task.PerJob, plan)
	}
	return true
}

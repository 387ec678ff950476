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

// stageCount is the number of preemptive stages.
const stageCount = preemption.NormalStage + 1

// kinds are what victims of a stage are told.
var kinds = [stageCount]lifecycle.PreemptionKind{
	preemption.AggressiveStage: lifecycle.AggressivePreemption, preemption.NormalStage: lifecycle.Preemption,
}

// starver is the lowest starving element on the way from an operation to the root: the
// operation or a pool.
type starver struct {
	operation *operation
	pool      *pool
}

// hungry finds who may preempt others, by stage, after an update, and whether there are
// limits that are exceeded.
func (e *Engine) hungry() {
	for s := range e.starving {
		clear(e.starving[s])
		e.starving[s] = e.starving[s][:0]
	}
	e.gracefully, e.exceeded = false, false
	e.collect(e.root, [stageCount]starver{})
}

// collect does so below a pool; above are the starving ones above it, by what they may.
func (e *Engine) collect(p *pool, above [stageCount]starver) {
	p.starves(p.hunger.Starvation, starver{pool: p}, &above)
	e.exceeded = e.exceeded || !p.order.Usage().Fits(p.effective.Limits)
	for _, c := range p.pools {
		e.collect(c, above)
	}
	for _, op := range p.operations {
		e.gracefully = e.gracefully || op.effective.Graceful
		e.exceeded = e.exceeded || !op.order.Usage().Fits(op.effective.Limits)
		by := above
		if e.settings.Preemption.PriorityScope == pooltree.OperationOnly {
			by = [stageCount]starver{}
		}
		p.starves(op.hunger.Starvation, starver{operation: op}, &by)
		op.starver = starver{}
		if !op.active() {
			continue
		}
		for s := range by {
			if by[s] != (starver{}) {
				op.starver, op.stage = by[s], preemption.Stage(s)
				e.starving[s] = append(e.starving[s], op)
				break
			}
		}
	}
}

// starves puts an element in the place of those above it in the stages in which it may
// preempt.
func (p *pool) starves(s preemption.Starvation, own starver, by *[stageCount]starver) {
	if s != preemption.NonStarving {
		by[preemption.NormalStage] = own
	}
	if s == preemption.AggressivelyStarving {
		by[preemption.AggressiveStage] = own
	}
}

// below reports whether who starves has less than its fair share, or its min share, still:
// what has been started or claimed since the update counts.
func (s starver) below(total resource.Amounts) bool { return s.belowWith(resource.Amounts{}, total) }

// belowWith reports whether who starves would have less than that with so much more.
func (s starver) belowWith(more, total resource.Amounts) bool {
	if s.pool != nil {
		shares := s.pool.shares(more, total)
		return preemption.BelowMinShare(shares) || preemption.PoolStatus(shares, s.pool.effective.Starvation.Tolerance) == preemption.BelowFairShare
	}
	shares := s.operation.shares(more, total)
	return preemption.BelowMinShare(shares) || preemption.OperationStatus(shares, s.operation.effective.Starvation.Tolerance, true, nil) == preemption.BelowFairShare
}

// element is that of who starves.
func (s starver) element() *allocation.Element {
	if s.pool != nil {
		return s.pool.order
	}
	return s.operation.order
}

// loss is what would be taken from an element for a job, in a trial.
type loss struct {
	trial  uint64
	amount resource.Amounts
}

// losable reports whether, without h and all that was found to be losable before in this
// trial, the operation of h, and each pool above it that is not above who starves too, is
// more satisfied than need.
func (e *Engine) losable(h *holding, by *allocation.Element, need float64) bool {
	op := h.operation
	if !e.spares(op.order, &op.loss, h, need) {
		return false
	}
	p := op.pool
	for ; p != nil && !by.Below(p.order); p = p.parent {
		if !e.spares(p.order, &p.loss, h, need) {
			return false
		}
	}
	above := p
	op.loss.amount = op.loss.amount.Add(h.Resources)
	for p = op.pool; p != above; p = p.parent {
		p.loss.amount = p.loss.amount.Add(h.Resources)
	}
	return true
}

// spares reports whether an element would be clearly more satisfied than need still.
func (e *Engine) spares(of *allocation.Element, l *loss, h *holding, need float64) bool {
	if l.trial != e.trial {
		*l = loss{trial: e.trial}
	}
	return of.SatisfactionWithout(l.amount.Add(h.Resources)) > need+resource.Epsilon
}

func (p *pool) shares(more, total resource.Amounts) preemption.Shares {
	return preemption.Shares{Usage: resource.Share(p.order.Usage().Add(more), total), Fair: p.share.FairShare, Min: p.share.MinShare, Demand: p.share.DemandShare}
}

func (op *operation) shares(more, total resource.Amounts) preemption.Shares {
	return preemption.Shares{Usage: resource.Share(op.order.Usage().Add(more), total), Fair: op.share.FairShare, Min: op.share.MinShare, Demand: op.share.DemandShare}
}

// stages preempts jobs of a node for one that starves: in the aggressive stage, and in
// the normal one unless that has served someone. open nodes may be given jobs. In each
// stage that is looked at those go that are above limits.
func (e *Engine) stages(n *node, now time.Time, open bool, plan *Plan) {
	hungry := open && len(e.starving[preemption.AggressiveStage])+len(e.starving[preemption.NormalStage]) > 0
	if !hungry && !e.exceeded || !n.attempted.IsZero() && now.Sub(n.attempted) < e.settings.Backoff {
		return
	}
	n.attempted = now
	for stage := range stageCount {
		starving := e.starving[stage]
		if len(starving) == 0 && stage != preemption.NormalStage {
			continue
		}
		served := open && len(starving) > 0 && e.serve(stage, n, now, plan)
		if e.exceeded {
			e.enforce(stage, n, now, plan)
		}
		if served {
			return
		}
	}
}

// serve has a job start by preemption: one of the operation of a stage that has the least
// of its fair share and a job that fits the node once victims have gone.
func (e *Engine) serve(stage preemption.Stage, n *node, now time.Time, plan *Plan) bool {
	if len(plan.Starts) >= e.config.MaxStartsPerPlan {
		return false
	}
	e.round++
	candidates, discount := e.candidates(stage, n, now)
	for {
		op, task := e.neediest(stage, n, discount, now)
		if op == nil {
			return false
		}
		if e.displace(stage, n, op, task, candidates, now, plan) {
			return true
		}
		op.tried = e.round
	}
}

// neediest chooses an operation of a stage, and a task of it.
func (e *Engine) neediest(stage preemption.Stage, n *node, discount resource.Amounts, now time.Time) (best *operation, task allocation.Task) {
	on := n.offered(now)
	spare := on.Free
	for _, op := range e.starving[stage] {
		if op.tried == e.round || !op.active() || best != nil && !op.order.Before(best.order) {
			continue
		}
		if discount.IsZero() && !op.effective.Packing.Enable {
			// What fits without victims has started.
			op.order.Note(allocation.NoVictims, allocation.Fact{At: now, Node: n.id})
			continue
		}
		on.Free = spare.Add(discount)
		if op.round == e.round {
			on.Free = on.Free.Sub(op.discount)
		}
		t, fits := op.order.Fitting(on)
		switch {
		case !fits:
			op.order.Note(allocation.NoVictims, allocation.Fact{At: now, Node: n.id})
		case e.withheld(op, t.PerJob):
			op.order.Note(allocation.Withheld, allocation.Fact{At: now, Node: n.id})
		case op.starver.below(e.total):
			best, task = op, t
		}
	}
	return best, task
}

// displace has a job of an operation take the place of the victims that it needs.
func (e *Engine) displace(stage preemption.Stage, n *node, op *operation, task allocation.Task, candidates []*holding, now time.Time, plan *Plan) bool {
	victims, room, ok := e.victims(n, op, task.PerJob, op.starver, candidates)
	g := op.missing(task.Name)
	switch {
	case !ok:
		return false
	case len(victims) > 0:
		c := e.addClaim(n, op, task.TaskID, task.PerJob, now)
		if g != nil {
			e.gather(g, c)
		}
		for _, h := range victims {
			e.preempt(h, now, kinds[stage], c, e.beyond(h, stage, op.starver), plan)
			e.took(op, h.operation)
		}
	case !e.settings.Preemption.MinSpare.Fits(room):
		return false
	case g != nil:
		e.gather(g, e.addClaim(n, op, task.TaskID, task.PerJob, now))
	default:
		// It fits as it is, and has waited for a better node long enough (F.14).
		op.order.AddUsage(task.PerJob)
		op.order.AddPending(task.TaskID, -1)
		e.start(n, op, task.TaskID, task.PerJob, plan)
		plan.Outcome.Starts++
	}
	return true
}

// victims chooses those of the candidates on a node that have to leave for a job of an
// operation, by the starvation of by; room is what is free for it without. Where a pool
// would be above its limits by the job, though within their tolerance, the victims are of
// this pool. None of those who lose is left with less of its fair share than who starves
// has: who takes does not starve those that it takes from, who would take it back.
func (e *Engine) victims(n *node, op *operation, perJob resource.Amounts, by starver, candidates []*holding) (victims []*holding, room resource.Amounts, ok bool) {
	room, limited := op.order.Room(n.spare(), perJob)
	above := by.element()
	need := above.Satisfaction()
	e.trial++
	others := e.others[:0]
	for _, h := range candidates {
		if h.operation != op && (limited == nil || h.operation.order.Below(limited)) &&
			!e.barred(op, h) && e.losable(h, above, need) {
			others = append(others, h)
		}
	}
	e.others = others
	victims, ok = preemption.Victims(perJob, room, others)
	return victims, room, ok
}

// candidates returns the allocations of a node that may be victims in a stage, the one
// that has to go first is first, and what they hold together. The part of each operation in that is its discount.
func (e *Engine) candidates(stage preemption.Stage, n *node, now time.Time) (all []*holding, discount resource.Amounts) {
	all = e.mayLeave(stage, n, now, spare)
	for _, h := range all {
		op := h.operation
		if op.round != e.round {
			op.round, op.discount = e.round, resource.Amounts{}
		}
		op.discount = op.discount.Add(h.Resources)
		discount = discount.Add(h.Resources)
	}
	return all, discount
}

// mayLeave returns the allocations of a node that may be victims in a stage, the one that
// has to go first is first. spared is told of those that could be but for a block.
func (e *Engine) mayLeave(stage preemption.Stage, n *node, at time.Time, spared func(*holding, preemption.Block)) []*holding {
	all := e.scratch[:0]
	for _, h := range n.held {
		if !h.Grouped() || !stage.Takes(h.Level()) {
			continue
		}
		if block := h.operation.owner().Blocks(stage, at, h.Started); block != preemption.NotBlocked {
			spared(h, block)
			continue
		}
		all = append(all, h)
	}
	slices.SortFunc(all, easiestFirst)
	if e.rated {
		all = e.withinRates(all, at, spared)
	}
	e.scratch = all
	return all
}

// spare counts an allocation that is let stay.
func spare(h *holding, block preemption.Block) { h.operation.spared[block]++ }

// owner is what decides whether jobs of the operation may be preempted.
func (op *operation) owner() preemption.Owner {
	return preemption.Owner{
		Graceful: op.effective.Graceful, AllowNormal: op.pool.effective.Preemption.AllowNormal,
		Starvation: op.hunger.Starvation, FromStarving: op.fromStarving, MinRunTime: op.effective.Starvation.MinRunTime,
	}
}

// beyond are the facts about a victim that is beyond the fair share of its operation.
func (e *Engine) beyond(h *holding, stage preemption.Stage, by starver) Reason {
	b := h.operation.groups.Bounds()
	k := resource.Dominant(h.operation.order.Usage(), e.total)
	always, normally := h.operation.groups.Protected()
	r := Reason{Resource: k, Kept: resource.Share(normally, e.total)[k], Usage: resource.Share(h.operation.order.Usage(), e.total)[k], Fair: b.Fair[k], Threshold: b.Threshold}
	if stage == preemption.AggressiveStage {
		r.Threshold, r.Kept = b.AggressiveThreshold, resource.Share(always, e.total)[k]
	}
	switch {
	case by.pool != nil:
		r.Pool, r.Since = by.pool.name, by.pool.hunger.From()
	case by.operation != nil:
		r.Since = by.operation.hunger.From()
	}
	return r
}

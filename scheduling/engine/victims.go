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

// loss is what a selection would take from an element for a job.
type loss struct {
	selection uint64
	amount    resource.Amounts
}

// add counts the amounts in `a` as taken by a selection, in addition to what it has already taken.
func (l *loss) add(selection uint64, a resource.Amounts) {
	amount := l.of(selection)
	*amount = amount.Add(a)
}

// of returns what a selection would take from the element so far.
func (l *loss) of(selection uint64) *resource.Amounts {
	if l.selection != selection {
		*l = loss{selection: selection}
	}
	return &l.amount
}

// selector chooses the jobs that have to leave for jobs of starving elements.
type selector struct {
	*holdings

	// round counts the searches for victims on a node. selections counts the searches for one job.
	// visits counts the traversals of takings.
	round, selections, visits uint64
	// The fields scratch and late are memory that is reused. others are the jobs that may be
	// preempted, as of the last selection.
	scratch, others, late []*holding
}

// choose chooses the candidates on a node that have to leave for a job of an operation, because of
// the starvation of by. The result room is the amount that is free for the job without victims. If
// the job brings a pool above its limits, within their tolerance, all victims are from this pool.
// sel.others then holds the candidates that may be preempted; the search for them stops when the
// amounts in `enough` would be free.
func (sel *selector) choose(stage preemption.Stage, n *node, op *operation, perJob, enough resource.Amounts, by starver, candidates []*holding) (victims []*holding, room resource.Amounts, ok bool) {
	room, limited := op.order.Room(n.spare(), perJob)
	for _, whole := range []bool{false, true} {
		sel.selections++
		t := selection{
			victims: sel, stage: stage, op: op, by: by, needs: perJob, satisfaction: by.satisfaction(perJob), whole: whole,
			all: resource.MaxRatio(perJob, sel.cluster.total),
		}
		t.mark()
		if r := n.reserved.pool; r != nil && t.common(r).served {
			return nil, room, false
		}
		others, free := sel.others[:0], room
		for _, h := range candidates {
			if enough.Fits(free) {
				break
			}
			if h.operation != op && (limited == nil || h.operation.order.Below(limited)) && !sel.barred(op, h) && t.takes(h) {
				others, free = append(others, h), free.Add(h.Resources)
			}
		}
		sel.others = others
		if victims, ok = preemption.Victims(perJob, room, others); ok {
			break
		}
	}
	return victims, room, ok
}

// selection is a search for victims for one job of an operation, because of the starvation of the
// element by.
type selection struct {
	victims      *selector
	stage        preemption.Stage
	op           *operation
	by           starver
	needs        resource.Amounts
	satisfaction float64
	// whole says that smaller jobs are taken even if only the highest of their pools has more than
	// its fair share.
	whole bool
	// all is what the job needs, as a part of the cluster. each is the part of the cluster that a
	// victim with the resources in `like` holds.
	all, each float64
	like      resource.Amounts
	// lost is what preempting the candidate victim would free: the resources of its job, or of its
	// whole gang.
	lost resource.Amounts
	// payer is the debt that is charged for what is lost; nil if none is. rule says why the job may
	// be preempted because of its pools.
	payer *debt
	rule  explain.Rule
}

// mark notes three facts at the pools above the operation: which child leads to it, what the
// siblings on the way would give back for the job, and whether a pool on the way has its fair share
// even after that is given back. The siblings of such a pool owe nothing.
func (t *selection) mark() {
	branch, served, beside := t.op.order, false, resource.Amounts{}
	for p := t.op.pool; p != nil; p = p.parent {
		p.way, p.branch, p.served, p.beside = t.victims.selections, branch, served, beside
		branch, beside = p.order, beside.Add(t.besides(p, branch, beside))
		served = served || p.order.SatisfactionWithout(beside, t.needs) >= 1-resource.Epsilon || !p.order.Due(resource.Amounts{}.Sub(beside), t.needs)
	}
}

// takes reports whether h may be preempted, given all that this selection took before. If so, it
// counts h as lost (F.12.3). h may be preempted because it is beyond the fair share of its
// operation, because its pools are beyond their fair shares, or for a larger job.
func (t *selection) takes(h *holding) bool {
	from, common := h.operation, t.common(h.operation.pool)
	if t.by.pool != nil && common.order.Below(t.by.pool.order) {
		// The victim is in the starving pool itself, which would gain nothing.
		return false
	}
	if common.served {
		return false
	}
	t.payer, t.rule, t.lost = nil, explain.BeyondPools, h.Resources
	g := from.whole(h.task.Name)
	if g != nil {
		// A gang starts over if it loses a job: all of it is lost, but only once.
		if g.lostIn == t.victims.selections {
			h.rule, h.lost, h.payer = g.lostBy, resource.Amounts{}, nil
			return true
		}
		t.lost = t.lost.Times(g.held)
	}
	switch {
	case t.stage.Takes(h.Level()) && t.leavesEnough(h, common):
		h.rule = explain.BeyondOperation
	case t.victims.secured(from, t.lost):
		return false
	case t.beyondPools(h, common):
		h.rule = t.rule
	case t.crowded(h, common):
		h.rule, t.payer = explain.ForLarger, debtOf(common.branch)
	default:
		return false
	}
	for p := from.pool; p != common; p = p.parent {
		if !t.guaranteed(p) {
			return false
		}
	}
	if g != nil {
		g.lostIn, g.lostBy = t.victims.selections, h.rule
	}
	h.lost, h.payer = t.lost, t.payer
	from.loss.add(t.victims.selections, t.lost)
	for p := from.pool; ; p = p.parent {
		p.loss.add(t.victims.selections, t.lost)
		if p == common {
			return true
		}
	}
}

// whole returns the gang of a task if none of its jobs is missing, else nil.
func (op *operation) whole(task scheduling.TaskName) *gang {
	if g := op.gang(task); g != nil && g.missing() == 0 {
		return g
	}
	return nil
}

// common returns the lowest pool that contains both p and the pool of the operation; it may be one
// of these two.
func (t *selection) common(p *pool) *pool {
	for p.way != t.victims.selections {
		p = p.parent
	}
	return p
}

// leavesEnough reports whether every element that loses by the preemption of h keeps more of its
// fair share than the starving one has. Otherwise the loser would starve next, and take the
// resources back.
func (t *selection) leavesEnough(h *holding, common *pool) bool {
	if !t.keepsMore(h.operation.order, &h.operation.loss, t.satisfaction) {
		return false
	}
	for p := h.operation.pool; p != common; p = p.parent {
		need := t.satisfaction
		if p.parent == common {
			need = max(need, common.branch.SatisfactionWithout(resource.Amounts{}, t.needs))
		}
		if !t.keepsMore(p.order, &p.loss, need) {
			return false
		}
	}
	return true
}

// keepsMore reports whether an element that loses the job would still be more satisfied than the
// value `need`.
func (t *selection) keepsMore(of *allocation.Element, l *loss, need float64) bool {
	return of.SatisfactionWithout(l.of(t.victims.selections).Add(t.lost), t.lost) > need+resource.Epsilon
}

// crowded reports whether h may be preempted for a job that is at least twice as large and due.
// This is possible in the aggressive stage, while the siblings in the common pool keep the part of
// the fair share that is never preempted. So there is room for large jobs among many small
// operations (P6). The job is larger than each job that leaves, and brings a branch that already has
// jobs nearer to its fair share, so such exchanges come to an end. The branch that gains is charged
// for the loss.
func (t *selection) crowded(h *holding, common *pool) bool {
	if t.stage != preemption.AggressiveStage || !h.operation.crowds() || !t.smaller(2) || !common.branch.MayCrowd(resource.Amounts{}.Sub(common.beside), t.op.gathered(), t.needs) {
		return false
	}
	total := t.victims.cluster.total
	rest := common.order.Usage().Sub(common.branch.Usage()).Sub(*common.loss.of(t.victims.selections)).Sub(t.lost)
	kept := common.share.FairShare.Scale(common.effective.Starvation.AggressiveThreshold)
	return common.shares(resource.Amounts{}, total).NonBlockedDominates(resource.Share(rest, total), kept)
}

// gathered is what is held for the gangs of an operation that are to start.
func (op *operation) gathered() (sum resource.Amounts) {
	for _, c := range op.claims {
		if op.missing(c.task.Name) != nil {
			sum = sum.Add(c.resources)
		}
	}
	return sum
}

// crowds reports whether jobs of an operation may be preempted for larger ones.
func (op *operation) crowds() bool {
	return op.groups.Bounds().Aggressive && op.order.Satisfaction() > op.effective.Starvation.AggressiveThreshold
}

// yields reports whether all jobs of an operation may be victims in a stage, because of its
// pools or for larger jobs.
func (op *operation) yields(stage preemption.Stage) bool {
	return op.pool.order.Differs() || op.pool.exceeded(resource.Amounts{}, op.order.Usage()) || stage == preemption.AggressiveStage && op.crowds()
}

// secured reports whether an operation keeps the amounts in `more` even if its pools have too much:
// without these amounts it would have less than its settings protect from preemption.
func (sel *selector) secured(from *operation, more resource.Amounts) bool {
	left := from.groups.Usage().Sub(*from.loss.of(sel.selections)).Sub(more)
	return from.groups.Bounds().Protected.StrictlyDominates(left)
}

// candidates returns the allocations of a node that may be victims in a stage, the first to leave
// first, and the sum of what they hold. The part of the sum that one operation holds is stored as
// its discount.
func (sel *selector) candidates(stage preemption.Stage, n *node, now time.Time) (all []*holding, discount resource.Amounts) {
	all = sel.mayLeave(stage, n, now, spare)
	for _, h := range all {
		op := h.operation
		if op.round != sel.round {
			op.round, op.discount = sel.round, resource.Amounts{}
		}
		op.discount = op.discount.Add(h.Resources)
		discount = discount.Add(h.Resources)
	}
	return all, discount
}

// mayLeave returns the allocations of a node that may be victims in a stage, the first to leave
// first. It calls the function spared with each allocation that only a block keeps from being one.
func (sel *selector) mayLeave(stage preemption.Stage, n *node, at time.Time, spared func(*holding, preemption.Block)) []*holding {
	all := sel.scratch[:0]
	count := func(h *holding, block preemption.Block) {
		if stage.Takes(h.Level()) || sel.latest(h) {
			spared(h, block)
		}
	}
	var of *operation
	yields := false
	for _, h := range n.held {
		op := h.operation
		if op != of {
			of, yields = op, op.yields(stage)
		}
		if !h.Grouped() || !yields && !stage.Takes(h.Level()) {
			continue
		}
		if block := op.owner().Blocks(stage, at, h.Started); block != preemption.NotBlocked {
			count(h, block)
			continue
		}
		all = append(all, h)
	}
	slices.SortFunc(all, easiestFirst)
	if sel.tree.rated {
		all = sel.withinRates(all, at, count)
	}
	sel.scratch = all
	return all
}

// spare counts an allocation that a block keeps from being a victim.
func spare(h *holding, block preemption.Block) { h.operation.spared[block]++ }

// owner returns the settings and state that decide whether jobs of the operation may be preempted.
func (op *operation) owner() preemption.Owner {
	return preemption.Owner{
		Graceful: op.effective.Graceful, AllowNormal: op.pool.effective.Preemption.AllowNormal,
		Starvation: op.clock.Starvation, FromStarving: op.fromStarving, MinRunTime: op.effective.Starvation.MinRunTime,
	}
}

// beyond returns the reason for preempting a victim that is beyond the fair share of its operation, or
// of the pool that is a sibling of the beneficiary's branch.
func (sel *selector) beyond(h *holding, stage preemption.Stage, next turn) explain.Reason {
	op := next.op
	b := h.operation.groups.Bounds()
	k := resource.Dominant(h.operation.order.Usage(), sel.cluster.total)
	always, normally := h.operation.groups.Protected()
	r := explain.Reason{Resource: k, Kept: resource.Share(normally, sel.cluster.total)[k], Usage: resource.Share(h.operation.order.Usage(), sel.cluster.total)[k], Fair: b.Fair[k], Threshold: b.Threshold}
	if stage == preemption.AggressiveStage {
		r.Threshold, r.Kept = b.AggressiveThreshold, resource.Share(always, sel.cluster.total)[k]
	}
	r.Rule = h.rule
	if op != nil && h.rule != explain.BeyondOperation {
		sel.poolReason(h, op, &r)
	}
	switch {
	case op == nil:
	case next.by.pool != nil:
		r.Pool, r.Since = next.by.pool.name, next.by.pool.clock.From()
	case next.by.operation != nil:
		r.Since = op.clock.From()
	}
	return r
}

// poolReason sets the reason for preempting a victim because of its pools. It takes the numbers of
// the pool that is a sibling of the beneficiary's branch or, for a larger job, of the pool above
// both.
func (sel *selector) poolReason(h *holding, op *operation, r *explain.Reason) {
	p := h.operation.pool
	larger := h.rule == explain.ForLarger
	for !larger && !op.order.Below(p.parent.order) || larger && !op.order.Below(p.order) {
		p = p.parent
	}
	k := p.order.Decisive(h.Resources)
	r.Of, r.Resource, r.Fair = p.name, k, p.share.FairShare[k]
	r.Usage, r.Threshold = resource.Share(p.order.Usage(), sel.cluster.total)[k], p.kept()
	if larger {
		r.Threshold = p.effective.Starvation.AggressiveThreshold
	}
	r.Kept = r.Fair * r.Threshold
}

package engine

import (
	"math"
	"slices"

	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// firstKeeps is the minimum part of its fair share, give or take half a job, that a pool keeps when
// it loses a larger job so that an element can start its first one.
const firstKeeps = .9

// beyondPools reports whether h may be preempted because of its pools, even if its operation alone
// would protect it. All pools from its own to the one directly below common must have more than
// their fair share, and so must the operation, if only by a part of a job. If the operation is not
// preempted aggressively, a job no smaller than the one that starts must also be one of its pool's
// latest. If h is smaller, so that several such jobs make room, a second pass requires only that
// the highest of the pools has more than its fair share: an operation that loses part of its fair
// share gets it back from its siblings.
//
// Each such exchange brings these pools, taken together, nearer to their fair shares, so the
// exchanges come to an end.
func (t *selection) beyondPools(h *holding, common *pool) bool {
	e, from, smaller := t.victims, h.operation, t.smaller(1)
	whole := t.whole && smaller
	switch {
	case from.pool == common, !smaller && !e.tree.allowsAggressive(from) && !e.latest(h):
		return false
	case !whole && from.order.SatisfactionWithout(*from.loss.of(e.selections), t.lost) <= from.kept()+resource.Epsilon:
		return false
	}
	p := from.pool
	for ; p.parent != common; p = p.parent {
		if !whole && !t.gives(p) {
			return false
		}
	}
	return p.over(*p.loss.of(e.selections), t.lost) && t.owes(p, common, smaller)
}

// gives reports whether a pool below the highest one may lose the job.
func (t *selection) gives(p *pool) bool {
	lost := *p.loss.of(t.victims.selections)
	return p.over(lost, t.lost) && p.order.Surplus(lost, t.lost) > resource.Epsilon &&
		(t.keepsMore(p.order, &p.loss, t.satisfaction) || t.turn(t.op.pool.order, resource.Amounts{}, p))
}

// over reports whether a pool has more than it keeps after the amounts in `lost` are taken away. If
// the part that it keeps is more than its fair share, it must still have that part after the
// amounts in `more` are also taken away.
func (p *pool) over(lost, more resource.Amounts) bool {
	return p.exceeded(lost, more) && (p.kept() <= 1 || p.order.SatisfactionWithout(lost.Add(more), more) >= p.kept()-resource.Epsilon)
}

// owes reports whether p owes the job to the branch of common that starves. There are three cases.
// The job is within what the branch is guaranteed. Or the branch and p together come nearer to
// their fair shares by more than half of the job, and p is then still more satisfied than the
// branch was. Or it is the turn of the branch.
func (t *selection) owes(p, common *pool, smaller bool) bool {
	beside := resource.Amounts{}
	if smaller {
		beside = common.beside
	}
	branch := common.branch
	switch {
	case branch.Promised(t.needs.Sub(beside)):
		t.rule = explain.ForGuarantee
		return true
	case t.keepsMore(p.order, &p.loss, max(t.satisfaction, branch.SatisfactionWithout(beside, t.needs))) &&
		t.gain(branch, beside, p) > t.all/2:
		return true
	}
	return t.turn(branch, beside, p)
}

// gain returns how much nearer to their fair shares two elements come, taken together, as a part of
// the cluster. The first element gets the job, and gives back the amounts in `beside` for it. The
// second one, p, loses what this selection takes.
func (t *selection) gain(of *allocation.Element, beside resource.Amounts, p *pool) float64 {
	each := resource.MaxRatio(t.lost, t.victims.cluster.total)
	return min(of.Lack(beside, t.needs), t.all/2) + min(p.order.Surplus(*p.loss.of(t.victims.selections), t.lost), each/2)
}

// turn reports whether it is an element's turn even if p is left with less of its fair share than
// the element had. There are two cases. In the first, the two come nearer to their fair shares, and
// the element lags behind p by more than debtTurn. In the second, the element has nothing of the
// resource by which the job counts, and lags behind p; and the two gain a quarter of the job, or
// t.first is true. The branch pays for what is lost.
func (t *selection) turn(of *allocation.Element, beside resource.Amounts, p *pool) bool {
	gain, longer := t.gain(of, beside, p), of.Lag()-p.order.Lag()
	turn := gain > resource.Epsilon && longer > debtTurn.Seconds() ||
		longer > 0 && of.SatisfactionWithout(resource.Amounts{}, t.needs) <= 0 && (gain > t.all/4 || t.first(of, p))
	if turn {
		t.payer, t.rule = debtOf(t.common(p).branch), explain.ForTurn
	}
	return turn
}

// first reports whether an element that has nothing has room for the job in its fair share, and p,
// which loses a larger job, keeps nearly all of its own fair share, give or take half of what is
// lost.
func (t *selection) first(of *allocation.Element, p *pool) bool {
	lost := *p.loss.of(t.victims.selections)
	return t.each > t.all+resource.Epsilon && of.Owed(t.needs, 1) && p.order.Surplus(lost, t.lost) >= -(1-firstKeeps)*p.share.FairShare[p.order.Decisive(t.lost)]
}

// besides returns what the siblings of the branch give back once the branch has the job: all that
// each sibling has beyond its fair share, but no less than what p then has beyond its own.
func (t *selection) besides(p *pool, branch *allocation.Element, already resource.Amounts) (beyond resource.Amounts) {
	total := t.victims.cluster.total
	t.victims.findExcesses(p)
	beyond = p.excesses
	if of, ok := branch.Owner().(*pool); ok {
		beyond = beyond.Sub(of.excess)
	}
	if len(p.pools) > 1 {
		more := p.order.Usage().Sub(already).Add(t.needs).Sub(p.share.FairShare.Amounts(total))
		beyond = beyond.Max(more.Min(p.order.Usage().Sub(branch.Usage())))
	}
	return beyond
}

// findExcesses computes what the pools directly below p have beyond their fair shares, once per
// round: nothing changes in a round until victims are found.
func (sel *selector) findExcesses(p *pool) {
	if p.excessIn == sel.round {
		return
	}
	p.excessIn, p.excesses = sel.round, resource.Amounts{}
	for _, c := range p.pools {
		c.excess = c.order.Usage().Sub(c.share.FairShare.Amounts(sel.cluster.total)).Max(resource.Amounts{})
		p.excesses = p.excesses.Add(c.excess)
	}
}

// guaranteed reports whether a pool, without what is lost, still has the share that guarantees give
// it. It compares in the resource that the pool uses most of, rounded down to whole jobs or gangs
// like the lost one.
func (t *selection) guaranteed(p *pool) bool {
	if p.promised.IsZero() {
		return true
	}
	total := t.victims.cluster.total
	k := p.order.Binding(p.order.Usage(), t.lost)
	promised := p.promised[k]
	if job := resource.Share(t.lost, total)[k]; job > 0 {
		promised = job * math.Floor(promised/job+resource.LargeEpsilon)
	}
	left := p.order.Usage().Sub(*p.loss.of(t.victims.selections)).Sub(t.lost)
	return promised <= resource.Share(left, total)[k]+resource.LargeEpsilon
}

// kept returns the part of its fair share that a pool always keeps. An operation keeps the same
// part of its own even if its pool has more than its fair share.
func (p *pool) kept() float64       { return max(p.effective.Starvation.Satisfaction, 1) }
func (op *operation) kept() float64 { return max(op.effective.Starvation.Satisfaction, 1) }

// smaller reports whether the lost job is smaller than the one that starts, and at most 1/times of
// its size.
func (t *selection) smaller(times float64) bool {
	if t.like != t.lost {
		t.like, t.each = t.lost, resource.Share(t.lost, t.victims.cluster.total).MaxComponent()
	}
	return t.each < t.all-resource.Epsilon && times*t.each <= t.all+resource.Epsilon
}

// exceeds reports whether the pool comes nearer to its fair share without h.
func (p *pool) exceeds(h *holding) bool {
	return p.order.Exceeds(p.kept(), resource.Amounts{}, h.Resources)
}

// latest reports whether h is among the latest started jobs that its pool has beyond its fair share,
// as of the last update.
func (sel *selector) latest(h *holding) bool {
	if p := h.operation.pool; p.latest != sel.moment.updates {
		p.latest = sel.moment.updates
		sel.findLatest(p)
	}
	return h.surplus == sel.moment.updates
}

// findLatest marks the jobs for which latest is true. Their operations have more than their own fair
// share.
func (sel *selector) findLatest(p *pool) {
	all, of := sel.late[:0], 0
	for _, op := range p.operations {
		var lost resource.Amounts
		before := len(all)
		for m := op.groups.Last(); m != nil && op.order.SatisfactionWithout(lost, m.Resources) > op.kept()+resource.Epsilon && p.exceeded(lost, m.Resources); m = m.Prev() {
			lost = lost.Add(m.Resources)
			all = append(all, sel.holdings.allocations[m.Job])
		}
		if len(all) > before {
			of++
		}
	}
	sel.late = all
	if of > 1 {
		slices.SortFunc(all, laterFirst)
	}
	var lost resource.Amounts
	for _, h := range all {
		if !p.exceeded(lost, h.Resources) {
			continue
		}
		lost = lost.Add(h.Resources)
		h.surplus = sel.moment.updates
	}
}

// exceeded reports whether a pool, after the amounts in `lost` are taken away, has more than the
// part of its fair share that it keeps, in the resource by which the job counts.
func (p *pool) exceeded(lost, job resource.Amounts) bool {
	return p.order.SatisfactionWithout(lost, job) > p.kept()+resource.Epsilon
}

// taking says that an operation took resources from another one, which takes none of them back in
// the same age (X8). Fair shares depend on usage, so two operations that cannot both have their
// fair shares would otherwise take turns without end.
type taking struct {
	from *operation
	age  uint64
	// usage is the usage of the taker, including what it took. Only what the taker has above this
	// usage may be taken back.
	usage resource.Amounts
}

// took records that op has taken resources from the operation `from`.
func (sel *selector) took(op, from *operation) {
	op.takings = slices.DeleteFunc(op.takings, func(t taking) bool { return t.from == from || t.age != sel.moment.age })
	op.takings = append(op.takings, taking{from: from, age: sel.moment.age, usage: op.order.Usage()})
}

// barred reports whether op must not preempt h, because the operation of h has taken resources from
// op, or from an operation that has taken from op, and so on.
func (sel *selector) barred(op *operation, h *holding) bool {
	from := h.operation
	if len(from.takings) == 0 {
		return false
	}
	left := from.order.Usage().Sub(h.Resources)
	if from.loss.selection == sel.selections {
		left = left.Sub(from.loss.amount)
	}
	sel.visits++
	from.visit = sel.visits
	for _, t := range from.takings {
		if !t.usage.Fits(left) && sel.owes(t, op) {
			return true
		}
	}
	return false
}

// owes reports whether a taking was from op, or from an operation that took from op, and so on.
func (sel *selector) owes(t taking, op *operation) bool {
	from := t.from
	if from.visit == sel.visits || t.age != sel.moment.age {
		return false
	}
	if from == op {
		return true
	}
	from.visit = sel.visits
	return slices.ContainsFunc(from.takings, func(further taking) bool { return sel.owes(further, op) })
}

// grow begins a new age if an operation asks for more or fewer jobs in all than at the last update,
// or if what volumes pay for has changed: shares then change for a reason other than usage.
func (u *update) grow(p *pool) {
	for _, c := range p.pools {
		u.grow(c)
	}
	if i := p.share.IntegralShare; p.share.Pool.Integral.Type != fairshare.NoIntegral && !i.Near(p.paid, resource.LargeEpsilon) {
		p.paid = i
		u.moment.age++
	}
	for _, op := range p.operations {
		wanted := int64(len(op.held))
		for _, t := range op.tasks {
			wanted += t.pending - t.inFlight
		}
		if wanted != op.wanted {
			op.wanted = wanted
			u.moment.age++
		}
	}
}

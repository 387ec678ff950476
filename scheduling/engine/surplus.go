package engine

import (
	"math"
	"slices"

	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// firstKeeps is the part of its fair share that is left to others where it takes more than they
// have too much for somebody's first job, give or take half of a job: what is promised to them.
const firstKeeps = .9

// beyondPools reports whether h may go however its operation is protected by itself: all
// pools up to the one that who starves is in have more than their fair share, and so has
// the operation, if only by a part of a job. Where nothing is preempted aggressively, a job no
// smaller than the one that starts has to be one of its pool's latest, too. Of smaller ones, of
// which several make room, it is enough in the end that the highest of the pools has more: who
// loses what was its own gets it back from those beside it.
//
// All are nearer to their fair shares then, taken together: so this comes to an end.
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

// gives reports whether a pool below the highest may lose it.
func (t *selection) gives(p *pool) bool {
	lost := *p.loss.of(t.victims.selections)
	return p.over(lost, t.lost) && p.order.Surplus(lost, t.lost) > resource.Epsilon &&
		(t.keepsMore(p.order, &p.loss, t.satisfaction) || t.turn(t.op.pool.order, resource.Amounts{}, p))
}

// over reports whether a pool has more than the part of its fair share that it keeps, after
// lost has gone, and keeps it without more where that is more than the fair share.
func (p *pool) over(lost, more resource.Amounts) bool {
	return p.exceeded(lost, more) && (p.kept() <= 1 || p.order.SatisfactionWithout(lost.Add(more), more) >= p.kept()-resource.Epsilon)
}

// owes reports whether the branch of common in which somebody starves gains half of the job
// more than p, another one, loses, of what each has of its fair share, and p has more than
// the branch then; or it is the turn of the branch. What others have beyond their fair share
// gives way to guarantees in any case.
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

// gain is how much nearer to their fair shares the two come, as a part of the cluster: who
// gets the job and gives back so much beside it, and p without what is lost.
func (t *selection) gain(of *allocation.Element, beside resource.Amounts, p *pool) float64 {
	each := resource.MaxRatio(t.lost, t.victims.cluster.total)
	return min(of.Lack(beside, t.needs), t.all/2) + min(p.order.Surplus(*p.loss.of(t.victims.selections), t.lost), each/2)
}

// turn reports whether one that gains takes its turn, though p is left with less of its fair
// share than it had: it has lacked its own for so much longer than p, or it has nothing of
// what the job counts by, has lacked it for longer, and the two gain a quarter of the job, or it is its first one. It pays
// for what is lost.
func (t *selection) turn(of *allocation.Element, beside resource.Amounts, p *pool) bool {
	gain, longer := t.gain(of, beside, p), of.Lag()-p.order.Lag()
	turn := gain > resource.Epsilon && longer > debtTurn.Seconds() ||
		longer > 0 && of.SatisfactionWithout(resource.Amounts{}, t.needs) <= 0 && (gain > t.all/4 || t.first(of, p))
	if turn {
		t.payer, t.rule = debtOf(t.common(p).branch), explain.ForTurn
	}
	return turn
}

// first reports whether one that has nothing has room for the job in its fair share, and p, which
// loses a larger one, keeps nearly all of its own, give or take half of what is lost.
func (t *selection) first(of *allocation.Element, p *pool) bool {
	lost := *p.loss.of(t.victims.selections)
	return t.each > t.all+resource.Epsilon && of.Owed(t.needs, 1) && p.order.Surplus(lost, t.lost) >= -(1-firstKeeps)*p.share.FairShare[p.order.Decisive(t.lost)]
}

// besides is what the others in a pool give back once the branch has a larger job: all that
// each of them has beyond its fair share, and no less than what the pool has beyond its own
// then.
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

// findExcesses finds what the pools right below one have beyond their fair shares, once a
// round: in it nothing changes until somebody has found victims.
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

// guaranteed reports whether a pool without what is lost has what guarantees give it still, of
// what it uses most of and in whole jobs, or gangs, like it.
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

// kept is the part of its fair share that a pool keeps in any case; it is that of an
// operation where its pool has more.
func (p *pool) kept() float64       { return max(p.effective.Starvation.Satisfaction, 1) }
func (op *operation) kept() float64 { return max(op.effective.Starvation.Satisfaction, 1) }

// smaller reports whether so many of what is lost take less than the one that starts, or one of
// several just as much.
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

// latest reports whether h is one of those that started last of what its pool has beyond
// its fair share, as of the last update.
func (sel *selector) latest(h *holding) bool {
	if p := h.operation.pool; p.latest != sel.moment.updates {
		p.latest = sel.moment.updates
		sel.findLatest(p)
	}
	return h.surplus == sel.moment.updates
}

// findLatest marks them, of operations that have more than their fair share.
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

// exceeded reports whether a pool has more than the part of its fair share that it keeps, after
// lost has gone, as far as such a job counts.
func (p *pool) exceeded(lost, job resource.Amounts) bool {
	return p.order.SatisfactionWithout(lost, job) > p.kept()+resource.Epsilon
}

// taking says that an operation took resources from another one, for which that one takes
// none back in the same age (X8). Fair shares depend on what is used, so that two that
// cannot both have theirs would take turns for ever.
type taking struct {
	from *operation
	age  uint64
	// usage is that of the taker, with what it took: what it has above that is not spared.
	usage resource.Amounts
}

// took notes that an operation has taken from another.
func (sel *selector) took(op, from *operation) {
	op.takings = slices.DeleteFunc(op.takings, func(t taking) bool { return t.from == from || t.age != sel.moment.age })
	op.takings = append(op.takings, taking{from: from, age: sel.moment.age, usage: op.order.Usage()})
}

// barred reports whether an operation must not take h: the operation of h has taken from
// it, or from one that has, and so on.
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

// owes reports whether a taking, or one of who lost by it, and so on, was from op.
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

// grow begins an age where an operation asks for more jobs in all, or fewer, than at the
// last update, or what volumes pay for has changed: then shares move for another cause
// than who has what.
func (u *update) grow(p *pool) {
	for _, c := range p.pools {
		u.grow(c)
	}
	if i := p.share.IntegralShare; p.share.Pool.Integral.Type != fairshare.NoIntegral && !i.Near(p.paid, resource.LargeEpsilon) {
		p.paid = i
		u.moment.age++
	}
	for _, op := range p.operations {
		wanted := int64(op.held)
		for _, t := range op.tasks {
			wanted += t.pending - t.inFlight
		}
		if wanted != op.wanted {
			op.wanted = wanted
			u.moment.age++
		}
	}
}

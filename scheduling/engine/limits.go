package engine

import (
	"cmp"
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// repair preempts jobs because limits are exceeded, or because the jobs of a node hold more than it
// has.
type repair struct {
	*holdings

	// exceeded says that limits are exceeded. round is the number of the last choice of jobs that
	// have to leave because of exceeded limits.
	exceeded bool
	round    uint64
	scratch  []*holding
}

// excess collects the operations and pools that use more than they may.
type excess struct {
	moment *moment
	// held returns the resources of an element that are compared with its limits.
	held func(*allocation.Element) resource.Amounts
	// all holds the excesses, each before the excesses of pools above it. operations are the
	// operations that have an excess, or are below a pool that has one. The map named of maps each
	// of these operations to its nearest excess.
	all        []*preemption.Excess
	operations []preemption.ExcessiveOperation
	of         map[*operation]*preemption.Excess
}

// findExcess finds, as of an update, whether limits are exceeded. It ends claims that exceed
// limits, and chooses the jobs on all nodes that have to leave because of limits. A start in flight
// cannot be chosen before it has become a job.
func (re *repair) findExcess(now time.Time) {
	re.round++
	re.chooseHastened(now)
	x := excess{moment: re.moment, held: (*allocation.Element).Usage}
	x.find(re.tree.root, nil, now)
	if re.exceeded = len(x.all) > 0; !re.exceeded {
		return
	}
	for _, h := range re.holdings.inFlight {
		x.of[h.operation].Sub(h.Resources)
	}
	re.giveBack(x.of)
	for _, m := range preemption.Repair(x.all, x.operations) {
		re.holdings.allocations[m.Job].repair = re.round
	}
}

// find collects the excesses at p and below. The parameter above is the excess of the nearest pool
// above that has an excess.
func (x *excess) find(p *pool, above *preemption.Excess, now time.Time) {
	own := x.judge(&p.element, above, now)
	for _, c := range p.pools {
		x.find(c, own, now)
	}
	for _, op := range p.operations {
		nearest := x.judge(&op.element, own, now)
		if nearest == nil {
			continue
		}
		if x.of == nil {
			x.of = map[*operation]*preemption.Excess{}
		}
		x.of[op] = nearest
		x.operations = append(x.operations, preemption.ExcessiveOperation{Groups: &op.groups, Excess: nearest})
		if nearest != own {
			x.all = append(x.all, nearest)
		}
	}
	if own != above {
		x.all = append(x.all, own)
	}
}

// judge returns the excess of an element or, if it has none, the nearest excess above. It notes the
// time since which the element has been beyond its ceiling.
func (x *excess) judge(of *element, above *preemption.Excess, now time.Time) *preemption.Excess {
	switch {
	case of.order.Usage().Fits(of.ceiling):
		of.beyond = time.Time{}
	case of.beyond.IsZero():
		of.beyond = now
	}
	allowed := x.moment.allowed(of, now)
	if held := x.held(of.order); !held.Fits(allowed) {
		return &preemption.Excess{Amounts: held.Sub(allowed), Above: above}
	}
	return above
}

// giveBack ends claims of operations that use more than they may, the latest first.
func (re *repair) giveBack(of map[*operation]*preemption.Excess) {
	var claims []*claim
	for _, c := range re.claims.all {
		if of[c.operation] != nil {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b *claim) int {
		return cmp.Or(b.ordered.Compare(a.ordered), cmp.Compare(b.operation.ID, a.operation.ID), a.task.Compare(b.task), cmp.Compare(b.node.id, a.node.id))
	})
	for _, c := range claims {
		if x := of[c.operation]; x.RelievedBy(c.resources) {
			x.Sub(c.resources)
			re.claims.endClaim(c, ClaimOverLimits)
		}
	}
}

// repair preempts the chosen jobs of a node, while limits are exceeded.
func (re *repair) repair(n *node, now time.Time, plan *Plan) {
	if !re.exceeded {
		return
	}
	all := re.scratch[:0]
	for _, h := range n.held {
		if h.repair == re.round && h.Grouped() {
			all = append(all, h)
		}
	}
	re.scratch = all
	slices.SortFunc(all, easiestFirst)
	for _, h := range all {
		if reason, exceeds := re.exceeds((*allocation.Element).Usage, h, now); exceeds {
			re.holdings.preempt(h, now, lifecycle.ResourceLimitsViolated, nil, reason, plan)
			n.attempted = now
		}
	}
}

// exceeds reports whether the operation of h or a pool above it holds more than it may of a
// resource that h holds. It gives the reason for the nearest such element.
func (re *repair) exceeds(held func(*allocation.Element) resource.Amounts, h *holding, now time.Time) (explain.Reason, bool) {
	for e := &h.operation.element; e != nil; e = e.above {
		if r, exceeds := violation(held(e.order), e.limits, re.moment.allowed(e, now), h.Resources); exceeds {
			r.Pool = e.name
			return r, true
		}
	}
	return explain.Reason{}, false
}

// violation reports the first resource of which more is used than is allowed and of which the job
// holds some. allowed equals limits, or is less than limits where a ceiling applies.
func violation(usage, limits, allowed, holds resource.Amounts) (explain.Reason, bool) {
	if usage.Fits(allowed) {
		return explain.Reason{}, false
	}
	for k := range resource.Kind(resource.Count) {
		if usage.Of(k) > allowed.Of(k) && holds.Of(k) > 0 {
			return explain.Reason{Resource: k, Used: usage.Of(k), Limit: allowed.Of(k), Ceiling: allowed.Of(k) < limits.Of(k)}, true
		}
	}
	return explain.Reason{}, false
}

// countGentle adds n to the number of allocations that leave gracefully, if kind is graceful.
func (hs *holdings) countGentle(kind lifecycle.PreemptionKind, n int) {
	if kind == lifecycle.GracefulPreemption {
		hs.gentle += n
	}
}

// mayHasten reports whether h is leaving gracefully, and has a later deadline than a preemption
// because of limits would set now.
func (h *holding) mayHasten(now time.Time) bool {
	l := h.leaving
	return l != nil && l.committed && l.kind == lifecycle.GracefulPreemption && l.deadline.After(now.Add(h.operation.effective.Starvation.PreemptionTimeout))
}

// withLeaving returns all that an element holds, including leaving allocations.
func withLeaving(of *allocation.Element) resource.Amounts { return of.Usage().Add(of.Leaving()) }

// chooseHastened chooses, among the jobs that are leaving gracefully, the jobs that have to leave
// sooner because their operations, or pools above, hold more than they may in the meantime. The
// latest started jobs are chosen first.
func (re *repair) chooseHastened(now time.Time) {
	if re.holdings.gentle == 0 {
		return
	}
	x := excess{moment: re.moment, held: withLeaving}
	if x.find(re.tree.root, nil, now); len(x.all) == 0 {
		return
	}
	var late []*holding
	for _, h := range re.holdings.allocations {
		switch {
		case h.leaving == nil || x.of[h.operation] == nil:
		case h.mayHasten(now):
			late = append(late, h)
		default:
			x.of[h.operation].Sub(h.Resources)
		}
	}
	slices.SortFunc(late, laterFirst)
	for _, h := range late {
		if of := x.of[h.operation]; of.RelievedBy(h.Resources) {
			h.leaving.hasten = re.round
			of.Sub(h.Resources)
		}
	}
}

// hastenOn chooses jobs that have to leave a node sooner because its allocations hold more than it
// has.
func (re *repair) hastenOn(n *node, now time.Time) {
	held := n.usage
	var late []*holding
	for _, h := range n.held {
		switch {
		case h.mayHasten(now):
			late = append(late, h)
		case h.leaving != nil:
			held = held.Sub(h.Resources)
		}
	}
	slices.SortFunc(late, laterFirst)
	for _, h := range late {
		if !held.Fits(n.limits) {
			h.leaving.hasten = re.round
			held = held.Sub(h.Resources)
		}
	}
}

// hasten plans that the chosen jobs of a node leave sooner, each job once per update.
func (re *repair) hasten(n *node, now time.Time, plan *Plan) {
	if re.holdings.gentle == 0 {
		return
	}
	for _, h := range n.held {
		if h.leaving == nil || h.leaving.hasten != re.round || !h.mayHasten(now) {
			continue
		}
		h.leaving.hasten = 0
		kind, reason := lifecycle.ResourceOvercommit, n.lack()
		if r, exceeds := re.exceeds(withLeaving, h, now); exceeds {
			kind, reason = lifecycle.ResourceLimitsViolated, r
		}
		plan.Preempts = append(plan.Preempts, Preempt{
			Job: h.Job, Node: n.id, Operation: h.operation.ID, Kind: kind, Timeout: h.operation.effective.Starvation.PreemptionTimeout, Reason: reason,
		})
	}
}

// lack returns the reason to preempt on a node whose allocations hold more than it has.
func (n *node) lack() explain.Reason {
	k, _ := n.usage.Lacking(n.limits)
	return explain.Reason{Resource: k, Used: n.usage.Of(k), Limit: n.limits.Of(k)}
}

// relieve preempts jobs of a node that has been overcommitted for too long. Starts in flight are
// not jobs yet: they keep what they hold.
func (re *repair) relieve(n *node, now time.Time, plan *Plan) {
	if !n.overcommitted {
		return
	}
	if n.since.IsZero() {
		n.since = now
	}
	if now.Sub(n.since) < re.moment.config.OvercommitDuration {
		return
	}
	limits := n.limits
	var jobs []*holding
	for _, h := range n.held {
		switch {
		case h.leaving != nil:
		case h.ticket != 0:
			limits = limits.Sub(h.Resources)
		default:
			jobs = append(jobs, h)
		}
	}
	re.hastenOn(n, now)
	reason := n.lack()
	for _, h := range preemption.Overcommit(limits, jobs) {
		re.holdings.preempt(h, now, lifecycle.ResourceOvercommit, nil, reason, plan)
	}
}

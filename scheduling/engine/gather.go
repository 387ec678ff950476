package engine

import (
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// tendGangs ends a gathering that is over or pointless, and lets another gang gather. It reports
// whether a gang has begun to gather.
func (cs *claims) tendGangs(now time.Time) (begun bool) {
	if len(cs.gangs.all) == 0 {
		return false
	}
	cs.watchGang(now)
	for _, g := range cs.gangs.all {
		cs.gangs.openOrClose(g)
	}
	return cs.gangs.chooseGang(now)
}

// watchGang ends a gathering that is over or pointless. Otherwise it ends the gang's claims on nodes
// on which its jobs may not start.
func (cs *claims) watchGang(now time.Time) {
	g := cs.gangs.gathering
	if g == nil {
		return
	}
	if missing := g.missing(); missing == 0 || g.waiting() < missing || !g.operation.active() || cs.cluster.outOfReach(g) {
		cs.endGathering(g, ClaimUnwanted)
		return
	}
	for i := len(g.operation.claims) - 1; i >= 0; i-- {
		c := g.operation.claims[i]
		if c.gang == g && !c.usable() && (!c.restored || c.node.schedulable || cs.moment.connected) {
			cs.endClaim(c, ClaimUnwanted)
		}
	}
	if now.Before(g.end()) || g.ready() {
		return
	}
	cs.endGathering(g, ClaimExpired)
	g.vain, g.vainIn = true, cs.moment.age
	g.again = now.Add(cs.moment.settings.GangTimeout * time.Duration(min(1<<g.misses, maxGangPause)))
	g.misses = min(g.misses+1, maxGangPause)
}

// end returns when the room that is held for a gang is released: when its time is over, or later if
// there is enough once jobs have left for it.
func (g *gang) end() time.Time {
	end := g.until
	if g.claims < g.missing() {
		return end
	}
	for _, c := range g.operation.claims {
		if c.gang == g && c.victims > 0 {
			end = later(end, c.expires)
		}
	}
	return end
}

// endGathering releases the room that is held for a gang.
func (cs *claims) endGathering(g *gang, why ClaimEnd) {
	if cs.gangs.gathering != g {
		return
	}
	cs.gangs.gathering = nil
	for i := len(g.operation.claims) - 1; i >= 0; i-- {
		if c := g.operation.claims[i]; c.gang == g {
			cs.endClaim(c, why)
		}
	}
	cs.gangs.openOrClose(g)
}

// chooseGang picks the gang that begins to gather: the first in the order of scheduling among the
// gangs that may.
func (gs *gangs) chooseGang(now time.Time) bool {
	if gs.gathering != nil {
		return false
	}
	var only *gang
	several := false
	for _, g := range gs.all {
		if gs.mayGather(g, now) {
			several = several || only != nil
			only = g
		}
	}
	if only == nil {
		return false
	}
	if several {
		only = gs.firstGang(now)
	}
	gs.gathering, only.until = only, now.Add(gs.moment.settings.GangTimeout)
	gs.openOrClose(only)
	return true
}

// firstGang returns the first gang in the order of scheduling among the gangs that may gather.
func (gs *gangs) firstGang(now time.Time) (first *gang) {
	may := slices.DeleteFunc(slices.Clone(gs.all), func(g *gang) bool { return !gs.mayGather(g, now) })
	for _, g := range may {
		g.operation.order.SetClosed(g.task, false)
	}
	for waits := range gs.tree.filler.Order(gs.tree.root.order) {
		op := waits.Owner().(*operation)
		for _, g := range may {
			if g.operation == op && (first == nil || g.task < first.task) {
				first = g
			}
		}
		if first != nil {
			break
		}
	}
	for _, g := range may {
		gs.openOrClose(g)
	}
	return first
}

// mayGather reports whether it makes sense to hold room for a gang.
func (gs *gangs) mayGather(g *gang, now time.Time) bool {
	missing := g.missing()
	if missing == 0 || !g.operation.active() || now.Before(g.again) || g.waiting() < missing || !gs.cluster.hopeFor(g).All() {
		return false
	}
	if !allocation.CanOpen(g.operation.order, g.task) {
		// An update decides whether it is too large, or one too many in a FIFO pool.
		return false
	}
	_, limited := g.operation.order.Room(resource.Infinite, g.together())
	return limited == nil
}

// gather adds a claim to the claims of a gang.
func (gs *gangs) gather(g *gang, c *claim) {
	c.gang = g
	g.claims++
	gs.openOrClose(g)
}

// gatherAgain handles claims for jobs that would have started by themselves, but are now missing
// from the gang. If the gang may gather, they become claims of the gang, and the time to gather
// counts from now. Otherwise they end.
func (cs *claims) gatherAgain(g *gang) {
	for i := 0; g.missing() > 0 && i < len(g.operation.claims); {
		switch c := g.operation.claims[i]; {
		case c.task.Name != g.task || c.gang != nil:
			i++
		case cs.gangs.rejoins(g, later(c.ordered, cs.moment.now)):
			cs.gangs.gather(g, c)
			i++
		default:
			cs.endClaim(c, ClaimUnwanted)
		}
	}
}

// startGang starts the gang that gathers, if there is room for all of it.
func (hs *holdings) startGang(plan *Plan) {
	g := hs.gangs.gathering
	if g == nil || !g.ready() {
		return
	}
	if len(plan.Starts) > 0 && int64(len(plan.Starts))+g.claims > int64(hs.moment.config.MaxStartsPerPlan) {
		return
	}
	op := g.operation
	g.started, g.misses, g.vain = hs.gangs.beats, 0, false
	hs.gangs.gathering = nil
	for i := 0; i < len(op.claims); {
		c := op.claims[i]
		if c.gang != g {
			i++
			continue
		}
		hs.claims.dropClaim(c, ClaimStarted)
		op.task(c.task).claimed--
		hs.start(c.node, op, c.task, c.resources, plan).together = true
		s := &plan.Starts[len(plan.Starts)-1]
		s.AllOrNone, s.Claimed = true, c.ordered
		hs.claims.ended.put(c)
	}
}

// usable reports whether the job of a claim may start on its node, once there is room.
func (c *claim) usable() bool {
	return c.node.schedulable && !c.node.overcommitted && c.operation.order.Matches(c.node.takes)
}

// ready reports whether a gang can start now. It does not check the time: the last jobs that leave
// for the gang may do so after the time to gather is over.
func (g *gang) ready() bool { return g.claims > 0 && g.claims >= g.missing() && g.complete() }

// complete reports whether all claims of a gang can be met now.
func (g *gang) complete() bool {
	for _, c := range g.operation.claims {
		if c.gang == g && (!c.usable() || !gathered(c.node.claims, g).Fits(c.node.free())) {
			return false
		}
	}
	return true
}

// gathered returns what the claims of a gang among the given ones hold.
func gathered(claims []*claim, g *gang) (sum resource.Amounts) {
	for _, c := range claims {
		if c.gang == g {
			sum = sum.Add(c.resources)
		}
	}
	return sum
}

package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// task is a gang for those who ask.
func (gs *gangs) task(g *gang) explain.GangTask {
	return explain.GangTask{Task: g.task, Gang: gs.view(g.operation, g.task)}
}

// gangCause is what keeps jobs from starting that have to start together, when each of
// them could be held by some node.
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

// gatheringFact says where room is held for a gang, and how many have to leave for it.
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

// gatheringOf takes note of a gang that gathers, or is to.
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

// turnOf is when a gang may gather at the latest; zero: it does, or does at once.
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

// leaves is when all have gone that leave for a claim.
func (c *claim) leaves() (at time.Time) {
	for _, h := range c.node.held {
		if h.leavesFor(c) {
			at = later(at, h.leaving.deadline)
		}
	}
	return at
}

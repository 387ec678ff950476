package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// gathering is what only the engine knows of when a gang may have room for all its jobs.
type gathering struct {
	// missing jobs have to start together; for held of them there is room. Those that were
	// told to leave for them have gone by leaves; zero: they have.
	missing, held int64
	leaves        time.Time
	// rest is what those need that have no room, each what the largest of them does.
	rest, each resource.Amounts
	// from is when it is its turn to gather, at the latest, zero: it is now; until is when
	// that is over.
	from, until time.Time
	// starves says that others leave for it until all have room, if they do at all; behind,
	// that it has its fair share before: then it is the turn of others that wait.
	starves, behind bool
}

// gatheringOf takes note of a gang that gathers, or is to.
func (iq *inquiries) gatheringOf(g *gang, now time.Time) *gathering {
	a := &gathering{missing: g.missing(), held: g.claims}
	others, one := g.rest()
	a.rest, a.each = others.Add(one), one
	a.from = iq.gangs.turnOf(g, now)
	a.until = later(now, a.from).Add(iq.moment.settings.GangTimeout)
	if iq.gangs.gathering == g {
		a.until = g.end()
		for _, c := range g.operation.claims {
			if c.gang == g && c.victims > 0 {
				a.leaves = later(a.leaves, c.leaves())
			}
		}
	}
	hopes, _ := iq.hopes(g.operation)
	if by := hopes[preemption.NormalStage].by; by != (starver{}) {
		a.starves = by.owed(one, others, iq.cluster.total)
	}
	a.behind = g.operation.order.SatisfactionWithout(resource.Amounts{}.Sub(others), one) >= 1-resource.Epsilon
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

// gatheringOf is that of the gang which a verdict is about; nil: it is about no gang, or
// about one that more keeps from starting than room.
func (a *ask) gatheringOf(v verdict) *gathering {
	if v.near >= 0 {
		return a.tasks[v.near].gathering
	}
	return a.gathering
}

// seeks reports whether victims for a gang are worth a search.
func (a *gathering) seeks() bool { return a != nil && a.starves && a.missing > a.held }

// free is how many of the jobs without room find some: now, or, when it is its turn later,
// in what is held for others until then.
func (q *Inquiry) free(a *ask, g *gathering) (n int64) {
	if g.each.IsZero() {
		return 0
	}
	for i := range q.survey.rows {
		r := &q.survey.rows[i]
		if r.schedulable && failing(a.gates, r.takes) < 0 {
			room := r.spare
			if !g.from.IsZero() {
				room = r.free
			}
			n += allocation.Holds(room, g.each)
		}
	}
	return min(n, g.missing-g.held)
}

// byGathering is when a gang has room for all its jobs, by the soonest of the ways that
// there are; or why nobody can tell.
func (q *Inquiry) byGathering(a *ask, v verdict, g *gathering) (soonest estimate, why string) {
	left := g.missing - g.held
	if left > 0 {
		left -= q.free(a, g)
	}
	if left == 0 {
		return q.inHeldRoom(g), ""
	}
	return q.eitherWay(a, v,
		func(a *ask, v verdict) (estimate, string) { return q.gatheredByEnds(a, v, g, left) },
		func(a *ask, _ verdict) (estimate, string) { return q.gatheredByPreemption(a, g, left) })
}

// inHeldRoom is the estimate of a gang that has, or finds, room for all of its jobs.
func (q *Inquiry) inHeldRoom(g *gathering) estimate {
	if at := later(g.from, g.leaves); at.After(q.now) {
		return estimate{at: at, earliest: at, latest: at.Add(startDelay), by: ByHeldRoom, text: fmt.Sprintf("all %s may start together by %s: there is room for them on nodes, and those have gone by then that were told to leave it", counted(g.missing, "job"), clock(at))}
	}
	return estimate{at: q.now, earliest: q.now, latest: q.now.Add(startDelay), by: ByHeldRoom, text: fmt.Sprintf("all %s may start together with the next heartbeats: there is room for them", counted(g.missing, "job"))}
}

// gatheredByEnds is when jobs that end have made room for those that have none.
func (q *Inquiry) gatheredByEnds(a *ask, v verdict, g *gathering, left int64) (estimate, string) {
	var nodes NodeCounts
	if v.near >= 0 {
		nodes = v.tasks[v.near].Nodes
	}
	e, why := q.foresee(a, nodes, left, g.each)
	if why != "" {
		return estimate{}, why
	}
	if g.behind && slices.ContainsFunc(q.survey.order, func(other *operation) bool { return other != a.op }) {
		return estimate{}, "once it has its fair share it is the turn of others that wait for what jobs give back when they end"
	}
	wait := later(q.now, g.from).Sub(q.now)
	at := later(e.at.Add(wait), g.leaves)
	if at.After(g.until) {
		return estimate{}, fmt.Sprintf("as jobs have ended in the last minutes room for %s comes together by about %s, and what is held until then is given back at %s (gang_timeout)", missingJobs(left, g.missing), clock(at), clock(g.until))
	}
	return estimate{at: at, earliest: later(e.earliest.Add(wait), g.leaves), latest: later(e.latest.Add(wait), g.leaves), by: ByEnds, text: fmt.Sprintf("all %s may start together at about %s, from %s to %s, by jobs that end and make room for %s%s", counted(g.missing, "job"), clock(at), clock(later(e.earliest.Add(wait), g.leaves)), clock(later(e.latest.Add(wait), g.leaves)), missingJobs(left, g.missing), g.turn())}, ""
}

// gatheredByPreemption is when others have left for the last of those that have no room: on
// each node for one in each backoff.
func (q *Inquiry) gatheredByPreemption(a *ask, g *gathering, left int64) (estimate, string) {
	if a.hopes != [stageCount]hope{} && !g.starves {
		return estimate{}, "its fair share is less than all of its jobs need, so nobody has to leave for it"
	}
	first, why := q.likely(a)
	if why != "" {
		return estimate{}, why
	}
	last, enough := q.search.last(q.search.hopes[q.search.stage].rivals + int(left))
	if !enough {
		return estimate{}, "there are not enough jobs on the nodes that could be told to leave for all of its"
	}
	at := later(last.at, g.from)
	if at.After(g.until) {
		return estimate{}, fmt.Sprintf("others are told to leave for the last of its jobs at about %s, and what is held until then is given back at %s (gang_timeout)", clock(at), clock(g.until))
	}
	early := later(at, g.leaves)
	at = later(at.Add(last.timeout), g.leaves)
	return estimate{at: at, earliest: early, latest: at.Add(startDelay), by: ByPreemption, victims: &first, text: fmt.Sprintf("all %s may start together by %s, by preemption: others have to leave for %s, for the last of them node %s%s", counted(g.missing, "job"), clock(at), missingJobs(left, g.missing), last.node, g.turn())}, ""
}

// missingJobs names those jobs of a gang that have no room.
func missingJobs(n, of int64) string {
	if n == of {
		return "all of them"
	}
	return fmt.Sprintf("the %d of them that have none", n)
}

// turn says when it is the gang's turn, at the end of a sentence.
func (a *gathering) turn() string {
	if a.from.IsZero() {
		return ""
	}
	return fmt.Sprintf("; room is held for it from %s on", clock(a.from))
}

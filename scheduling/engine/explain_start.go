package engine

import (
	"fmt"
	"time"

	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// estimate is when a job may start, by which way, and in which words.
type estimate struct {
	at, earliest, latest time.Time
	by, text             string
}

// explainStart estimates when a job starts, by the soonest of the ways that there are, or
// says why nobody can tell.
func (q *Inquiry) explainStart(a *ask, v verdict) {
	soonest, why := q.byHeldRoom(a), ""
	if g := a.gatheringOf(v); g != nil {
		var together estimate
		together, why = q.byGathering(a, v, g)
		soonest = soonest.orSooner(together)
	} else if v.near >= 0 && v.cause.Code != FactStartsSoon {
		if why = unforeseen[v.cause.Code]; why == "" {
			var byEnds, byPreemption estimate
			byEnds, why = q.byEnds(a, v)
			byPreemption, others := q.byPreemption(a, v)
			why += "; " + others
			soonest = soonest.orSooner(byEnds).orSooner(byPreemption)
		}
	}
	x := &q.x
	switch {
	case !soonest.at.IsZero():
		x.Start, x.Earliest, x.Latest, x.StartBy = soonest.at, soonest.earliest, soonest.latest, soonest.by
		x.Facts = append(x.Facts, Fact{Code: FactEstimate, Setting: soonest.by, At: soonest.at, Until: soonest.latest, Text: soonest.text})
	case why != "":
		x.Facts = append(x.Facts, Fact{Code: FactNoEstimate, Setting: v.cause.Code, Text: "when a job starts cannot be told: " + why})
	}
}

// orSooner is the sooner one of two ways, whichever of them it will be.
func (e estimate) orSooner(other estimate) estimate {
	switch {
	case other.at.IsZero():
		return e
	case e.at.IsZero():
		return other
	case other.at.Before(e.at):
		e, other = other, e
	}
	e.earliest, e.latest = sooner(e.earliest, other.earliest), sooner(e.latest, other.latest)
	return e
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// unforeseen are the verdicts after which nobody can tell, and why.
var unforeseen = map[string]string{
	FactNoNodes:        "a node has to come, or to be taken back from a drain",
	FactNoMatch:        "a node with the tags has to come, or the filter to change",
	FactTooSmall:       "a larger node has to come, or the job to need less",
	FactGangTooBig:     "more or larger nodes have to come, or the gang to need less",
	FactLimit:          "jobs that count in the limit have to end, or the limit to be raised",
	FactGangIncomplete: "the jobs of the gang that are left have to end first",
	FactWithheld:       "its fair share has to grow, or its jobs that leave to go",
}

// byHeldRoom is when the first of those have gone that were told to leave for it.
func (q *Inquiry) byHeldRoom(a *ask) (e estimate) {
	for _, f := range append([]Fact{a.state}, a.held...) {
		if f.Code != FactVictims {
			continue
		}
		at, text := f.Until, fmt.Sprintf("a job may start by %s: those that were told to leave node %s have gone by then", clock(f.Until), f.Node)
		if f.Count == 0 {
			at, text = q.now, fmt.Sprintf("a job may start with the next heartbeat of node %s", f.Node)
		}
		e = e.orSooner(estimate{at: at, earliest: q.now, latest: at.Add(startDelay), by: ByHeldRoom, text: text})
	}
	return e
}

// byEnds is when jobs that end have made room for one of the operation's, once it is its
// turn; without an estimate, why there is none.
func (q *Inquiry) byEnds(a *ask, v verdict) (estimate, string) {
	return q.foresee(a, v.tasks[v.near].Nodes, 1, a.tasks[v.near].perJob)
}

// foresee is when jobs that end have made room for so many of the operation's.
func (q *Inquiry) foresee(a *ask, nodes NodeCounts, jobs int64, needs resource.Amounts) (estimate, string) {
	s := q.survey
	seen, why := s.contest.foresee(wish{op: a.op, jobs: jobs, needs: needs, k: s.scarce(nodes, needs), reach: s.reachOf(a.gates), fits: s.holds, now: q.now})
	if why != "" {
		return estimate{}, why
	}
	e := estimate{at: q.now.Add(seen.in), earliest: q.now.Add(seen.earliest), latest: q.now.Add(seen.latest), by: ByEnds}
	e.text = fmt.Sprintf("a job may start at about %s, from %s to %s, by jobs that end: if they run as long as those before, and nothing else changes", clock(e.at), clock(e.earliest), clock(e.latest))
	return e, ""
}

// byPreemption is when others have left that have to once it starves; without an estimate,
// why there is none. It names them in any case.
func (q *Inquiry) byPreemption(a *ask, v verdict) (estimate, string) {
	s := q.search
	switch {
	case s == nil && a.hopes[preemption.NormalStage].at.IsZero():
		return estimate{}, "it does not starve, nor will it, so nobody has to leave for it"
	case s == nil:
		return estimate{}, "nobody has to leave for it"
	}
	f, found := s.likely(a.rivals)
	if !found {
		return estimate{}, "there is no node on which enough jobs could be told to leave for it"
	}
	q.addVictims(a, v, f)
	start := f.at.Add(f.timeout)
	text := fmt.Sprintf("a job may start by %s, by preemption: %s may be told to leave node %s at about %s, and may take up to %v", clock(start), counted(f.all, "job"), f.node, clock(f.at), f.timeout)
	if f.timeout == 0 {
		text = fmt.Sprintf("a job may start at about %s, by preemption: %s on node %s may have to end then, at once", clock(start), counted(f.all, "job"), f.node)
	}
	return estimate{at: start, earliest: f.at, latest: start.Add(startDelay), by: ByPreemption, text: text}, ""
}

// addVictims names those who are likely to have to leave on a node.
func (q *Inquiry) addVictims(a *ask, v verdict, f find) {
	x := &q.x
	x.Victims = f.victims
	first := f.victims[0]
	x.Facts = append(x.Facts, Fact{Code: FactLikelyVictims, Task: a.tasks[v.near].Name, Node: f.node, Job: first.Job, Operation: first.Operation, Count: int64(f.all), At: f.at, Until: f.at.Add(f.timeout),
		Text: fmt.Sprintf("likely to have to leave for it at about %s: %s on node %s, job %s of operation %s first", clock(f.at), counted(f.all, "job"), f.node, first.Job, first.Operation)})
}

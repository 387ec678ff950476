package explain

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
	// victims are those that leave by then; nil: nobody has to.
	victims *Find
}

// explainStart estimates when a job starts, by the soonest of the ways that there are, or
// says why nobody can tell.
func (q *Case) explainStart(a *Asked, v verdict) {
	soonest, why := q.byHeldRoom(a), ""
	if g := a.gatheringOf(v); g != nil {
		var together estimate
		together, why = q.byGathering(a, v, g)
		soonest = soonest.orSooner(together)
	} else if v.near >= 0 && v.cause.Code != FactStartsSoon {
		if why = unforeseen[v.cause.Code]; why == "" {
			var either estimate
			either, why = q.eitherWay(a, v, q.byEnds, q.byPreemption)
			soonest = soonest.orSooner(either)
		}
	}
	x := &q.Answer
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

// eitherWay is the sooner one of jobs that end and of jobs that have to leave; who has to is
// named if it may come to that.
func (q *Case) eitherWay(a *Asked, v verdict, ends, leaves func(*Asked, verdict) (estimate, string)) (estimate, string) {
	byEnds, why := ends(a, v)
	byPreemption, others := leaves(a, v)
	if f := byPreemption.victims; f != nil && (byEnds.at.IsZero() || f.At.Before(byEnds.latest)) {
		q.addVictims(a, v, *f)
	}
	return byEnds.orSooner(byPreemption), why + "; " + others
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
func (q *Case) byHeldRoom(a *Asked) (e estimate) {
	for _, f := range append([]Fact{a.State}, a.Held...) {
		if f.Code != FactVictims {
			continue
		}
		at, text := f.Until, fmt.Sprintf("a job may start by %s: those that were told to leave node %s have gone by then", clock(f.Until), f.Node)
		if f.Count == 0 {
			at, text = q.Now, fmt.Sprintf("a job may start with the next heartbeat of node %s", f.Node)
		}
		e = e.orSooner(estimate{at: at, earliest: q.Now, latest: at.Add(startDelay), by: ByHeldRoom, text: text})
	}
	return e
}

// byEnds is when jobs that end have made room for one of the operation's, once it is its
// turn; without an estimate, why there is none.
func (q *Case) byEnds(a *Asked, v verdict) (estimate, string) {
	return q.foresee(a, v.tasks[v.near].Nodes, 1, a.Tasks[v.near].PerJob)
}

// foresee is when jobs that end have made room for so many of the operation's.
func (q *Case) foresee(a *Asked, nodes NodeCounts, jobs int64, needs resource.Amounts) (estimate, string) {
	s := q.Survey
	seen, why := s.Contest.foresee(wish{op: a.ID, jobs: jobs, needs: needs, k: s.scarce(nodes, needs), reach: s.reachOf(a.Gates), fits: s.holds, now: q.Now})
	if why != "" {
		return estimate{}, why
	}
	e := estimate{at: q.Now.Add(seen.in), earliest: q.Now.Add(seen.earliest), latest: q.Now.Add(seen.latest), by: ByEnds}
	e.text = fmt.Sprintf("a job may start at about %s, from %s to %s, by jobs that end: if they run as long as those before, and nothing else changes", clock(e.at), clock(e.earliest), clock(e.latest))
	return e, ""
}

// likely is the node on which jobs have to leave for the operation; or why none has.
func (q *Case) likely(a *Asked) (f Find, why string) {
	switch {
	case a.Hopes == [preemption.StageCount]Hope{} && a.Outrun != "":
		return f, a.Outrun
	case a.Hopes == [preemption.StageCount]Hope{}:
		return f, "it does not starve, nor will it, so nobody has to leave for it"
	case q.Search == nil:
		return f, "nobody has to leave for it"
	}
	f, found := q.Search.likely()
	if !found {
		return f, "there is no node on which enough jobs could be told to leave for it"
	}
	return f, ""
}

// byPreemption is when others have left that have to once it starves; without an estimate,
// why there is none.
func (q *Case) byPreemption(a *Asked, _ verdict) (estimate, string) {
	f, why := q.likely(a)
	if why != "" {
		return estimate{}, why
	}
	start := f.At.Add(f.Timeout)
	text := fmt.Sprintf("a job may start by %s, by preemption: %s may be told to leave node %s at about %s, and may take up to %v", clock(start), counted(f.All, "job"), f.Node, clock(f.At), f.Timeout)
	if f.Timeout == 0 {
		text = fmt.Sprintf("a job may start at about %s, by preemption: %s on node %s may have to end then, at once", clock(start), counted(f.All, "job"), f.Node)
	}
	return estimate{at: start, earliest: f.At, latest: start.Add(startDelay), by: ByPreemption, text: text, victims: &f}, ""
}

// addVictims names those who are likely to have to leave on a node.
func (q *Case) addVictims(a *Asked, v verdict, f Find) {
	x := &q.Answer
	x.Victims = f.Victims
	first := f.Victims[0]
	x.Facts = append(x.Facts, Fact{Code: FactLikelyVictims, Task: a.Tasks[v.near].Name, Node: f.Node, Job: first.Job, Operation: first.Operation, Count: int64(f.All), At: f.At, Until: f.At.Add(f.Timeout),
		Text: fmt.Sprintf("likely to have to leave for it at about %s: %s on node %s, job %s of operation %s first", clock(f.At), counted(f.All, "job"), f.Node, first.Job, first.Operation)})
}

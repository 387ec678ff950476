package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// estimate says when a job may start and how it gets its room, with the text for it.
type estimate struct {
	at, earliest, latest time.Time
	by, text             string
	// victims are the jobs that have to leave by then. It is nil if no job has to leave.
	victims *Find
}

// explainStart estimates when a job starts, in the way that is soonest. Otherwise it says why that
// cannot be estimated.
func (q *Case) explainStart(a *Asked, v verdict) {
	soonest, why := q.byHeldRoom(a), ""
	if g := a.gatheringOf(v); g != nil {
		var together estimate
		together, why = q.byGathering(a, v, g)
		soonest = soonest.orSooner(together)
	} else if v.near >= 0 && v.cause.Code != FactStartsSoon {
		var either estimate
		if why = unforeseen[v.cause.Code]; why == "" {
			either, why = q.eitherWay(a, v, q.byEnds, q.byPreemption)
		} else if v.cause.Code == FactLimit && a.Tasks[v.near].View.Size == 0 {
			either, why = q.belowLimit(a, v, why)
		}
		soonest = soonest.orSooner(either)
	}
	if soonest.by != ByEnds {
		q.Told = nil
	}
	x := &q.Answer
	switch {
	case !soonest.at.IsZero():
		x.Start, x.Earliest, x.Latest, x.StartBy = soonest.at, soonest.earliest, soonest.latest, soonest.by
		x.Facts = append(x.Facts, Fact{Code: FactEstimate, Setting: soonest.by, At: soonest.at, Until: soonest.latest, Text: soonest.text})
	case why != "":
		x.Facts = append(x.Facts, Fact{Code: FactNoEstimate, Setting: v.cause.Code, Text: "no estimate of when a job starts: " + why})
	}
}

// orSooner returns the sooner of two estimates. Each end of the returned range is the sooner of the
// two ends.
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

// eitherWay returns the sooner of two estimates: that by jobs that end, and that by preemption. It
// names the likely victims if preemption may come first.
func (q *Case) eitherWay(a *Asked, v verdict, ends, leaves func(*Asked, verdict) (estimate, string)) (estimate, string) {
	byEnds, why := ends(a, v)
	byPreemption, others := leaves(a, v)
	if f := byPreemption.victims; f != nil && (byEnds.at.IsZero() || f.At.Before(byEnds.latest)) {
		q.addVictims(a, v, *f)
	}
	return byEnds.orSooner(byPreemption), why + "; " + others
}

// unforeseen are the verdicts for which no start can be estimated, with the reasons.
var unforeseen = map[string]string{
	FactNoNodes:        "a node has to connect, or a drained one to be undrained",
	FactNoMatch:        "a node with matching tags has to connect, or the filter to be changed",
	FactTooSmall:       "a larger node has to connect, or the job has to need less",
	FactGangTooBig:     "more or larger nodes have to connect, or the gang has to need less",
	FactLimit:          "jobs that count against the limit have to end, or the limit has to be raised",
	FactGangIncomplete: "the remaining jobs of the gang have to end first",
	FactWithheld:       "its fair share has to grow, or its leaving jobs have to end",
}

// byHeldRoom estimates when a job starts in the room that is held for the operation.
func (q *Case) byHeldRoom(a *Asked) (e estimate) {
	for _, f := range append([]Fact{a.State}, a.Held...) {
		if f.Code != FactVictims {
			continue
		}
		at, text := f.Until, fmt.Sprintf("a job may start by %s: the jobs that were told to leave node %s will have left by then", clock(f.Until), f.Node)
		switch {
		case f.Count == 0:
			at, text = q.Now, fmt.Sprintf("a job may start at the next heartbeat of node %s", f.Node)
		case at.Before(q.Now):
			at, text = q.Now, fmt.Sprintf("a job may start as soon as the jobs have left that were told to leave node %s by %s", f.Node, clock(f.Until))
		}
		e = e.orSooner(estimate{at: at, earliest: q.Now, latest: at.Add(startDelay), by: ByHeldRoom, text: text})
	}
	return e
}

// byEnds estimates when ending jobs will have made room for a job of the operation and it is its
// turn, or says why that cannot be estimated.
func (q *Case) byEnds(a *Asked, v verdict) (estimate, string) {
	e, why := q.foresee(a, v.tasks[v.near].Nodes, 1, a.Tasks[v.near].PerJob)
	if why != "" {
		return estimate{}, why
	}
	e, told := q.Widths.corrected(e, q.Now, a.Begun)
	q.Told = &told
	e.text = fmt.Sprintf("a job may start at about %s (between %s and %s) as other jobs end, provided that they run as long as earlier ones and nothing else changes", clock(e.at), clock(e.earliest), clock(e.latest))
	return e, ""
}

// belowLimit estimates when ending jobs will have brought usage below a limit, or says why that cannot
// be estimated. Nobody is preempted for it: what others hold does not count against the limit.
func (q *Case) belowLimit(a *Asked, v verdict, limited string) (estimate, string) {
	e, why := q.byEnds(a, v)
	return e, limited + "; " + why
}

// foresee estimates when ending jobs will have made room for this many jobs of the operation, without
// a text, or says why that cannot be estimated.
func (q *Case) foresee(a *Asked, nodes NodeCounts, jobs int64, needs resource.Amounts) (estimate, string) {
	s := q.Survey
	seen, why := s.Contest.foresee(wish{op: a.ID, jobs: jobs, needs: needs, k: s.scarce(nodes, needs), reach: s.reachOf(a.Gates), fits: s.holds, now: q.Now})
	if why != "" {
		return estimate{}, why
	}
	return estimate{at: q.Now.Add(seen.in), earliest: q.Now.Add(seen.earliest), latest: q.Now.Add(seen.latest), by: ByEnds}, ""
}

// likely returns the node on which jobs are likely to be preempted for the operation, or why there
// is none.
func (q *Case) likely(a *Asked) (f Find, why string) {
	switch {
	case a.Hopes == [preemption.StageCount]Hope{} && a.Outrun != "":
		return f, a.Outrun
	case a.Hopes == [preemption.StageCount]Hope{}:
		return f, "it does not starve, and will not, so no job is preempted for it"
	case q.Search == nil:
		return f, "no job is preempted for it"
	}
	f, found := q.Search.likely()
	if !found {
		return f, "there is no node on which enough jobs may be preempted for it"
	}
	return f, ""
}

// byPreemption estimates when the jobs that are preempted once the operation starves will have
// left, or says why no job will be preempted.
func (q *Case) byPreemption(a *Asked, _ verdict) (estimate, string) {
	f, why := q.likely(a)
	if why != "" {
		return estimate{}, why
	}
	start := f.At.Add(f.Timeout)
	text := fmt.Sprintf("a job may start by %s, by preemption: %s may be told to leave node %s at about %s, and may take up to %v to do so", clock(start), counted(f.All, "job"), f.Node, clock(f.At), f.Timeout)
	if f.Timeout == 0 {
		text = fmt.Sprintf("a job may start at about %s, by preemption: %s on node %s may be ended then, without notice", clock(start), counted(f.All, "job"), f.Node)
	}
	return estimate{at: start, earliest: f.At, latest: start.Add(startDelay), by: ByPreemption, text: text, victims: &f}, ""
}

// addVictims names the jobs that are likely to be preempted on a node.
func (q *Case) addVictims(a *Asked, v verdict, f Find) {
	x := &q.Answer
	x.Victims = f.Victims
	first := f.Victims[0]
	x.Facts = append(x.Facts, Fact{Code: FactLikelyVictims, Task: a.Tasks[v.near].Name, Node: f.Node, Job: first.Job, Operation: first.Operation, Count: int64(f.All), At: f.At, Until: f.At.Add(f.Timeout),
		Text: fmt.Sprintf("likely to be preempted for it at about %s: %s on node %s, job %s of operation %s first", clock(f.At), counted(f.All, "job"), f.Node, first.Job, first.Operation)})
}

// Search looks for the jobs that would have to leave for a job of an operation, by the rules
// that choose real victims.
type Search struct {
	Needs resource.Amounts
	Hopes [preemption.StageCount]Hope
	// Thorough searches continue after victims were found, to count the jobs that are spared.
	Thorough bool
	Backoff  time.Duration
	Now      time.Time

	Stage preemption.Stage
	// Nodes are the nodes that could hold the job. Next is the index of the first node that has not
	// been searched.
	Nodes []scheduling.NodeID
	Next  int
	Over  bool
	Found []Find
	// Spared counts the jobs that are spared.
	Spared map[Stay]int64
}

// Find is a node on which preempting Victims makes room.
type Find struct {
	// At is when victims are searched for there at the earliest.
	At      time.Time
	Node    scheduling.NodeID
	Victims []Victim
	// Timeout is how long the victims may stay.
	Timeout time.Duration
	// All is the number of victims. Victims names a few of them.
	All int
	// Places is how many jobs with the same needs fit once all jobs that can be preempted have left
	// the node.
	Places int64
}

// Stay is why jobs of a pool are spared.
type Stay struct {
	Block preemption.Block
	Pool  scheduling.PoolName
}

// worthSearch reports whether others may be preempted for the jobs that a verdict is about.
func (v verdict) worthSearch(a *Asked) bool {
	return a.gatheringOf(v).seeks() || slices.Contains([]string{FactLacking, FactBackoff, FactNoVictims, FactTurn, FactFIFO}, v.cause.Code)
}

// newSearch returns the search for victims for the task that is nearest to a start. It is nil if
// nothing will be preempted for it.
func (q *Case) newSearch(a *Asked, v verdict) *Search {
	t := &a.Tasks[v.near]
	s := &Search{
		Needs: t.PerJob, Hopes: a.Hopes, Backoff: a.Backoff, Now: q.Now, Stage: preemption.NormalStage,
		Thorough: v.cause.Code == FactBackoff || v.cause.Code == FactNoVictims || a.gatheringOf(v) != nil, Spared: map[Stay]int64{},
	}
	if a.Hopes == [preemption.StageCount]Hope{} {
		return nil
	}
	if s.Hopes[s.Stage] == (Hope{}) {
		s.Stage = preemption.AggressiveStage
	}
	q.Survey.reach(a.Gates, t.PerJob, func(r *Row) { s.Nodes = append(s.Nodes, r.Node) })
	return s
}

// Proceed sets how the search continues after some nodes: with more of them or, if the normal stage
// found nothing on any, with the aggressive stage.
func (s *Search) Proceed() {
	switch {
	case s.Next < len(s.Nodes):
		s.Over = len(s.Found) > 0 && !s.Thorough
	case len(s.Found) == 0 && s.Stage == preemption.NormalStage && !s.Hopes[preemption.AggressiveStage].At.IsZero():
		s.Stage, s.Next = preemption.AggressiveStage, 0
		clear(s.Spared)
	default:
		s.Over = true
	}
}

// Due returns the earliest time at which victims are searched for on a node where preemption was
// last tried at the given time.
func (s *Search) Due(attempted time.Time) time.Time {
	at := later(s.Now, s.Hopes[s.Stage].At)
	if !attempted.IsZero() {
		at = later(at, attempted.Add(s.Backoff))
	}
	return at
}

// MaxVictims is the maximum number of victims that a Find names.
const MaxVictims = 10

// likely returns the node on which victims leave for the operation after its rivals have had their
// turn, one rival per node and backoff. Nodes that are searched earlier come first. Among nodes that
// are searched at the same time, the one with the fewest victims comes first.
func (s *Search) likely() (Find, bool) {
	rivals := s.Hopes[s.Stage].Rivals
	if len(s.Found) == 0 {
		return Find{}, false
	}
	slices.SortFunc(s.Found, func(a, b Find) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.All, b.All), cmp.Compare(a.Node, b.Node))
	})
	f := s.Found[rivals%len(s.Found)]
	f.At = f.At.Add(time.Duration(rivals/len(s.Found)) * s.Backoff)
	return f, true
}

// last returns the node on which victims leave for the last of this many jobs of the operation, one
// job per node and backoff. The second result is false if there is no room for so many.
func (s *Search) last(jobs int) (Find, bool) {
	var all []Find
	for _, f := range s.Found {
		for range min(f.Places, int64(jobs)) {
			all = append(all, f)
			f.At = f.At.Add(s.Backoff)
		}
	}
	if len(all) < jobs {
		return Find{}, false
	}
	slices.SortFunc(all, func(a, b Find) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Node, b.Node)) })
	return all[jobs-1], true
}

// sparedFacts counts the jobs that would be preempted for an operation but for a block: one fact for
// each block and pool.
func (s *Search) sparedFacts() (facts []Fact) {
	for c, n := range s.Spared {
		facts = append(facts, Fact{Code: FactSpared, Setting: c.Block.String(), Pool: c.Pool, Count: n,
			Text: fmt.Sprintf("%s in pool %q would be preempted for it, but %s spared: %s", counted(n, "job"), c.Pool, plural(n, "is", "are"), c.Block)})
	}
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Setting, b.Setting))
	})
	return facts
}

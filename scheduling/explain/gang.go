package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// GangTask is the gang of a task, some of whose jobs have to start together. Its methods say what
// keeps these jobs from starting, given that some node could hold each of them.
type GangTask struct {
	Task scheduling.TaskName
	Gang
}

// title names the missing jobs of a gang.
func (g GangTask) title() string {
	return fmt.Sprintf("%s of the gang (task %s)", counted(g.Missing, "job"), g.Task)
}

// Incomplete says that too few of the missing jobs are waiting to start.
func (g GangTask) Incomplete(waiting int64) Fact {
	return Fact{Code: FactGangIncomplete, Count: waiting, Of: g.Missing,
		Text: fmt.Sprintf("%s have to start together, but only %d can: the others have to end first", g.title(), waiting)}
}

// Limited says which limit leaves too little for all missing jobs. It returns nil if none does. The
// result outOfReach says that the limits are too low even if nothing else is used.
func (g GangTask) Limited(limits []Limits, all resource.Amounts, outOfReach bool) *Fact {
	f := limitOf(limits, all)
	if f == nil {
		return nil
	}
	f.Text = fmt.Sprintf("all %s need %s: %s", g.title(), amountsText(all), f.Text)
	if outOfReach {
		f.Text += asksNothing
	}
	return f
}

// Pause says that there was not room for all jobs of the gang in time, and when the gang tries again.
func (g GangTask) Pause(again time.Time) Fact {
	return Fact{Code: FactGangPause, Until: again, Of: g.Missing,
		Text: fmt.Sprintf("there was not enough room for all %s: the room held for them was released, others come first, and the next try is at %s", g.title(), clock(again))}
}

// Turn says that it is the gang's turn to gather room.
func (g GangTask) Turn() Fact {
	return Fact{Code: FactGangTurn, Of: g.Missing, Text: fmt.Sprintf("the scheduler begins to gather room for all %s at the next heartbeat of a node", g.title())}
}

// ComesFirst says that room is held for this gang before others.
func (g GangTask) ComesFirst(of scheduling.OperationID) Fact {
	return Fact{Code: FactGangTurn, Operation: of, Count: g.Gathered, Of: g.Missing, Until: g.Until,
		Text: fmt.Sprintf("room is held for another gang first: task %s of operation %s, %d of %s, until %s", g.Task, of,
			g.Gathered, counted(g.Missing, "job"), clock(g.Until))}
}

// asksNothing ends texts about a gang that is out of reach.
const asksNothing = "; until that changes it does not count as demand: it has no fair share, no room is held for it, and no job is preempted for it"

// TooBig says how many jobs of a gang fit on empty nodes at most, and which resource the nodes
// lack.
func (g GangTask) TooBig(fit allocation.Fit, lack allocation.Lack) Fact {
	k := lack.Resource
	f := Fact{Code: FactGangTooBig, Count: fit.Jobs, Of: fit.Of, Resource: k.String(), Value: inUnits(k, lack.Needs), Bound: inUnits(k, lack.Has)}
	on, they, has := fmt.Sprintf("the %d nodes that take its jobs, even when they are empty", lack.Nodes), "the nodes", "have"
	if lack.Nodes == 1 {
		on, they, has = "the 1 node that takes its jobs, even when it is empty", "the node", "has"
	}
	f.Text = fmt.Sprintf("at most %d of the %s that have to start together fit on %s: together the jobs need %s, but %s %s %s", fit.Jobs, g.title(), on, quantity(k, lack.Needs), they, has, quantity(k, lack.Has))
	if lack.Needs <= lack.Has {
		f.Text = fmt.Sprintf("at most %d of the %s that have to start together fit on %s: the total is enough, but it is fragmented; most nodes run out of %s first, and each job needs %s", fit.Jobs, g.title(), on, k, quantity(k, lack.Each))
	}
	f.Text += asksNothing
	return f
}

// Gathers says on which nodes room is held, for how many jobs of a gang, and how many other jobs
// have to leave for the gang.
func (g GangTask) Gathers(on map[scheduling.NodeID]int, leaving int) Fact {
	var nodes []string
	for node, n := range on {
		nodes = append(nodes, fmt.Sprintf("node %s (%d)", node, n))
	}
	slices.Sort(nodes)
	text := fmt.Sprintf("waits for room for all %s: %d held", g.title(), g.Gathered)
	if len(nodes) > 0 {
		text += ", on " + strings.Join(nodes[:min(len(nodes), maxNamedNodes)], ", ")
	}
	if more := len(nodes) - maxNamedNodes; more > 0 {
		text += fmt.Sprintf(" and %s", counted(more, "other node"))
	}
	if leaving > 0 {
		text += fmt.Sprintf(", where %s %s been told to leave", counted(leaving, "job"), plural(leaving, "has", "have"))
	}
	return Fact{Code: FactGang, Task: g.Task, Count: g.Gathered, Of: g.Missing, Until: g.Until, Text: text + ", until " + clock(g.Until)}
}

// maxNamedNodes is the maximum number of nodes that a text names.
const maxNamedNodes = 5

// Gathering holds what only the scheduler knows about when a gang may have room for all its jobs.
type Gathering struct {
	// Missing is the number of jobs that have to start together. Held is how many of them have
	// room. Leaves is when the last job that was told to leave for them will have left. It is zero if
	// all such jobs have left.
	Missing, Held int64
	Leaves        time.Time
	// Each is what every job without room is assumed to need: as much as the largest of them.
	Each resource.Amounts
	// From is when its turn to gather room begins at the latest. Zero is now. Until is when the turn
	// ends.
	From, Until time.Time
	// Starves says that preemption for the gang, if there is any, continues until all its jobs have
	// room. Behind says that the gang reaches its fair share before all its jobs have room: then it
	// is the turn of other operations.
	Starves, Behind bool
}

// gatheringOf returns the Gathering of the gang that a verdict is about. It returns nil if the verdict
// is not about a gang, or if more than a lack of room keeps the gang from starting.
func (a *Asked) gatheringOf(v verdict) *Gathering {
	if v.near >= 0 {
		return a.Tasks[v.near].Gathering
	}
	return a.Gathering
}

// seeks reports whether a search for victims for a gang is worthwhile.
func (a *Gathering) seeks() bool { return a != nil && a.Starves && a.Missing > a.Held }

// free returns how many of the jobs without room fit into what is free on the nodes now. If the turn
// of the gang comes later, what is held for others until its turn counts as free.
func (q *Case) free(a *Asked, g *Gathering) (n int64) {
	if g.Each.IsZero() {
		return 0
	}
	for i := range q.Survey.Rows {
		r := &q.Survey.Rows[i]
		if r.Schedulable && failing(a.Gates, r.Takes) < 0 {
			room := r.Spare
			if !g.From.IsZero() {
				room = r.Free
			}
			n += allocation.Holds(room, g.Each)
		}
	}
	return min(n, g.Missing-g.Held)
}

// byGathering estimates when a gang has room for all its jobs, in the way that is soonest. Otherwise
// it says why that cannot be estimated.
func (q *Case) byGathering(a *Asked, v verdict, g *Gathering) (soonest estimate, why string) {
	left := g.Missing - g.Held
	if left > 0 {
		left -= q.free(a, g)
	}
	if left == 0 {
		return q.inHeldRoom(g), ""
	}
	return q.eitherWay(a, v,
		func(a *Asked, v verdict) (estimate, string) { return q.gatheredByEnds(a, v, g, left) },
		func(a *Asked, _ verdict) (estimate, string) { return q.gatheredByPreemption(a, g, left) })
}

// inHeldRoom returns the estimate for a gang all of whose jobs have room, held or free.
func (q *Case) inHeldRoom(g *Gathering) estimate {
	if at := later(g.From, g.Leaves); at.After(q.Now) {
		return estimate{at: at, earliest: at, latest: at.Add(startDelay), by: ByHeldRoom, text: fmt.Sprintf("all %s may start together by %s: nodes have room for them, once the jobs that were told to leave have ended", counted(g.Missing, "job"), clock(at))}
	}
	return estimate{at: q.Now, earliest: q.Now, latest: q.Now.Add(startDelay), by: ByHeldRoom, text: fmt.Sprintf("all %s may start together at the next heartbeats: there is room for them", counted(g.Missing, "job"))}
}

// gatheredByEnds estimates when ending jobs will have freed enough room for the gang's jobs that
// have none yet.
func (q *Case) gatheredByEnds(a *Asked, v verdict, g *Gathering, left int64) (estimate, string) {
	var nodes NodeCounts
	if v.near >= 0 {
		nodes = v.tasks[v.near].Nodes
	}
	e, why := q.foresee(a, nodes, left, g.Each)
	if why != "" {
		return estimate{}, why
	}
	if g.Behind && slices.ContainsFunc(q.Survey.Order, func(other scheduling.OperationID) bool { return other != a.ID }) {
		return estimate{}, "once it has its fair share, it is the turn of other operations that wait for ending jobs"
	}
	wait := later(q.Now, g.From).Sub(q.Now)
	at := later(e.at.Add(wait), g.Leaves)
	if at.After(g.Until) {
		return estimate{}, fmt.Sprintf("at the rate at which jobs have ended recently, there would be room for %s by about %s; but the room held for the gang is released before that, at %s (gang_timeout)", missingJobs(left, g.Missing), clock(at), clock(g.Until))
	}
	return estimate{at: at, earliest: later(e.earliest.Add(wait), g.Leaves), latest: later(e.latest.Add(wait), g.Leaves), by: ByEnds, text: fmt.Sprintf("all %s may start together at about %s, between %s and %s, as other jobs end and make room for %s%s", counted(g.Missing, "job"), clock(at), clock(later(e.earliest.Add(wait), g.Leaves)), clock(later(e.latest.Add(wait), g.Leaves)), missingJobs(left, g.Missing), g.turn())}, ""
}

// gatheredByPreemption estimates when other jobs will have left for the last of the gang's jobs
// that have no room. On each node, room is made for one job per backoff.
func (q *Case) gatheredByPreemption(a *Asked, g *Gathering, left int64) (estimate, string) {
	if a.Hopes != [preemption.StageCount]Hope{} && !g.Starves {
		return estimate{}, "its fair share is less than all of its jobs need, so no job is preempted for it"
	}
	first, why := q.likely(a)
	if why != "" {
		return estimate{}, why
	}
	last, enough := q.Search.last(q.Search.Hopes[q.Search.Stage].Rivals + int(left))
	if !enough {
		return estimate{}, "too few jobs may be preempted to make room for all of its jobs"
	}
	at := later(last.At, g.From)
	if at.After(g.Until) {
		return estimate{}, fmt.Sprintf("jobs would be preempted for the last of its jobs only at about %s; but the room held for the gang is released before that, at %s (gang_timeout)", clock(at), clock(g.Until))
	}
	early := later(at, g.Leaves)
	at = later(at.Add(last.Timeout), g.Leaves)
	return estimate{at: at, earliest: early, latest: at.Add(startDelay), by: ByPreemption, victims: &first, text: fmt.Sprintf("all %s may start together by %s, by preemption: other jobs have to leave to make room for %s, for the last one on node %s%s", counted(g.Missing, "job"), clock(at), missingJobs(left, g.Missing), last.Node, g.turn())}, ""
}

// missingJobs names the jobs of a gang that have no room.
func missingJobs(n, of int64) string {
	if n == of {
		return "all of its jobs"
	}
	return fmt.Sprintf("the %d of its jobs that have none yet", n)
}

// turn says when it is the gang's turn, at the end of a sentence.
func (a *Gathering) turn() string {
	if a.From.IsZero() {
		return ""
	}
	return fmt.Sprintf("; room is held for it from %s on", clock(a.From))
}

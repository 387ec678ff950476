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

// GangTask is a gang and its task, of which some jobs have to start together. Its methods say
// what keeps them from it, given that some node could hold each of them.
type GangTask struct {
	Task scheduling.TaskName
	Gang
}

// title names the missing jobs of a gang.
func (g GangTask) title() string {
	return fmt.Sprintf("%s of the gang (task %s)", counted(g.Missing, "job"), g.Task)
}

// Incomplete says that too few of the missing jobs wait.
func (g GangTask) Incomplete(waiting int64) Fact {
	return Fact{Code: FactGangIncomplete, Count: waiting, Of: g.Missing,
		Text: fmt.Sprintf("%s have to start together, and %d can: the others have to end first", g.title(), waiting)}
}

// Limited says which limit leaves too little for all missing jobs; nil: none does. outOfReach
// says that the limits are too low even if nothing else is used.
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

// Pause says that the gang could not gather in time, and when it tries next.
func (g GangTask) Pause(again time.Time) Fact {
	return Fact{Code: FactGangPause, Until: again, Of: g.Missing,
		Text: fmt.Sprintf("room for all %s was not to be had: what was held is given back, others come first, and the next try is at %s", g.title(), clock(again))}
}

// Turn says that room for the missing jobs is looked for.
func (g GangTask) Turn() Fact {
	return Fact{Code: FactGangTurn, Of: g.Missing, Text: fmt.Sprintf("room for all %s is looked for with the next heartbeat of a node", g.title())}
}

// ComesFirst says that room is held for this gang before others.
func (g GangTask) ComesFirst(of scheduling.OperationID) Fact {
	return Fact{Code: FactGangTurn, Operation: of, Count: g.Gathered, Of: g.Missing, Until: g.Until,
		Text: fmt.Sprintf("room is held for another gang first: task %s of operation %s, %d of %s, until %s", g.Task, of,
			g.Gathered, counted(g.Missing, "job"), clock(g.Until))}
}

// asksNothing ends texts about a gang that is out of reach.
const asksNothing = "; until that changes it counts for nothing: it has no fair share, nothing is held for it, and nobody has to leave for it"

// TooBig says how many jobs of a gang empty nodes can hold at most, and which resource they
// lack.
func (g GangTask) TooBig(fit allocation.Fit, lack allocation.Lack) Fact {
	k := lack.Resource
	f := Fact{Code: FactGangTooBig, Count: fit.Jobs, Of: fit.Of, Resource: k.String(), Value: inUnits(k, lack.Needs), Bound: inUnits(k, lack.Has)}
	on, they, has := fmt.Sprintf("the %d nodes that take its jobs, even when they are empty", lack.Nodes), "they", "have"
	if lack.Nodes == 1 {
		on, they, has = "the 1 node that takes its jobs, even when it is empty", "it", "has"
	}
	f.Text = fmt.Sprintf("at most %d of the %s that have to start together fit on %s: together they need %s, and %s %s %s", fit.Jobs, g.title(), on, quantity(k, lack.Needs), they, has, quantity(k, lack.Has))
	if lack.Needs <= lack.Has {
		f.Text = fmt.Sprintf("at most %d of the %s that have to start together fit on %s: in all these have enough, in pieces that are too small; most of them run out of %s first, and each job needs %s", fit.Jobs, g.title(), on, k, quantity(k, lack.Each))
	}
	f.Text += asksNothing
	return f
}

// Gathers says on which nodes room is held for how many jobs of a gang, and how many others
// have to leave for it.
func (g GangTask) Gathers(on map[scheduling.NodeID]int, leaving int) Fact {
	var nodes []string
	for node, n := range on {
		nodes = append(nodes, fmt.Sprintf("node %s (%d)", node, n))
	}
	slices.Sort(nodes)
	text := fmt.Sprintf("waits until room for all %s: %d held", g.title(), g.Gathered)
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

// maxNamedNodes bounds the nodes that a text names.
const maxNamedNodes = 5

// Gathering is what only the scheduler knows of when a gang may have room for all its jobs.
type Gathering struct {
	// Missing jobs have to start together; Held of them have room. The jobs that were told to
	// leave for them have gone by Leaves; zero: they have.
	Missing, Held int64
	Leaves        time.Time
	// Each is what each job without room is taken to need: what the largest one does.
	Each resource.Amounts
	// From is when its turn to gather begins at the latest, zero: now; Until is when the turn
	// ends.
	From, Until time.Time
	// Starves says that others, if they leave for it at all, leave until all its jobs have room.
	// Behind says that it has its fair share before that: then it is the turn of others that
	// wait.
	Starves, Behind bool
}

// gatheringOf is the Gathering of the gang that a verdict is about; nil: it is not about a gang,
// or more than room keeps the gang from starting.
func (a *Asked) gatheringOf(v verdict) *Gathering {
	if v.near >= 0 {
		return a.Tasks[v.near].Gathering
	}
	return a.Gathering
}

// seeks reports whether a search for victims for a gang is worthwhile.
func (a *Gathering) seeks() bool { return a != nil && a.Starves && a.Missing > a.Held }

// free is how many of the jobs without room find some: now, or, if the turn of the gang comes
// later, also in what is held for others until then.
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

// byGathering estimates when a gang has room for all its jobs, by the soonest way, or says why
// that cannot be estimated.
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

// inHeldRoom is the estimate for a gang that has, or finds, room for all of its jobs.
func (q *Case) inHeldRoom(g *Gathering) estimate {
	if at := later(g.From, g.Leaves); at.After(q.Now) {
		return estimate{at: at, earliest: at, latest: at.Add(startDelay), by: ByHeldRoom, text: fmt.Sprintf("all %s may start together by %s: nodes have room for them, and the jobs that were told to leave it will have ended", counted(g.Missing, "job"), clock(at))}
	}
	return estimate{at: q.Now, earliest: q.Now, latest: q.Now.Add(startDelay), by: ByHeldRoom, text: fmt.Sprintf("all %s may start together with the next heartbeats: there is room for them", counted(g.Missing, "job"))}
}

// gatheredByEnds estimates when jobs that end have made room for the jobs that have none.
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
		return estimate{}, "once it has its fair share it is the turn of others that wait for what jobs give back when they end"
	}
	wait := later(q.Now, g.From).Sub(q.Now)
	at := later(e.at.Add(wait), g.Leaves)
	if at.After(g.Until) {
		return estimate{}, fmt.Sprintf("as jobs have ended in the last minutes room for %s comes together by about %s, and what is held until then is given back at %s (gang_timeout)", missingJobs(left, g.Missing), clock(at), clock(g.Until))
	}
	return estimate{at: at, earliest: later(e.earliest.Add(wait), g.Leaves), latest: later(e.latest.Add(wait), g.Leaves), by: ByEnds, text: fmt.Sprintf("all %s may start together at about %s, from %s to %s, by jobs that end and make room for %s%s", counted(g.Missing, "job"), clock(at), clock(later(e.earliest.Add(wait), g.Leaves)), clock(later(e.latest.Add(wait), g.Leaves)), missingJobs(left, g.Missing), g.turn())}, ""
}

// gatheredByPreemption estimates when others have left for the last of the jobs that have no
// room: on each node, for one job per backoff.
func (q *Case) gatheredByPreemption(a *Asked, g *Gathering, left int64) (estimate, string) {
	if a.Hopes != [preemption.StageCount]Hope{} && !g.Starves {
		return estimate{}, "its fair share is less than all of its jobs need, so nobody has to leave for it"
	}
	first, why := q.likely(a)
	if why != "" {
		return estimate{}, why
	}
	last, enough := q.Search.last(q.Search.Hopes[q.Search.Stage].Rivals + int(left))
	if !enough {
		return estimate{}, "there are not enough jobs on the nodes that could be told to leave for all of its"
	}
	at := later(last.At, g.From)
	if at.After(g.Until) {
		return estimate{}, fmt.Sprintf("others are told to leave for the last of its jobs at about %s, and what is held until then is given back at %s (gang_timeout)", clock(at), clock(g.Until))
	}
	early := later(at, g.Leaves)
	at = later(at.Add(last.Timeout), g.Leaves)
	return estimate{at: at, earliest: early, latest: at.Add(startDelay), by: ByPreemption, victims: &first, text: fmt.Sprintf("all %s may start together by %s, by preemption: others have to leave for %s, for the last of them node %s%s", counted(g.Missing, "job"), clock(at), missingJobs(left, g.Missing), last.Node, g.turn())}, ""
}

// missingJobs names the jobs of a gang that have no room.
func missingJobs(n, of int64) string {
	if n == of {
		return "all of them"
	}
	return fmt.Sprintf("the %d of them that have none", n)
}

// turn says when it is the gang's turn, at the end of a sentence.
func (a *Gathering) turn() string {
	if a.From.IsZero() {
		return ""
	}
	return fmt.Sprintf("; room is held for it from %s on", clock(a.From))
}

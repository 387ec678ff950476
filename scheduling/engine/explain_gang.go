package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
)

// title names the missing jobs of a gang.
func (g *gang) title() string {
	return fmt.Sprintf("%s of the gang (task %s)", counted(g.missing(), "job"), g.task)
}

// gangCause is what keeps jobs from starting that have to start together, when each of
// them could be held by some node.
func (iq *inquiries) gangCause(g *gang, now time.Time) Fact {
	missing := g.missing()
	if waiting := g.waiting(); waiting < missing {
		return Fact{Code: FactGangIncomplete, Count: waiting, Of: missing,
			Text: fmt.Sprintf("%s have to start together, and %d can: the others have to end first", g.title(), waiting)}
	}
	if iq.gangs.gathering == g {
		return iq.gatheringFact(g)
	}
	if fit := iq.cluster.hopeFor(g); !fit.All() {
		return g.tooBig(fit, fit.Lacks(iq.cluster.hostsOf(g, !iq.moment.connected)))
	}
	all := g.together()
	if f, limited := limitOf(g.operation, all); limited {
		f.Text = fmt.Sprintf("all %s need %s: %s", g.title(), amountsText(all), f.Text)
		if g.operation.beyondLimits(all) {
			f.Text += asksNothing
		}
		return f
	}
	if now.Before(g.again) {
		return Fact{Code: FactGangPause, Until: g.again, Of: missing,
			Text: fmt.Sprintf("room for all %s was not to be had: what was held is given back, others come first, and the next try is at %s", g.title(), clock(g.again))}
	}
	if other := iq.gangs.gathering; other != nil {
		return Fact{Code: FactGangTurn, Operation: other.operation.ID, Count: other.claims, Of: other.missing(), Until: other.until,
			Text: fmt.Sprintf("room is held for another gang first: task %s of operation %s, %d of %s, until %s", other.task, other.operation.ID,
				other.claims, counted(other.missing(), "job"), clock(other.until))}
	}
	return Fact{Code: FactGangTurn, Of: missing, Text: fmt.Sprintf("room for all %s is looked for with the next heartbeat of a node", g.title())}
}

// asksNothing ends what is said of a gang that is out of reach.
const asksNothing = "; until that changes it counts for nothing: it has no fair share, nothing is held for it, and nobody has to leave for it"

// tooBig says how much of a gang empty nodes hold at most, and of what they have too little.
func (g *gang) tooBig(fit allocation.Fit, lack allocation.Lack) Fact {
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

// gatheringFact says where room is held for a gang, and who has to leave for it.
func (iq *inquiries) gatheringFact(g *gang) Fact {
	on, leaving := map[string]int{}, 0
	for _, c := range g.operation.claims {
		if c.gang == g {
			on[string(c.node.id)]++
			leaving += c.victims
		}
	}
	var nodes []string
	for node, n := range on {
		nodes = append(nodes, fmt.Sprintf("node %s (%d)", node, n))
	}
	slices.Sort(nodes)
	text := fmt.Sprintf("waits until room for all %s: %d held", g.title(), g.claims)
	if len(nodes) > 0 {
		text += ", on " + strings.Join(nodes[:min(len(nodes), maxNamedNodes)], ", ")
	}
	if more := len(nodes) - maxNamedNodes; more > 0 {
		text += fmt.Sprintf(" and %s", counted(more, "other node"))
	}
	if leaving > 0 {
		text += fmt.Sprintf(", where %s been told to leave", have(leaving, "job"))
	}
	return Fact{Code: FactGang, Task: g.task, Count: g.claims, Of: g.missing(), Until: g.until, Text: text + ", until " + clock(g.until)}
}

// maxNamedNodes bounds the nodes that a text names.
const maxNamedNodes = 5

// gangView is that of the gang of a task.
func (gs *gangs) gangView(op *operation, task scheduling.TaskName) GangView {
	g := op.gang(task)
	if g == nil {
		return GangView{}
	}
	v := GangView{Gang: g.Gang, Held: g.held, Missing: g.missing(), Gathered: g.claims}
	if gs.gathering == g {
		v.Until = g.until
	}
	return v
}

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// explainWait says why jobs of an operation do not start: of several tasks, of the one
// that is nearest to it.
func (e *Engine) explainWait(x *Explanation, op *operation, now time.Time) {
	x.Facts = append(x.Facts, claimFacts(op)...)
	pending, flying := int64(0), int64(0)
	for i := range op.tasks {
		pending += op.tasks[i].effective()
		flying += op.tasks[i].inFlight
	}
	switch {
	case op.Suspended:
		x.first(Fact{Code: FactSuspended, Text: "the operation is suspended: its jobs do not start until it is resumed"})
		return
	case !op.active():
		x.first(Fact{Code: FactNotRunning, Text: "the operation may not start jobs in this tree: it does not run here"})
		return
	case pending == 0 && flying > 0:
		x.first(Fact{Code: FactStarting, Count: flying, Text: "being started: " + counted(flying, "job")})
		return
	case pending == 0 && len(op.claims) > 0:
		return
	case pending == 0:
		x.first(Fact{Code: FactNoJobs, Text: "none of its jobs waits: all run or have ended"})
		return
	}
	e.explainPosition(x, op, now)
	at, best := -1, -1
	var facts [][]Fact
	for i := range op.tasks {
		t := &op.tasks[i]
		if t.effective() == 0 {
			continue
		}
		task, why := e.explainTask(op, t, now, x)
		x.Tasks = append(x.Tasks, task)
		facts = append(facts, why)
		if nearness := slices.Index(farToNear, task.Verdict); nearness > best {
			at, best = len(facts)-1, nearness
		}
	}
	x.first(facts[at]...)
	if near := x.Tasks[at]; near.Verdict != FactLimit && near.Nodes.Full+near.Nodes.Held+near.Nodes.Fit > 0 {
		e.explainStart(x, op, near, now)
	}
}

// farToNear are the verdicts about tasks, from those that are farthest from a start.
var farToNear = []string{FactNoNodes, FactNoMatch, FactTooSmall, FactLimit, FactWithheld, FactTurn, FactLacking, FactNoVictims, FactBackoff, FactPacking, FactStartsSoon}

// first puts facts before the others.
func (x *Explanation) first(facts ...Fact) { x.Facts = slices.Concat(facts, x.Facts) }

// claimFacts tell of what is held for jobs of the operation.
func claimFacts(op *operation) (all []Fact) {
	for _, c := range op.claims {
		f := Fact{Code: FactVictims, Task: c.task, Node: c.node.id, Count: int64(c.victims), At: c.ordered, Until: c.expires}
		var who []string
		var deadline time.Time
		for _, h := range c.node.held {
			if h.leaving.claim != c {
				continue
			}
			who = append(who, fmt.Sprintf("job %s of operation %s (%s, until %s)", h.Job, h.operation.ID, h.leaving.kind, clock(h.leaving.deadline)))
			if h.leaving.deadline.After(deadline) {
				deadline = h.leaving.deadline
			}
		}
		slices.Sort(who)
		if !deadline.IsZero() {
			f.Until = deadline
		}
		f.Text = fmt.Sprintf("a job of task %s is to start on node %s, where room is held for it since %s; it waits for %s to leave: %s",
			c.task, c.node.id, clock(c.ordered), counted(c.victims, "job"), strings.Join(who, ", "))
		if c.victims == 0 {
			f.Text = fmt.Sprintf("a job of task %s is to start on node %s at its next heartbeat: those that had to leave have gone", c.task, c.node.id)
		}
		all = append(all, f)
	}
	return all
}

// explainTask says what keeps the jobs of a task from starting, the cause first.
func (e *Engine) explainTask(op *operation, t *task, now time.Time, x *Explanation) (TaskExplanation, []Fact) {
	var could []*node
	nodes := e.survey(op, t.perJob, func(n *node) { could = append(could, n) })
	slices.SortFunc(could, byID)
	out := TaskExplanation{Name: t.name, Pending: t.effective(), PerJob: t.perJob, Nodes: nodes}
	cause := e.cause(op, t, nodes, could, now, x)
	cause.Task = t.name
	out.Verdict = cause.Code
	facts := append([]Fact{cause}, nodeFacts(t, nodes)...)
	switch cause.Code {
	case FactBackoff, FactNoVictims:
		facts = append(facts, e.sparedFacts(op, could, now)...)
		fallthrough
	case FactLacking:
		facts = append(facts, e.likelyVictims(x, op, t, could, now)...)
	}
	return out, facts
}

// cause is the fact that binds.
func (e *Engine) cause(op *operation, t *task, nodes NodeCounts, could []*node, now time.Time, x *Explanation) Fact {
	open := nodes.All - nodes.Closed
	needs := amountsText(t.perJob)
	switch {
	case open == 0:
		return Fact{Code: FactNoNodes, Count: int64(nodes.Closed), Of: int64(nodes.All), Text: fmt.Sprintf("no node of the tree takes jobs: there are %s, %d of them drained or offline", counted(nodes.All, "node"), nodes.Closed)}
	case nodes.Unmatched == open:
		f := nodes.UnmatchedBy[0]
		return Fact{Code: FactNoMatch, Pool: f.Pool, Setting: "scheduling_tag_filter", Count: int64(nodes.Unmatched), Of: int64(open), Text: fmt.Sprintf("no node matches: %s", filtersText(nodes))}
	case len(could) == 0:
		k := most(nodes.SmallBy)
		return Fact{Code: FactTooSmall, Resource: k.String(), Value: inUnits(k, t.perJob.Of(k)), Count: int64(nodes.TooSmall), Of: int64(open),
			Text: fmt.Sprintf("no node is big enough: a job of task %s needs %s, and %s less %s even when empty", t.name, needs, have(nodes.TooSmall, "node"), kindsText(nodes.SmallBy))}
	}
	if f, limited := limitOf(op, t.perJob); limited {
		return f
	}
	switch {
	case e.withheld(op, t.perJob):
		return Fact{Code: FactWithheld, Text: "it has its fair share, and leaves what is beyond it by itself (preemption_mode graceful): no job starts that would have to leave again"}
	case nodes.Fit > 0 && op.effective.Packing.Enable && op.order.Facts()[allocation.Unpacked].Count > 0:
		return Fact{Code: FactPacking, Count: int64(nodes.Fit), Text: fmt.Sprintf("its jobs would fit on %s, and wait for one that they fit better (packing)", counted(nodes.Fit, "node"))}
	case nodes.Fit > 0:
		return Fact{Code: FactStartsSoon, Count: int64(nodes.Fit), Text: fmt.Sprintf("a job fits on %s: it starts when one of them is looked at and it is its turn, the %s of %d", counted(nodes.Fit, "node"), ordinal(x.Position), x.Waiting)}
	case op.starver != starver{}:
		return e.starvingCause(op, could, now)
	case op.hunger.Status == preemption.BelowFairShare:
		k := most(nodes.LackingBy)
		return Fact{Code: FactLacking, Resource: k.String(), Count: int64(nodes.Full + nodes.Held), Of: int64(open),
			Text: fmt.Sprintf("there is too little %s free on %d of %s: a job of task %s needs %s", kindsText(nodes.LackingBy), nodes.Full+nodes.Held, counted(open, "node"), t.name, needs)}
	}
	k := greatest(op.share)
	usage := resource.Share(op.order.Usage(), e.total)[k]
	return Fact{Code: FactTurn, Resource: k.String(), Value: usage, Bound: op.share.FairShare[k], Count: int64(x.Position), Of: int64(x.Waiting),
		Text: fmt.Sprintf("its fair share is used up (it uses %s of all %s, its fair share is %s): it waits for others to end, the %s of %d in the order of scheduling", percent(usage), k, percent(op.share.FairShare[k]), ordinal(x.Position), x.Waiting)}
}

// starvingCause is the cause of one that may preempt others.
func (e *Engine) starvingCause(op *operation, could []*node, now time.Time) Fact {
	who, pool := "it", op.starver.pool
	if pool != nil {
		who = "pool " + quote(pool.name)
	}
	var next time.Time
	waiting := 0
	for _, n := range could {
		again := n.attempted.Add(e.settings.Starvation.Backoff)
		if n.attempted.IsZero() || !again.After(now) {
			continue
		}
		waiting++
		if next.IsZero() || again.Before(next) {
			next = again
		}
	}
	if waiting == len(could) {
		return Fact{Code: FactBackoff, Until: next, Count: int64(waiting), Setting: "preemptive_scheduling_backoff", At: op.hunger.Since,
			Text: fmt.Sprintf("%s starves, and on each of %s others were asked to leave, or looked for in vain, within the last %v: the next look is at %s (preemptive_scheduling_backoff)", who, counted(waiting, "node"), e.settings.Starvation.Backoff, clock(next))}
	}
	none := op.order.Facts()[allocation.NoVictims]
	why, setting := "jobs within the fair share of their operations are let stay", ""
	if spared := e.sparedFacts(op, could, now); len(spared) > 0 {
		setting = spared[0].Setting
		why += fmt.Sprintf(", and so are %s in pool %q (%s)", counted(spared[0].Count, "job"), spared[0].Pool, setting)
	}
	return Fact{Code: FactNoVictims, Count: int64(none.Count), At: none.Last.At, Node: none.Last.Node, Setting: setting,
		Text: fmt.Sprintf("%s starves, and finds not enough that may be preempted for a job (stage %s): %s", who, op.stage, why)}
}

// limitOf finds the nearest limit, upwards, that leaves too little for a job.
func limitOf(op *operation, needs resource.Amounts) (Fact, bool) {
	if k, lacks := needs.Lacking(leftOf(op.order, op.effective.Limits)); lacks {
		return limitFact(k, op.order, op.effective.Limits, ""), true
	}
	for p := op.pool; p != nil; p = p.parent {
		if k, lacks := needs.Lacking(leftOf(p.order, p.effective.Limits)); lacks {
			return limitFact(k, p.order, p.effective.Limits, p.name), true
		}
	}
	return Fact{}, false
}

// leftOf is what limits leave for more jobs.
func leftOf(of *allocation.Element, limits resource.Amounts) resource.Amounts {
	if limits == resource.Infinite {
		return limits
	}
	return limits.Sub(of.Usage()).Sub(of.Leaving())
}

// reached finds a resource of which nothing is left.
func reached(of *allocation.Element, limits resource.Amounts) (resource.Kind, bool) {
	for i := range resource.Count {
		k := resource.Kind(i)
		if limits.Of(k) < resource.Infinite.Of(k) && leftOf(of, limits).Of(k) <= 0 {
			return k, true
		}
	}
	return 0, false
}

func limitFact(k resource.Kind, of *allocation.Element, limits resource.Amounts, pool scheduling.PoolName) Fact {
	used := of.Usage().Add(of.Leaving()).Of(k)
	who := "the operation's"
	if pool != "" {
		who = fmt.Sprintf("pool %q's", pool)
	}
	return Fact{Code: FactLimit, Pool: pool, Resource: k.String(), Setting: "resource_limits", Value: inUnits(k, used), Bound: inUnits(k, limits.Of(k)),
		Text: fmt.Sprintf("%s resource_limits are reached: it uses %s of at most %s", who, quantity(k, used), quantity(k, limits.Of(k)))}
}

// nodeFacts say what the nodes are to a job, all in one and each filter and resource.
func nodeFacts(t *task, c NodeCounts) []Fact {
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{
		{c.Fit, "%d fit"}, {c.Full, "%d with too little free"}, {c.Held, "%d held for others"}, {c.TooSmall, "%d too small"}, {c.Unmatched, "%d not matching"}, {c.Closed, "%d drained or offline"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf(part.text, part.n))
		}
	}
	facts := []Fact{{Code: FactNodes, Task: t.name, Count: int64(c.Fit), Of: int64(c.All),
		Text: fmt.Sprintf("%s for a job of task %s, which needs %s: %s", counted(c.All, "node"), t.name, amountsText(t.perJob), strings.Join(parts, ", "))}}
	for _, u := range c.UnmatchedBy {
		facts = append(facts, Fact{Code: FactNodes, Task: t.name, Pool: u.Pool, Setting: "scheduling_tag_filter", Count: int64(u.Nodes), Of: int64(c.All),
			Text: fmt.Sprintf("the filter %q of %s leaves out %s", u.Filter, ownerText(u.Pool), counted(u.Nodes, "node"))})
	}
	for i := range resource.Count {
		k := resource.Kind(i)
		if n := c.LackingBy[k]; n > 0 {
			facts = append(facts, Fact{Code: FactNodes, Task: t.name, Resource: k.String(), Value: inUnits(k, t.perJob.Of(k)), Count: int64(n), Of: int64(c.All),
				Text: fmt.Sprintf("%s less than %s free", have(n, "node"), quantity(k, t.perJob.Of(k)))})
		}
		if n := c.SmallBy[k]; n > 0 {
			facts = append(facts, Fact{Code: FactNodes, Task: t.name, Resource: k.String(), Setting: "limits", Value: inUnits(k, t.perJob.Of(k)), Count: int64(n), Of: int64(c.All),
				Text: fmt.Sprintf("%s less than %s in all", have(n, "node"), quantity(k, t.perJob.Of(k)))})
		}
	}
	return facts
}

func ownerText(pool scheduling.PoolName) string {
	if pool == "" {
		return "the operation"
	}
	return "pool " + quote(pool)
}

func filtersText(c NodeCounts) string {
	var parts []string
	for _, u := range c.UnmatchedBy {
		parts = append(parts, fmt.Sprintf("the filter %q of %s leaves out %s", u.Filter, ownerText(u.Pool), counted(u.Nodes, "node")))
	}
	return strings.Join(parts, ", ")
}

// most is the resource that most nodes have too little of.
func most(by [resource.Count]int) resource.Kind {
	best := 0
	for i := range by {
		if by[i] > by[best] {
			best = i
		}
	}
	return resource.Kind(best)
}

// kindsText lists the resources of which there is too little somewhere, the scarcest
// first.
func kindsText(by [resource.Count]int) string {
	var kinds []resource.Kind
	for i := range by {
		if by[i] > 0 {
			kinds = append(kinds, resource.Kind(i))
		}
	}
	slices.SortStableFunc(kinds, func(a, b resource.Kind) int { return cmp.Compare(by[b], by[a]) })
	var names []string
	for _, k := range kinds {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

func amountsText(a resource.Amounts) string {
	var parts []string
	for i := range resource.Count {
		if k := resource.Kind(i); a.Of(k) > 0 {
			parts = append(parts, quantity(k, a.Of(k)))
		}
	}
	return strings.Join(parts, ", ")
}

func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// verdict is what the jobs of an operation wait for. If it has several tasks, it is what the task
// that is nearest to a start waits for.
type verdict struct {
	// cause is what keeps the jobs from starting. near is the index of the task that the verdict is
	// about. It is -1 if no task has jobs to start.
	cause Fact
	near  int
	tasks []TaskExplanation
	// held says that room is held for some of its jobs. Those start before the jobs that the field
	// cause is about.
	held bool
}

// answer returns the fact that states the verdict.
func (v verdict) answer(a *Asked) Fact {
	if v.held {
		return a.Held[0]
	}
	return v.cause
}

// judge finds what an operation waits for.
func (q *Case) judge(a *Asked) verdict {
	if a.State.Code != "" {
		return verdict{cause: a.State, near: -1}
	}
	v, best := verdict{near: -1}, -1
	for i := range a.Tasks {
		t := &a.Tasks[i]
		nodes := q.Survey.count(a.Gates, t.PerJob)
		cause := q.cause(a, t, nodes)
		cause.Task = t.Name
		v.tasks = append(v.tasks, TaskExplanation{
			Name: t.Name, Group: t.Group, Verdict: cause.Code, Pending: t.Pending, PerJob: t.PerJob, Nodes: nodes, Gang: t.View,
		})
		if nearness := slices.Index(farToNear, cause.Code); nearness > best {
			v.cause, v.near, best = cause, i, nearness
		}
	}
	v.held = v.cause.Code == FactBackoff && len(a.Held) > 0
	return v
}

// explainOperation adds all facts, the most important first: what the operation waits for, when a
// job starts, how near it is to starving, how the nodes suit it, and its share.
func (q *Case) explainOperation(a *Asked, v verdict) {
	x := &q.Answer
	x.Tasks = v.tasks
	x.Facts = []Fact{v.cause}
	var spared []Fact
	if q.Search != nil && (v.cause.Code == FactBackoff || v.cause.Code == FactNoVictims) {
		spared = q.Search.sparedFacts()
		if len(q.Search.Found) == 0 {
			x.Facts[0] = a.noVictims()
			x.Facts[0].Task = v.cause.Task
		}
		if len(spared) > 0 && x.Facts[0].Code == FactNoVictims {
			x.Facts[0].letStay(spared[0])
		}
	}
	held := a.Held
	if v.held {
		x.Facts, held = slices.Insert(x.Facts, 0, v.answer(a)), held[1:]
	}
	x.Facts = append(x.Facts, held...)
	q.explainStart(a, v)
	x.Facts = append(x.Facts, spared...)
	if v.near >= 0 {
		for _, f := range q.Fares {
			if f.Code != FactHasFair || v.cause.Code == FactTurn || v.cause.Code == FactLacking {
				x.Facts = append(x.Facts, f)
			}
		}
		q.explainPosition(a, v)
		x.Facts = append(x.Facts, nodeFacts(&a.Tasks[v.near], v.tasks[v.near].Nodes)...)
	}
	for _, f := range q.Tail {
		if !v.says(f) {
			x.Facts = append(x.Facts, f)
		}
	}
	x.Verdict = x.Facts[0].Code
}

// says reports whether the verdict, or the facts about nodes, already say the same as f.
func (v verdict) says(f Fact) bool {
	if f.Code == FactRefused && f.Setting == allocation.NoVictims.String() {
		return v.cause.Code == FactBackoff || v.cause.Code == FactNoVictims || v.cause.Code == FactFIFO
	}
	return f.Code == FactRefused && f.Setting == allocation.Lacking.String() && v.near >= 0 || f.Code == FactBoundFIFO && v.cause.Code == FactFIFO && f.Operation != ""
}

// explainPosition adds the place of the operation in the order of scheduling.
func (q *Case) explainPosition(a *Asked, v verdict) {
	x := &q.Answer
	x.Position = q.Survey.position(a.ID)
	x.Waiting = q.Survey.Waiting
	f := Fact{Code: FactPosition, Count: int64(x.Position), Of: int64(x.Waiting), At: q.Now}
	switch {
	case unforeseen[v.cause.Code] != "" || slices.Contains([]string{FactFIFO, FactNoShare, FactTurn, FactStartsSoon}, v.cause.Code):
		// The verdict already says the position, or the position does not matter.
		return
	case x.Position == 1 && x.Waiting == 1:
		f.Text = "no other operation has jobs to start"
	case x.Position == 1:
		f.Text = fmt.Sprintf("of %s with jobs to start it is the next in the order of scheduling", counted(x.Waiting, "operation"))
	case x.Position > 0:
		f.Text = fmt.Sprintf("of %s with jobs to start it is the %s in the order of scheduling", counted(x.Waiting, "operation"), ordinal(x.Position))
	case x.Waiting > MaxPlaces:
		f.Text = fmt.Sprintf("%d or more of the %s that have jobs to start come before it in the order of scheduling", MaxPlaces, counted(x.Waiting, "operation"))
	default:
		// A gang has no position before its turn.
		return
	}
	x.Facts = append(x.Facts, f)
}

// farToNear are the verdicts about tasks, the farthest from a start first.
var farToNear = []string{FactNoNodes, FactNoMatch, FactTooSmall, FactGangTooBig, FactLimit, FactGangIncomplete, FactWithheld, FactNoShare, FactFIFO, FactOwn, FactTurn, FactLacking, FactNoVictims, FactBackoff, FactGangPause, FactGangTurn, FactGang, FactPacking, FactStartsSoon}

// Claim is room held on a node for a job of a task, from Ordered until Expires.
type Claim struct {
	Task    allocation.TaskID
	Node    scheduling.NodeID
	Ordered time.Time
	Expires time.Time
	// Victims is how many jobs the claim waits for. They are in Leaving.
	Victims int
	Leaving []Job
}

// Fact returns the claim as a fact.
func (c Claim) Fact() Fact {
	f := Fact{Code: FactVictims, Task: c.Task.Name, Node: c.Node, Count: int64(c.Victims), At: c.Ordered, Until: c.Expires}
	var who []string
	var deadline time.Time
	for _, j := range c.Leaving {
		who = append(who, fmt.Sprintf("job %s of operation %s (%s, until %s)", j.Job, j.Operation, j.Kind, clock(j.Deadline)))
		deadline = later(deadline, j.Deadline)
	}
	slices.Sort(who)
	if !deadline.IsZero() {
		f.Until = deadline
	}
	f.Text = fmt.Sprintf("a job of %s is to start on node %s, where room has been held for it since %s; it waits for %s to leave: %s",
		titleOf(c.Task), c.Node, clock(c.Ordered), counted(c.Victims, "job"), strings.Join(who, ", "))
	if c.Victims == 0 {
		f.Text = fmt.Sprintf("a job of %s will start on node %s at its next heartbeat: the jobs preempted for it have ended", titleOf(c.Task), c.Node)
	}
	return f
}

// cause returns the fact that keeps the jobs of a task from starting.
func (q *Case) cause(a *Asked, t *Task, nodes NodeCounts) Fact {
	open := nodes.All - nodes.Closed
	switch {
	case t.Awaits:
		return Fact{Code: FactNoNodes, Count: int64(nodes.Closed), Of: int64(nodes.All), Text: "no node that could hold a job takes jobs yet: the leader is new, and these nodes are expected to reconnect"}
	case nodes.All == 0:
		return Fact{Code: FactNoNodes, Text: "the tree has no nodes: no registered node matches its nodes_filter"}
	case open == 0:
		return Fact{Code: FactNoNodes, Count: int64(nodes.Closed), Of: int64(nodes.All), Text: fmt.Sprintf("no node in the tree accepts jobs (%s, %d drained or offline)", counted(nodes.All, "node"), nodes.Closed)}
	case nodes.Unmatched == open:
		f := nodes.UnmatchedBy[0]
		return Fact{Code: FactNoMatch, Pool: f.Pool, Setting: "scheduling_tag_filter", Count: int64(nodes.Unmatched), Of: int64(open), Text: fmt.Sprintf("no node matches: %s%s", filtersText(nodes), noDemand)}
	case nodes.Full+nodes.Held+nodes.Fit == 0:
		return tooSmall(t, nodes)
	case t.Gang != nil:
		return *t.Gang
	case t.Limit != nil:
		return *t.Limit
	case t.Withheld:
		return Fact{Code: FactWithheld, Text: "it has its fair share; with preemption_mode graceful anything above that is preempted, so a job started now would be preempted again"}
	case nodes.Fit > 0 && a.Unpacked:
		return Fact{Code: FactPacking, Count: int64(nodes.Fit), Text: fmt.Sprintf("its jobs would fit on %s, but wait for one that they fit better (packing)", counted(nodes.Fit, "node"))}
	case nodes.Fit > 0:
		return Fact{Code: FactStartsSoon, Count: int64(nodes.Fit), Text: fmt.Sprintf("a job fits on %s: it starts at a heartbeat of one of them, when it is the operation's turn%s", counted(nodes.Fit, "node"), q.turnText(a))}
	case a.Behind != nil:
		return *a.Behind
	case a.Starves != "":
		return q.starvingCause(a, t, nodes)
	case a.Below:
		return tooLittle(t, nodes)
	}
	if a.Packed {
		return Fact{Code: FactOwn, Resource: a.Resource.String(), Value: a.Usage, Bound: a.Share, Count: int64(nodes.Full + nodes.Held), Of: int64(open),
			Text: fmt.Sprintf("as many of its jobs are running as fit on the nodes (it uses %s of all %s): it waits for its own jobs to end", percent(a.Usage), a.Resource)}
	}
	at := q.Survey.position(a.ID)
	return Fact{Code: FactTurn, Resource: a.Resource.String(), Value: a.Usage, Bound: a.Share, Count: int64(at), Of: int64(q.Survey.Waiting),
		Text: fmt.Sprintf("its fair share is used up (it uses %s of all %s, its fair share is %s): it waits for jobs to end%s", percent(a.Usage), a.Resource, percent(a.Share), q.turnText(a))}
}

// tooSmall says that no node could hold a job of a task even if it were empty, and how much the
// largest node has of the resource of which all have too little.
func tooSmall(t *Task, nodes NodeCounts) Fact {
	k, best := most(nodes.SmallBy), "none has all of that at once"
	f := Fact{Code: FactTooSmall, Resource: k.String(), Value: inUnits(k, t.PerJob.Of(k)), Count: int64(nodes.TooSmall), Of: int64(nodes.All - nodes.Closed)}
	if nodes.SmallBy[k] == nodes.TooSmall {
		largest := slices.MaxFunc(nodes.small, func(a, b *class) int { return cmp.Compare(a.Limits.Of(k), b.Limits.Of(k)) })
		f.Node, f.Bound = largest.Node, inUnits(k, largest.Limits.Of(k))
		best = fmt.Sprintf("the largest, %s, has %s", largest.Node, quantity(k, largest.Limits.Of(k)))
	}
	f.Text = fmt.Sprintf("no node is big enough: a job of %s needs %s, but %s %s less %s even when empty: %s%s",
		titleOf(t.TaskID), amountsText(t.PerJob), counted(nodes.TooSmall, "node"), plural(nodes.TooSmall, "has", "have"), kindsText(nodes.SmallBy), best, noDemand)
	return f
}

// noDemand ends texts about jobs that no node can hold.
const noDemand = "; until that changes such jobs do not count as demand, and no job is preempted for them"

// tooLittle says which resources are lacking on nodes for a task of an operation that is below its
// share.
func tooLittle(t *Task, nodes NodeCounts) Fact {
	k, open := most(nodes.LackingBy), nodes.All-nodes.Closed
	return Fact{Code: FactLacking, Resource: k.String(), Count: int64(nodes.Full + nodes.Held), Of: int64(open),
		Text: fmt.Sprintf("too little %s is free on %d of %s: a job of %s needs %s", kindsText(nodes.LackingBy), nodes.Full+nodes.Held, counted(open, "node"), titleOf(t.TaskID), amountsText(t.PerJob))}
}

// turnText says the place of an operation in the order, at the end of a sentence.
func (q *Case) turnText(a *Asked) string {
	at := q.Survey.position(a.ID)
	switch {
	case at == 1:
		return ", the next in the order of scheduling"
	case at > 1:
		return fmt.Sprintf(", the %s of %d in the order of scheduling", ordinal(at), q.Survey.Waiting)
	}
	return ""
}

// starvingCause returns the cause for an operation that may preempt others.
func (q *Case) starvingCause(a *Asked, t *Task, nodes NodeCounts) Fact {
	var next time.Time
	waiting, could := 0, 0
	q.Survey.reach(a.Gates, t.PerJob, func(r *Row) {
		could++
		again := r.Attempted.Add(a.Backoff)
		if r.Attempted.IsZero() || !again.After(q.Now) {
			return
		}
		waiting++
		if next.IsZero() || again.Before(next) {
			next = again
		}
	})
	if waiting == could {
		return Fact{Code: FactBackoff, Until: next, Count: int64(waiting), Setting: "preemptive_scheduling_backoff", At: a.Since,
			Text: fmt.Sprintf("%s starves, but on each of %s jobs were preempted, or no victims were found, within the last %v: the next search is at %s (preemptive_scheduling_backoff)", a.Starves, counted(waiting, "node"), a.Backoff, clock(next))}
	}
	if a.VainLooks == 0 || a.Vain.At.Before(a.Since) {
		// Victims have not been searched for yet.
		return tooLittle(t, nodes)
	}
	return a.noVictims()
}

// noVictims says that no job can be preempted for an operation although it starves.
func (a *Asked) noVictims() Fact {
	return Fact{Code: FactNoVictims, Count: int64(a.VainLooks), At: a.Vain.At, Node: a.Vain.Node,
		Text: fmt.Sprintf("%s starves, but too few jobs may be preempted to make room for a job (stage %s): jobs within the fair share of their operations are protected", a.Starves, a.Stage)}
}

// letStay adds how many jobs could be preempted but for a setting.
func (f *Fact) letStay(spared Fact) {
	f.Setting = spared.Setting
	f.Text += fmt.Sprintf(", and so are %s in pool %q (%s)", counted(spared.Count, "job"), spared.Pool, spared.Setting)
}

// by returns a list, in parentheses, that says on how many nodes each resource is lacking.
func by(lacking [resource.Count]int) string {
	var parts []string
	for i, n := range lacking {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s on %d", resource.Kind(i), n))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// nodeFacts say how the nodes suit a job: one fact about all of them, and one about each filter.
func nodeFacts(t *Task, c NodeCounts) []Fact {
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{
		{c.Fit, "%d fit"}, {c.Full, "%d with too little free" + by(c.LackingBy)}, {c.Held, "%d held for others"}, {c.TooSmall, "%d too small" + by(c.SmallBy)}, {c.Unmatched, "%d not matching"}, {c.Closed, "%d drained or offline"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf(part.text, part.n))
		}
	}
	if c.All == 0 {
		return nil
	}
	facts := []Fact{{Code: FactNodes, Task: t.Name, Count: int64(c.Fit), Of: int64(c.All),
		Text: fmt.Sprintf("%s for a job of %s, which needs %s: %s", counted(c.All, "node"), titleOf(t.TaskID), amountsText(t.PerJob), strings.Join(parts, ", "))}}
	for _, u := range c.UnmatchedBy {
		facts = append(facts, Fact{Code: FactNodes, Task: t.Name, Pool: u.Pool, Setting: "scheduling_tag_filter", Count: int64(u.Nodes), Of: int64(c.All),
			Text: u.text()})
	}
	return facts
}

func (u FilterCount) text() string {
	owner := "the operation"
	if u.Pool != "" {
		owner = PoolTitle(u.Pool)
	}
	return fmt.Sprintf("the filter %q of %s leaves out %s", u.Filter, owner, counted(u.Nodes, "node"))
}

func filtersText(c NodeCounts) string {
	var parts []string
	for _, u := range c.UnmatchedBy {
		parts = append(parts, u.text())
	}
	return strings.Join(parts, ", ")
}

// most returns the resource of which the most nodes have too little.
func most(by [resource.Count]int) resource.Kind {
	best := 0
	for i := range by {
		if by[i] > by[best] {
			best = i
		}
	}
	return resource.Kind(best)
}

// kindsText lists the resources that are lacking on some node, the one lacking on most nodes first.
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

package allocation

import (
	"iter"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Node is a node that Fill starts jobs on.
type Node struct {
	ID   scheduling.NodeID
	Free resource.Amounts
	// Takes says for each filter whether the node's tags match it.
	Takes []bool
	// MinSpare must be free for any job to start, however little the job needs.
	MinSpare resource.Amounts
	// At is the time of the heartbeat, recorded in Facts.
	At time.Time
	// Reserve is called for an operation that is passed over because too little is free for its
	// job. If it returns true, the free resources are kept for that operation, and nothing else
	// starts. Nil means false.
	Reserve func(operation *Element) bool
	// Admit decides for guarded operations whether one of their jobs may start here, and gives the
	// cause if not.
	Admit func(operation *Element, task *Task, free resource.Amounts) (bool, Cause)
}

// Outcome is the result of filling a node: how many jobs started, and how many operations and
// whole pools were left out, and why. A pool counts once.
type Outcome struct {
	// Starts is how many jobs start.
	Starts int
	// Left counts the elements that were left out, by cause.
	Left [CauseCount]int
	// Refused counts the elements that need more than is free, by the first resource that is short
	// on the node.
	Refused [resource.Count]int
}

// Add adds the counts of other.
func (o *Outcome) Add(other Outcome) {
	o.Starts += other.Starts
	for cause, n := range other.Left {
		o.Left[cause] += n
	}
	for k, n := range other.Refused {
		o.Refused[k] += n
	}
}

// Start is called for each job that starts.
type Start func(operation *Element, task Task)

// Filler fills nodes. It reuses its memory; the zero value is ready. A filler serves one tree.
type Filler struct {
	aside []*Element
}

// Fill starts up to limit jobs of the tree below root on a node, and calls start for each, in the
// order of choice. A job that starts is no longer pending, and its needs are usage.
func (f *Filler) Fill(root *Element, on Node, limit int, start Start) Outcome {
	var outcome Outcome
	for outcome.Starts < limit {
		if !on.MinSpare.Fits(on.Free) {
			f.scarce(root, on, &outcome)
			break
		}
		op, task := f.next(root, on, &outcome)
		if op == nil {
			break
		}
		chosen := *task
		on.Free = on.Free.Sub(chosen.PerJob)
		op.Serve(chosen.PerJob)
		op.AddPending(chosen.TaskID, -1)
		start(op, chosen)
		outcome.Starts++
	}
	f.restore()
	return outcome
}

// scarce counts a node whose free resources are less than MinSpare, if any operation is waiting.
func (f *Filler) scarce(root *Element, on Node, outcome *Outcome) {
	if len(root.children.waiting) == 0 {
		return
	}
	k, _ := on.MinSpare.Lacking(on.Free)
	outcome.Left[Scarce]++
	outcome.Refused[k]++
	root.Note(Scarce, Fact{At: on.At, Node: on.ID, Resource: k})
}

// Order yields the operations below root that have pending jobs, in the order in which they would
// be served if each started one job and then left the queue.
func (f *Filler) Order(root *Element) iter.Seq[*Element] {
	return func(yield func(operation *Element) bool) {
		defer func() {
			for _, e := range f.aside {
				e.SubUsage(e.tasks.first())
			}
			f.restore()
		}()
		for len(root.children.waiting) > 0 {
			e := root
			for e.pool {
				e = e.children.waiting[0]
			}
			if !yield(e) {
				return
			}
			f.leaveOut(e)
			e.AddUsage(e.tasks.first())
		}
	}
}

// next returns the operation to serve next and the task to start, or nil when none is left. An
// element that may not use the node is left out. So is one that has no job that fits into the free
// resources and the limits of all elements above.
func (f *Filler) next(root *Element, on Node, outcome *Outcome) (*Element, *Task) {
	e, room := root, on.Free
	for len(root.children.waiting) > 0 {
		matches := e.filter == NoFilter || on.Takes[e.filter]
		room = e.room(room, false)
		cause := Unmatched
		if matches {
			cause = Lacking
		}
		if matches && e.least.Fits(room) {
			if e.pool {
				e = e.children.waiting[0]
				continue
			}
			if task := e.tasks.fitting(room); task != nil {
				admitted := !e.guarded
				if e.guarded {
					admitted, cause = on.Admit(e, task, on.Free)
				}
				if admitted {
					return e, task
				}
			}
		}
		cause = f.refuse(e, on, cause, outcome)
		if e == root || cause == Lacking && on.Reserve != nil && on.reserve(e) {
			return nil, nil
		}
		e, room = root, on.Free
	}
	return nil, nil
}

// reserve calls Reserve for the operation at or below e that is next in turn among those that may
// use the node and have room for a job in their limits.
func (on Node) reserve(e *Element) bool {
	for e.pool {
		var first *Element
		for i, c := range e.children.waiting {
			if (first == nil || e.children.before(c, first)) && (c.filter == NoFilter || on.Takes[c.filter]) && c.least.Fits(c.room(resource.Infinite, false)) {
				if first = c; i == 0 {
					break
				}
			}
		}
		if first == nil {
			return false
		}
		e = first
	}
	return on.Reserve(e)
}

// refuse leaves e out until restore is called, counts it, and notes the cause.
func (f *Filler) refuse(e *Element, on Node, cause Cause, outcome *Outcome) Cause {
	fact := Fact{At: on.At, Node: on.ID}
	switch cause {
	case Unmatched:
		fact.By = e
	case Lacking:
		var lacks bool
		if fact.Resource, lacks = e.lacking(on.Free); lacks {
			outcome.Refused[fact.Resource]++
			break
		}
		cause = Limited
		fact.By, fact.Resource = e.limiting()
	default:
		// The cause alone is enough.
	}
	outcome.Left[cause]++
	e.Note(cause, fact)
	f.leaveOut(e)
	return cause
}

// Fitting returns the first task of which a job may start on the node once other jobs have been
// preempted. Such a job may exceed limits by their tolerance.
func (e *Element) Fitting(on Node) (t Task, ok bool) {
	room := on.Free
	for up := e; up != nil; up = up.parent {
		if up.filter != NoFilter && !on.Takes[up.filter] {
			return Task{}, false
		}
		room = up.room(room, true)
	}
	if !e.least.Fits(room) || e.at < 0 {
		return Task{}, false
	}
	if fits := e.tasks.fitting(room); fits != nil {
		return *fits, true
	}
	return Task{}, false
}

// Room returns the part of free that the limits of e and of all elements above allow, without
// tolerance. The result by is the nearest element, beginning with e, whose limits leave too little
// for needs; nil if there is none.
func (e *Element) Room(free, needs resource.Amounts) (room resource.Amounts, by *Element) {
	room = free
	for up := e; up != nil; up = up.parent {
		room = up.room(room, false)
		if by == nil && !needs.Fits(up.room(resource.Infinite, false)) {
			by = up
		}
	}
	return room, by
}

// Below reports whether e is the given element, or is below that element in the tree.
func (e *Element) Below(above *Element) bool {
	for up := e; up != nil; up = up.parent {
		if up == above {
			return true
		}
	}
	return false
}

// Before reports whether operation e is to be served before the operation other. It compares the
// ancestors of both that are siblings.
func (e *Element) Before(other *Element) bool {
	a, b := e, other
	for d := e.depth() - other.depth(); d != 0; {
		if d > 0 {
			a, d = a.parent, d-1
		} else {
			b, d = b.parent, d+1
		}
	}
	for a != b && a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	return a.parent.children.before(a, b)
}

// depth is the number of pools above e.
func (e *Element) depth() (n int) {
	for up := e.parent; up != nil; up = up.parent {
		n++
	}
	return n
}

func (f *Filler) leaveOut(e *Element) {
	if e.at >= 0 {
		e.leave()
		f.aside = append(f.aside, e)
	}
}

// restore puts all elements that were left out back, along with the pools above them.
func (f *Filler) restore() {
	for _, e := range f.aside {
		for ; e.parent != nil && e.at < 0; e = e.parent {
			e.join()
		}
	}
	clear(f.aside)
	f.aside = f.aside[:0]
}

// lacking returns the first resource of which free has too little for every job of e. If each task
// lacks some resource, but no resource is lacking for all tasks, it returns the resource that the
// first task lacks.
func (e *Element) lacking(free resource.Amounts) (k resource.Kind, lacks bool) {
	if k, lacks = e.least.Lacking(free); lacks || e.pool || e.tasks.fitting(free) != nil {
		return k, lacks
	}
	for i := range e.tasks {
		if k, lacks = e.tasks[i].PerJob.Lacking(free); lacks && e.tasks[i].Waits() {
			return k, true
		}
	}
	return 0, false
}

// AppendTakes appends takes as letters: nodes that match the same filters have the same letters.
func AppendTakes(to []byte, takes []bool) []byte {
	for _, yes := range takes {
		b := byte('n')
		if yes {
			b = 'y'
		}
		to = append(to, b)
	}
	return to
}

// Cause says why an operation, or a pool with all below it, was left out on a node.
type Cause uint8

// The causes, in the order in which they are checked.
const (
	// Unmatched elements may not use the node: its tags do not match the filter.
	Unmatched Cause = iota
	// Lacking: the node has too little of a resource for any of the jobs.
	Lacking
	// Limited: the limits of the element, or of one above it, leave too little.
	Limited
	// Withheld operations have their fair share, including their jobs that are leaving gracefully.
	Withheld
	// Unpacked operations wait for a node that their jobs fit better (F.14).
	Unpacked
	// Crowded operations wait for a node that has fewer of their jobs (F.14.1).
	Crowded
	// Portless: the node has too few free TCP ports for the jobs, as it had a moment ago.
	Portless
	// Scarce: the node has less free than MinSpare.
	Scarce
	// Reserved: the free resources are kept for operations for which jobs were preempted.
	Reserved
	// NoVictims: preempting all possible victims would not make enough room for starving
	// operations.
	NoVictims

	// CauseCount is the number of causes.
	CauseCount
)

var causes = [CauseCount]string{
	"unmatched", "lacking", "limited", "withheld", "unpacked", "crowded", "portless", "scarce", "reserved", "no_victims",
}

// String returns the name of the cause, such as "limited".
func (c Cause) String() string { return causes[c] }

// Fact is one refusal of a node.
type Fact struct {
	At   time.Time
	Node scheduling.NodeID
	// Resource is the first resource of which there was too little, if that is the cause.
	Resource resource.Kind
	// By is the element whose limits or filter were the cause; nil if there is none.
	By *Element
}

// Facts hold, by cause, how often an element was left out, and the last refusal.
type Facts [CauseCount]struct {
	Count uint64
	Last  Fact
}

// Note counts a refusal.
func (f *Facts) Note(cause Cause, of Fact) {
	noted := &f[cause]
	noted.Count++
	noted.Last = of
}

// limiting returns the nearest element, beginning with e, whose limits leave too little for every
// job of e. It also returns the first resource that is lacking.
func (e *Element) limiting() (*Element, resource.Kind) {
	for up := e; up != nil; up = up.parent {
		if k, lacks := e.least.Lacking(up.room(resource.Infinite, false)); lacks {
			return up, k
		}
	}
	return nil, 0
}

package allocation

import (
	"iter"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// Node is what starts are to be found for.
type Node struct {
	ID   scheduling.NodeID
	Free resource.Amounts
	// Takes says of each filter whether the node has the tags for it.
	Takes []bool
	// MinSpare must be free for a job to start, whatever that needs.
	MinSpare resource.Amounts
	// At is the time of the look, for what is noted of it.
	At time.Time
	// Reserve is asked of an operation that is passed over because too little is free for
	// its job, and not for those of others: true keeps what is free for it, and nothing else
	// starts. Nil never does.
	Reserve func(operation *Element) bool
	// Admit says of guarded operations whether a job of theirs may start here, and why
	// not.
	Admit func(operation *Element, task *Task, free resource.Amounts) (bool, Cause)
}

// Outcome says what came of a node: what started, and how many operations and whole
// pools were left out, why. A pool counts once.
type Outcome struct {
	// Starts is how many jobs start.
	Starts int
	// Left counts those that were left out, by cause.
	Left [CauseCount]int
	// Refused counts those that need more than is free, by the first resource that
	// the node lacks for them.
	Refused [resource.Count]int
}

// Add counts those of other too.
func (o *Outcome) Add(other Outcome) {
	o.Starts += other.Starts
	for cause, n := range other.Left {
		o.Left[cause] += n
	}
	for k, n := range other.Refused {
		o.Refused[k] += n
	}
}

// Start takes note of a job that starts.
type Start func(operation *Element, task Task)

// Filler fills nodes. It holds memory that is used again; the zero value is
// ready. A filler serves one tree.
type Filler struct {
	aside []*Element
}

// Fill starts jobs of the tree below root on a node, at most limit, and tells them
// to start in the order of choice. A job that starts is no longer pending, and
// its needs are usage.
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

// scarce counts a node that has something free, and less than the tree wants to be, for
// those who wait for it.
func (f *Filler) scarce(root *Element, on Node, outcome *Outcome) {
	if len(root.children.waiting) == 0 {
		return
	}
	k, _ := on.MinSpare.Lacking(on.Free)
	outcome.Left[Scarce]++
	outcome.Refused[k]++
	root.Note(Scarce, Fact{At: on.At, Node: on.ID, Resource: k})
}

// Order yields the operations below root that have pending jobs, in the order in which
// they would be served if each started one job and left.
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

// next returns the operation to be served next and the task to start, or nil when
// none is left. What may not use the node, or has no job that fits into what is free
// and within the limits of all above, is left out.
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

// reserve asks for the operation at or below e that is to be served first of those that may
// use the node, and have room for a job in their limits.
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

// refuse leaves e out until restore, counts it, and notes why.
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
		// The cause says all.
	}
	outcome.Left[cause]++
	e.Note(cause, fact)
	f.leaveOut(e)
	return cause
}

// Fitting returns the first task of which a job may start on the node once others have
// been preempted: limits may be exceeded by their tolerance.
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

// Room returns what of free the limits of e and of all above leave, without any
// tolerance, and the nearest one, from e up, that leaves too little for needs; nil: none
// does.
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

// Below reports whether e is above, or is below it.
func (e *Element) Below(above *Element) bool {
	for up := e; up != nil; up = up.parent {
		if up == above {
			return true
		}
	}
	return false
}

// Before reports whether e, of any two operations, is to be served before other: those
// decide that are siblings on their ways from the root.
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

// depth is how many pools there are above e.
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

// restore puts back, with the pools above them, all that were left out.
func (f *Filler) restore() {
	for _, e := range f.aside {
		for ; e.parent != nil && e.at < 0; e = e.parent {
			e.join()
		}
	}
	clear(f.aside)
	f.aside = f.aside[:0]
}

// lacking returns the first resource of which free has too little for any job of e.
// Where each task lacks something, and no resource is lacking for all, the first
// task speaks for them.
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

// AppendTakes appends which filters take a node, as letters: those that are the same to all
// filters have the same ones.
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

// The causes, in the order in which they are looked at.
const (
	// Unmatched elements may not use the node: its tags are not those of the filter.
	Unmatched Cause = iota
	// Lacking: the node has too little of a resource for any of the jobs.
	Lacking
	// Limited: the limits of the element, or of one above it, leave too little.
	Limited
	// Withheld operations have their part: who goes gracefully for it has to have gone.
	Withheld
	// Unpacked operations wait for a node that their jobs fit better (F.14).
	Unpacked
	// Crowded operations wait for a node that has fewer of their jobs (F.14.1).
	Crowded
	// Scarce: the node has less than the tree wants to be free for any look.
	Scarce
	// Reserved: what is free is kept for those for whom jobs were preempted.
	Reserved
	// NoVictims: starving operations find not enough that could be preempted.
	NoVictims

	// CauseCount is the number of causes.
	CauseCount
)

var causes = [CauseCount]string{
	"unmatched", "lacking", "limited", "withheld", "unpacked", "crowded", "scarce", "reserved", "no_victims",
}

// String returns the name of the cause, such as "limited".
func (c Cause) String() string { return causes[c] }

// Fact is one look at a node that came to nothing.
type Fact struct {
	At   time.Time
	Node scheduling.NodeID
	// Resource is the first one of which there was too little, where that is the cause.
	Resource resource.Kind
	// By is the element whose limits or filter were the cause; nil: none.
	By *Element
}

// Facts are, by cause, how often an element was left out, and when that was last. They
// are written while choosing, and cost little.
type Facts [CauseCount]struct {
	Count uint64
	Last  Fact
}

// Note takes note of a look that came to nothing.
func (f *Facts) Note(cause Cause, of Fact) {
	noted := &f[cause]
	noted.Count++
	noted.Last = of
}

// limiting returns the nearest element, from e up, whose limits leave too little for any
// job of e, and the first resource of that.
func (e *Element) limiting() (*Element, resource.Kind) {
	for up := e; up != nil; up = up.parent {
		if k, lacks := e.least.Lacking(up.room(resource.Infinite, false)); lacks {
			return up, k
		}
	}
	return nil, 0
}

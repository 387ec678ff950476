package allocation

import (
	"weir/scheduling"
	"weir/scheduling/resource"
)

// Outcome says what came of a node.
type Outcome struct {
	// Starts is how many jobs start.
	Starts int
	// Refused counts operations, and whole pools, that were left out, by the first
	// resource that the node lacks for them. A pool counts once.
	Refused [resource.Count]int
}

// Add counts those of other too.
func (o *Outcome) Add(other Outcome) {
	o.Starts += other.Starts
	for k, n := range other.Refused {
		o.Refused[k] += n
	}
}

// Start takes note of a job that starts.
type Start func(operation *Element, task scheduling.TaskName, needs resource.Amounts)

// Filler fills nodes. It holds memory that is used again; the zero value is
// ready. A filler serves one tree.
type Filler struct {
	aside []*Element
}

// Fill starts jobs of the tree below root in free, at most limit, and tells them
// to start in the order of choice. A job that starts is no longer pending, and
// its needs are usage.
func (f *Filler) Fill(root *Element, free resource.Amounts, limit int, start Start) Outcome {
	var outcome Outcome
	for outcome.Starts < limit {
		op := f.next(root, free, &outcome)
		if op == nil {
			break
		}
		task, ok := op.fitting(free)
		if !ok {
			f.refuse(op, free, &outcome)
			continue
		}
		name, needs := task.Name, task.PerJob
		free = free.Sub(needs)
		op.AddUsage(needs)
		op.AddPending(name, -1)
		start(op, name, needs)
		outcome.Starts++
	}
	f.restore()
	return outcome
}

// next returns the operation to be served next, or nil when none is left. It
// leaves out pools of which no job can fit.
func (f *Filler) next(root *Element, free resource.Amounts, outcome *Outcome) *Element {
	e := root
	for len(e.waiting) > 0 {
		if !e.least.Fits(free) {
			f.refuse(e, free, outcome)
			if e == root {
				return nil
			}
			e = root
			continue
		}
		e = e.waiting[0]
	}
	if e == root {
		return nil
	}
	return e
}

// refuse leaves e out until restore.
func (f *Filler) refuse(e *Element, free resource.Amounts, outcome *Outcome) {
	if k, lacks := e.least.Lacking(free); lacks {
		outcome.Refused[k]++
	} else {
		// Each task lacks something, and no resource is lacking for all: the
		// first task speaks for them.
		outcome.Refused[e.lackingForFirst(free)]++
	}
	if e.at >= 0 {
		e.leave()
		f.aside = append(f.aside, e)
	}
}

// restore puts back, with the pools above them, all that were left out.
func (f *Filler) restore() {
	for _, e := range f.aside {
		for ; e.parent != nil && e.at < 0; e = e.parent {
			e.parent.push(e)
		}
	}
	clear(f.aside)
	f.aside = f.aside[:0]
}

// fitting returns the first task with pending jobs that fit into free.
func (e *Element) fitting(free resource.Amounts) (Task, bool) {
	for _, t := range e.tasks {
		if t.Pending > 0 && t.PerJob.Fits(free) {
			return t, true
		}
	}
	return Task{}, false
}

func (e *Element) lackingForFirst(free resource.Amounts) resource.Kind {
	for _, t := range e.tasks {
		if k, lacks := t.PerJob.Lacking(free); lacks && t.Pending > 0 {
			return k
		}
	}
	return resource.UserSlots
}

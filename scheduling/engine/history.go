package engine

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/memory"
	"weir/scheduling/resource"
)

// maxKinds is how many kinds of operations are remembered.
const maxKinds = 10_000

// pointsKept is how many points of the digest of how long an operation's jobs ran are remembered.
const pointsKept = 32

// history is what is remembered of operations for estimates about later ones: of each pool (in its
// element), and of each kind.
type history struct {
	// came and left are the operations that have come with jobs, and that have left their pools, since
	// the last moment.
	came []*operation
	left []departure
	// kinds are how long jobs ran of the last operations of each kind. order has the kinds, that which was
	// noted first comes first.
	kinds map[string][]explain.Lengths
	order []string
	// record compares estimates with what came. asked are the operations with estimates to which no
	// start has come yet.
	record explain.Record
	asked  []*operation
	// probed is the operation that Probe returned last.
	probed scheduling.OperationID
}

// At most maxAsked operations have estimates that are compared with their starts, toldKept of them
// each.
const maxAsked, toldKept = 256, 4

// departure is an operation that has left a pool.
type departure struct {
	op   *operation
	from *element
}

// comes notes that an operation has jobs to start.
func (h *history) comes(op *operation) {
	if !op.came && op.jobs() > 0 {
		op.came = true
		h.came = append(h.came, op)
	}
}

// leaves notes that an operation has ended. It is still in its pool.
func (h *history) leaves(op *operation) {
	h.forgets(op)
	h.left = append(h.left, departure{op, op.above})
}

// Past is what is known of an operation that has come before the engine was made.
type Past struct {
	ID   scheduling.OperationID
	Pool scheduling.PoolName
	Kind string
	// Started is when it came, with so many jobs, each of which needs this on average.
	Started time.Time
	Jobs    int64
	Needs   resource.Amounts
	Weight  float64
	// Lengths represent how long its jobs ran that have ended, in seconds, and Ended is how many have.
	Lengths []float64
	Ended   int64
}

// Remember adds what was known before, for estimates. Operations in progress have been added before.
// Those that ended first come first.
func (e *Engine) Remember(p Past) {
	run, op, in := explain.LengthsOf(p.Lengths, p.Ended), e.tree.operations[p.ID], e.tree.pools[p.Pool]
	if op != nil {
		op.came, op.begun = true, op.begun || p.Ended > 0
		op.lengths = run.Clone()
		for _, seconds := range p.Lengths {
			op.took.add(seconds)
		}
	} else {
		e.tree.history.noteKind(p.Kind, run)
	}
	if in == nil {
		return
	}
	in.past.NoteArrival(explain.Arrival{At: p.Started, Jobs: p.Jobs, Needs: p.Needs, Weight: p.Weight})
	for above := &in.element; above != nil; above = above.above {
		if op == nil {
			above.past.NoteRun(run)
		}
		for _, seconds := range p.Lengths {
			above.lengths.Add(time.Duration(seconds * float64(time.Second)))
		}
	}
}

// mostTook is how many run times of an operation a took keeps.
const mostTook = 200

// took is a digest of how long the jobs of an operation ran, in seconds. Of many jobs, it keeps those at
// even intervals, so that those that ended last count no more than others.
type took struct {
	digest memory.Digest
	// Every stride-th job is in the digest; 0 is 1. ended counts all of them.
	stride, ended int64
}

// add notes for how many seconds a job ran.
func (k *took) add(seconds float64) {
	k.ended++
	if k.stride = max(k.stride, 1); k.ended%k.stride != 0 {
		return
	}
	if err := k.digest.Add(seconds); err != nil {
		// Invariant: a time is finite.
		panic(fmt.Sprintf("note how long a job ran: %v", err))
	}
	if k.digest.Count() == mostTook {
		k.digest, k.stride = *k.digest.Summary(mostTook / 2), 2*k.stride
	}
}

// lengths returns what represents the run times.
func (k *took) lengths() explain.Lengths {
	return explain.LengthsOf(k.digest.Points(pointsKept), k.ended)
}

// tells notes an estimate.
func (h *history) tells(op *operation, told explain.Told) {
	switch {
	case op.removed || len(op.told) == toldKept || len(op.told) == 0 && len(h.asked) == maxAsked:
		return
	case len(op.told) == 0:
		h.asked = append(h.asked, op)
	}
	op.told = append(op.told, told)
}

// starts compares the estimates of an operation with a start.
func (h *history) starts(op *operation, now time.Time) {
	op.begun = true
	if len(op.told) == 0 {
		return
	}
	for _, told := range op.told {
		h.record.Note(told, now)
	}
	h.forgets(op)
}

// forgets drops the estimates of an operation.
func (h *history) forgets(op *operation) {
	if len(op.told) > 0 {
		op.told, h.asked = nil, without(h.asked, op)
	}
}

// widths returns how ranges have to be changed. What is settled is noted before, so that operations that do not
// start for days make room for others.
func (h *history) widths(now time.Time) explain.Widths {
	var open []explain.Told
	for _, op := range slices.Clone(h.asked) {
		left := make([]explain.Told, 0, len(op.told))
		for _, told := range op.told {
			if told.Settled(now) {
				h.record.Note(told, now)
			} else {
				left = append(left, told)
			}
		}
		if len(left) == 0 {
			h.forgets(op)
		} else {
			op.told, open = left, append(open, left...)
		}
	}
	return h.record.Widths(now, open)
}

// Conclude notes what an inquiry has told, once it is complete: later estimates are corrected by what
// comes of it.
func (e *Engine) Conclude(q *Inquiry) {
	if told := q.known.Told; q.op != nil && told != nil && e.tree.operations[q.op.ID] == q.op {
		e.tree.history.tells(q.op, *told)
	}
}

// Probe returns the operation whose start should be estimated next so that the estimate can be compared
// with what comes: operations that wait take turns, by id. The result is false if none waits.
func (e *Engine) Probe() (next scheduling.OperationID, ok bool) {
	h, first := &e.tree.history, scheduling.OperationID("")
	for id, op := range e.tree.operations {
		if !op.active() || op.jobs() == 0 || len(op.gangs) > 0 || len(op.told) == toldKept {
			continue
		}
		if first == "" || id < first {
			first = id
		}
		if id > h.probed && (next == "" || id < next) {
			next = id
		}
	}
	if next == "" {
		next = first
	}
	h.probed = next
	return next, next != ""
}

// noteOperations remembers the operations that have come and left since the last moment.
func (tr *tree) noteOperations(now time.Time) {
	h := &tr.history
	for _, op := range h.came {
		if op.pool != nil {
			op.pool.past.NoteArrival(op.arrival(now))
		}
	}
	for _, d := range h.left {
		run := d.op.took.lengths()
		for e := d.from; e != nil; e = e.above {
			e.past.NoteRun(run)
		}
		h.noteKind(d.op.Kind, run)
	}
	clear(h.came)
	clear(h.left)
	h.came, h.left = h.came[:0], h.left[:0]
}

// arrival describes an operation that has come.
func (op *operation) arrival(now time.Time) explain.Arrival {
	a := explain.Arrival{At: now, Weight: op.share.Weight}
	if !op.Started.IsZero() && op.Started.Before(now) {
		a.At = op.Started
	}
	for i := range op.tasks {
		t := &op.tasks[i]
		a.Jobs += t.pending
		a.Needs = a.Needs.Add(t.perJob.Times(t.pending))
	}
	if a.Jobs > 0 {
		a.Needs = a.Needs.Scale(1 / float64(a.Jobs))
	}
	return a
}

// noteKind remembers how long the jobs of an operation of a kind ran.
func (h *history) noteKind(kind string, l explain.Lengths) {
	if kind == "" || !l.Known() {
		return
	}
	if h.kinds == nil {
		h.kinds = map[string][]explain.Lengths{}
	}
	before, known := h.kinds[kind]
	if !known {
		if len(h.order) == maxKinds {
			delete(h.kinds, h.order[0])
			h.order = h.order[1:]
		}
		h.order = append(h.order, kind)
	}
	h.kinds[kind] = explain.WithRun(before, l)
}

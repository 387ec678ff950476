package allocation

import (
	"slices"

	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// move updates the place of e in its heap, and the places of the pools above whose keys may depend on
// e: of those of which it is, or was, the first child.
func (e *Element) move() {
	first := e.at == 0
	if e.judge(); first || e.at == 0 {
		e.parent.follow()
	}
}

// judge recomputes the keys of e, and moves it in its pool's heap. An element without pending jobs
// is in no heap and has no keys.
func (e *Element) judge() {
	if e.at >= 0 {
		e.weigh()
		e.parent.children.fix(e.at)
	}
}

// weigh computes the keys of e: how much of its fair share it uses, and its satisfaction.
func (e *Element) weigh() {
	used := resource.Share(e.usage, e.total)
	switch {
	case e.most <= resource.Epsilon:
		e.part = used.MaxComponent()
	case e.kinds.differ():
		e.part = e.satisfied(used, e.Next())
	default:
		e.part = used.MaxComponent() / e.most
	}
	switch {
	case !e.pool:
		e.satisfaction = e.satisfied(used.Add(e.ahead), resource.Infinite)
		e.high = !e.promised.IsZero() && preemption.Shares{Usage: used, Fair: e.fair, Demand: e.demand}.BelowPromised(e.promised)
	case e.children.order.ByOperations && len(e.children.waiting) > 0:
		e.satisfaction, e.high = e.children.waiting[0].satisfaction, e.children.waiting[0].high
	default:
		first := e.parent == nil || !e.parent.children.order.NoGuaranteesFirst
		e.high = len(e.children.waiting) > 0 && (e.children.waiting[0].high || first && !e.promised.IsZero() && e.Promised(e.first()))
		e.satisfaction = e.goesBy(used)
	}
}

// follow updates a pool whose waiting children have changed, and all pools above it: a pool's key
// may depend on the first child, any number of levels down.
func (e *Element) follow() {
	for e.at >= 0 {
		first := e.at == 0
		if e.judge(); !first && e.at != 0 {
			return
		}
		e = e.parent
	}
}

// place puts e into its pool's heap if it has pending jobs that may start, and otherwise takes it
// out. The pools above are updated too.
func (e *Element) place() {
	if !e.hasPending() {
		e.leave()
		return
	}
	before := e.head
	if len(e.tasks) > 0 {
		e.measure()
	}
	if e.at >= 0 && e.head != before {
		e.parent.follow()
	}
	for ; e.parent != nil; e = e.parent {
		e.parent.least = e.parent.least.Min(e.least)
		e.join()
	}
}

// join puts e into its pool's heap unless it is already there.
func (e *Element) join() {
	if e.at < 0 {
		e.weigh()
		e.parent.children.push(e)
		e.parent.follow()
	}
}

// leave takes e out of its pool's heap, and the pool out of its own heap when e was the last one.
func (e *Element) leave() {
	for e.at >= 0 {
		pool := e.parent
		pool.children.remove(e.at)
		if len(pool.children.waiting) > 0 {
			pool.follow()
			return
		}
		e = pool
	}
}

func (e *Element) hasPending() bool {
	if len(e.children.waiting) > 0 {
		return true
	}
	return e.enabled && slices.ContainsFunc(e.tasks, func(t Task) bool { return t.Waits() })
}

// measure sets least from the waiting children and tasks of e, and the head of an operation.
func (e *Element) measure() {
	least := resource.Infinite
	for _, c := range e.children.waiting {
		least = least.Min(c.least)
	}
	for i := range e.tasks {
		if t := &e.tasks[i]; t.Waits() {
			least = least.Min(t.PerJob)
		}
	}
	e.least = least
	if !e.pool {
		e.head = e.tasks.first()
	}
}

// Order says how the children of a pool are ordered, and how the pool is ordered among its siblings.
type Order struct {
	// FIFO serves the children of the pool strictly by rank.
	FIFO bool
	// NoGuaranteesFirst gives no precedence to children that are owed a job by guarantees.
	NoGuaranteesFirst bool
	// ByOperations makes the satisfaction of the pool equal to that of its first waiting child
	// (F.13).
	ByOperations bool
}

// queue holds the children of a pool that have pending jobs: a binary heap with the next one to be
// served on top. Every child knows its index.
type queue struct {
	waiting []*Element
	order   Order
}

// before is the total order of the children. In a FIFO pool they are ordered by rank. Elsewhere,
// children whose field high is set come first. After that, these come first, in order of priority:
// the least satisfied, the one that uses less of its fair share, the one with the greater lag, the
// one that was served least recently, and the one with the lower rank.
func (q *queue) before(one, other *Element) bool {
	if q.order.FIFO {
		return one.earlier(other)
	}
	if one.high != other.high {
		return one.high
	}
	if one.satisfaction != other.satisfaction {
		return one.satisfaction < other.satisfaction
	}
	if one.part != other.part {
		return one.part < other.part
	}
	if one.debt.Lag != other.debt.Lag {
		return one.debt.Lag > other.debt.Lag
	}
	if one.served != other.served {
		return one.served < other.served
	}
	return one.earlier(other)
}

// earlier is the order by rank, then by id.
func (e *Element) earlier(other *Element) bool {
	if e.rank != other.rank {
		return e.rank < other.rank
	}
	return e.id < other.id
}

func (q *queue) push(c *Element) {
	q.waiting = append(q.waiting, c)
	c.at = len(q.waiting) - 1
	q.up(c.at)
}

func (q *queue) remove(i int) {
	last := len(q.waiting) - 1
	q.waiting[i].at = -1
	if i != last {
		q.waiting[i] = q.waiting[last]
		q.waiting[i].at = i
	}
	q.waiting[last] = nil
	q.waiting = q.waiting[:last]
	if i != last {
		q.fix(i)
	}
}

// fix restores the heap after the child at i has changed.
func (q *queue) fix(i int) {
	if !q.down(i) {
		q.up(i)
	}
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.before(q.waiting[i], q.waiting[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) (moved bool) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.waiting); child++ {
			if q.before(q.waiting[child], q.waiting[first]) {
				first = child
			}
		}
		if first == i {
			return moved
		}
		q.swap(i, first)
		i, moved = first, true
	}
}

func (q *queue) swap(i, j int) {
	w := q.waiting
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}

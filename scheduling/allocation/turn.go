package allocation

import (
	"slices"

	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// move puts e, and the pools above that go by it, to where they belong now.
func (e *Element) move() {
	if e.judge(); e.at >= 0 {
		e.parent.follow()
	}
}

// judge finds anew by what e goes, and moves it in its pool's heap. A pool that waits for
// nothing goes by nothing.
func (e *Element) judge() {
	if e.at >= 0 {
		e.weigh()
		e.parent.children.fix(e.at)
	}
}

// weigh finds how much of its fair share e uses, and by what it goes.
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

// follow has a pool go by those that wait in it now, and moves it, and those above, to where
// that puts them: what a pool goes by may depend on who is first any number of pools below.
func (e *Element) follow() {
	for ; e.at >= 0; e = e.parent {
		e.judge()
	}
}

// place puts e into its pool's heap or takes it out: those are in that have
// pending jobs that may start. The pools above follow.
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

// join puts e into its pool's heap unless it is there.
func (e *Element) join() {
	if e.at < 0 {
		e.weigh()
		e.parent.children.push(e)
		e.parent.follow()
	}
}

// leave takes e out of its pool's heap, and the pool out of its own when it was
// the last one.
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

// measure sets least from those right below, and the head of an operation.
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

// Order is how the children of a pool follow each other, and the pool its siblings.
type Order struct {
	// FIFO serves the children of the pool strictly by rank.
	FIFO bool
	// NoGuaranteesFirst has children to which guarantees owe a job come in the order of all.
	NoGuaranteesFirst bool
	// ByOperations has the pool be as satisfied as the first of its waiting children, and
	// not as it is itself (F.13).
	ByOperations bool
}

// queue is the waiting children of a pool, those that have pending jobs: a binary heap, the
// next one to be served on top. Every child knows its place in it.
type queue struct {
	waiting []*Element
	order   Order
}

// before is the total order of the children. Those of a FIFO pool go by rank. Elsewhere those
// that are high are first, then the least satisfied, then who uses less of its fair share,
// then who was served least recently, and then the longest waiting.
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

// earlier is the order by rank, and of the same rank by id.
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

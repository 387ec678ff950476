package allocation

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

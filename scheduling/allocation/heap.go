package allocation

// The waiting children of a pool are a binary heap, the next one to be served on
// top. Every child knows its place in it.

// before is the total order of the children of e. Those of a FIFO pool go by rank. Elsewhere those
// that are high are first, then the least satisfied, then who uses less of its fair share,
// then who was served least recently, and then the longest waiting.
func (e *Element) before(one, other *Element) bool {
	if e.order.FIFO {
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

func (e *Element) push(c *Element) {
	e.waiting = append(e.waiting, c)
	c.at = len(e.waiting) - 1
	e.up(c.at)
}

func (e *Element) remove(i int) {
	last := len(e.waiting) - 1
	e.waiting[i].at = -1
	if i != last {
		e.waiting[i] = e.waiting[last]
		e.waiting[i].at = i
	}
	e.waiting[last] = nil
	e.waiting = e.waiting[:last]
	if i != last {
		e.fix(i)
	}
}

// fix restores the heap after the child at i has changed.
func (e *Element) fix(i int) {
	if !e.down(i) {
		e.up(i)
	}
}

func (e *Element) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(e.waiting[i], e.waiting[parent]) {
			return
		}
		e.swap(i, parent)
		i = parent
	}
}

func (e *Element) down(i int) (moved bool) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(e.waiting); child++ {
			if e.before(e.waiting[child], e.waiting[first]) {
				first = child
			}
		}
		if first == i {
			return moved
		}
		e.swap(i, first)
		i, moved = first, true
	}
}

func (e *Element) swap(i, j int) {
	w := e.waiting
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}

package remote

// pending is the table of one stream's unanswered requests: a reply counts only
// while its request is here. T is what an answer completes. It is not safe for
// concurrent use.
type pending[T any] struct {
	limit int
	last  uint64
	open  map[uint64]T
}

func newPending[T any](limit int) *pending[T] {
	return &pending[T]{limit: limit, open: make(map[uint64]T)}
}

// full says whether open would be refused.
func (p *pending[T]) full() bool { return len(p.open) >= p.limit }

// add opens a request and returns its id, which is used once.
func (p *pending[T]) add(waiting T) (id uint64) {
	p.last++
	p.open[p.last] = waiting
	return p.last
}

// take closes the request id. ok is false when it is not open: never was, is
// answered, or has been given up.
func (p *pending[T]) take(id uint64) (waiting T, ok bool) {
	waiting, ok = p.open[id]
	delete(p.open, id)
	return waiting, ok
}

// drain closes all requests, in no particular order.
func (p *pending[T]) drain() []T {
	all := make([]T, 0, len(p.open))
	for _, waiting := range p.open {
		all = append(all, waiting)
	}
	clear(p.open)
	return all
}

package simulate

import "time"

// event is something that is going to happen. Those of one moment happen in the order
// in which they were scheduled.
type event struct {
	at  time.Duration
	seq uint64
	do  happening
}

// happening is what an event does to the world.
type happening interface{ happen(w *world) error }

// queue is events by time, a binary heap.
type queue struct {
	events []event
	seq    uint64
}

func (q *queue) add(at time.Duration, do happening) {
	q.seq++
	q.events = append(q.events, event{at, q.seq, do})
	for i := len(q.events) - 1; i > 0; {
		above := (i - 1) / 2
		if !q.events[i].before(q.events[above]) {
			return
		}
		q.events[i], q.events[above] = q.events[above], q.events[i]
		i = above
	}
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

// next returns the time of the first event; false: there is none.
func (q *queue) next() (time.Duration, bool) {
	if len(q.events) == 0 {
		return 0, false
	}
	return q.events[0].at, true
}

// take removes the first event.
func (q *queue) take() happening {
	first, last := q.events[0], len(q.events)-1
	q.events[0] = q.events[last]
	q.events[last] = event{}
	q.events = q.events[:last]
	for i := 0; ; {
		least := i
		for below := 2*i + 1; below <= 2*i+2 && below < last; below++ {
			if q.events[below].before(q.events[least]) {
				least = below
			}
		}
		if least == i {
			return first.do
		}
		q.events[i], q.events[least] = q.events[least], q.events[i]
		i = least
	}
}

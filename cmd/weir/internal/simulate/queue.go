package simulate

import (
	"cmp"
	"container/heap"
	"time"
)

// event is something that will happen. Events of the same time happen in the order in which they
// were scheduled.
type event struct {
	at  time.Duration
	seq uint64
	do  func() error
}

// events are a heap by time.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// queue is the pending events, in order of time.
type queue struct {
	events events
	seq    uint64
}

func (q *queue) add(at time.Duration, do func() error) {
	q.seq++
	heap.Push(&q.events, event{at, q.seq, do})
}

// next returns the time of the first event; false if there is none.
func (q *queue) next() (time.Duration, bool) {
	if len(q.events) == 0 {
		return 0, false
	}
	return q.events[0].at, true
}

// take removes the first event.
func (q *queue) take() func() error { return heap.Pop(&q.events).(event).do }

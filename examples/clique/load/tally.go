package load

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Count is what became of the requests of a loop.
type Count struct {
	// Sent is Answered and Failed together, once all have ended.
	Sent, Answered, Failed int
	// Withheld requests were due, and not sent: as many were under way as may be.
	Withheld int
}

// Tally is what became of all requests.
type Tally struct {
	Closed, Open Count
	// Longest is the longest request that was answered.
	Longest time.Duration
	// Failures counts failed requests by what went wrong.
	Failures map[string]int
	// Cut are those that failed, in the order in which they did.
	Cut []Cut
}

// Cut is a request that failed.
type Cut struct {
	Began, Ended time.Time
	// Job is the instance that it was sent to, Node where that was.
	Job, Node string
	// What went wrong.
	What string
}

// Total is that of both loops.
func (t Tally) Total() Count {
	return Count{
		Sent: t.Closed.Sent + t.Open.Sent, Answered: t.Closed.Answered + t.Open.Answered,
		Failed: t.Closed.Failed + t.Open.Failed, Withheld: t.Closed.Withheld + t.Open.Withheld,
	}
}

// book is a tally that is being made.
type book struct {
	mu    sync.Mutex
	tally Tally
}

func (b *book) sent(loop *Count) {
	b.mu.Lock()
	defer b.mu.Unlock()
	loop.Sent++
}

func (b *book) withheld(loop *Count) {
	b.mu.Lock()
	defer b.mu.Unlock()
	loop.Withheld++
}

// ended notes the end of a request, which was answered if nothing went wrong.
func (b *book) ended(loop *Count, end Cut) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if end.What == "" {
		loop.Answered++
		b.tally.Longest = max(b.tally.Longest, end.Ended.Sub(end.Began))
		return
	}
	loop.Failed++
	if b.tally.Failures == nil {
		b.tally.Failures = map[string]int{}
	}
	b.tally.Failures[end.What]++
	b.tally.Cut = append(b.tally.Cut, end)
}

func (b *book) now() Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tally
	t.Failures, t.Cut = maps.Clone(t.Failures), slices.Clone(t.Cut)
	return t
}

package load

import (
	"maps"
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
	// Cut are the times from the beginning of the load at which requests failed.
	Cut []time.Duration
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

func (b *book) ended(loop *Count, at, took time.Duration, failure string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if failure == "" {
		loop.Answered++
		b.tally.Longest = max(b.tally.Longest, took)
		return
	}
	loop.Failed++
	if b.tally.Failures == nil {
		b.tally.Failures = map[string]int{}
	}
	b.tally.Failures[failure]++
	b.tally.Cut = append(b.tally.Cut, at)
}

func (b *book) now() Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tally
	t.Failures, t.Cut = maps.Clone(t.Failures), append([]time.Duration(nil), t.Cut...)
	return t
}

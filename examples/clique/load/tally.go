package load

import (
	"fmt"
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

// Missing says what is wrong with a tally whose load has ended, of at least so many requests;
// empty: nothing.
func (t Tally) Missing(least int) string {
	total := t.Total()
	if total.Sent >= least && total.Answered+total.Failed == total.Sent {
		return ""
	}
	return fmt.Sprintf("of %d requests, at least %d of which were to be sent, %d were answered and %d failed", total.Sent, least, total.Answered, total.Failed)
}

// ended notes the end of a request, which was answered if nothing went wrong.
func (t *Tally) ended(loop *Count, end Cut) {
	if end.What == "" {
		loop.Answered++
		t.Longest = max(t.Longest, end.Ended.Sub(end.Began))
		return
	}
	loop.Failed++
	t.Cut = append(t.Cut, end)
}

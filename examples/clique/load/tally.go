package load

import (
	"fmt"
	"time"
)

// Count counts the requests of a loop.
type Count struct {
	// Sent is the sum of Answered and Failed once all requests have ended.
	Sent, Answered, Failed int
	// Withheld requests were due, but not sent because Bound requests were open.
	Withheld int
}

// Tally is the results of all requests.
type Tally struct {
	Closed, Open Count
	// Longest is the longest request that was answered.
	Longest time.Duration
	// Cut are the failed requests, in order of failure.
	Cut []Cut
}

// Cut is a request that failed.
type Cut struct {
	Began, Ended time.Time
	// Job is the instance that got the request; Node is the node of that instance.
	Job, Node string
	// What names the failure.
	What string
}

// Total is the sum of both loops.
func (t Tally) Total() Count {
	return Count{
		Sent: t.Closed.Sent + t.Open.Sent, Answered: t.Closed.Answered + t.Open.Answered,
		Failed: t.Closed.Failed + t.Open.Failed, Withheld: t.Closed.Withheld + t.Open.Withheld,
	}
}

// Missing says what is wrong with the tally of a finished load, which must have sent at least
// this many requests. It returns "" if nothing is wrong.
func (t Tally) Missing(least int) string {
	total := t.Total()
	if total.Sent >= least && total.Answered+total.Failed == total.Sent {
		return ""
	}
	return fmt.Sprintf("%d requests were sent (minimum %d), of which %d were answered and %d failed", total.Sent, least, total.Answered, total.Failed)
}

// ended counts a finished request, which was answered if end.What is empty.
func (t *Tally) ended(loop *Count, end Cut) {
	if end.What == "" {
		loop.Answered++
		t.Longest = max(t.Longest, end.Ended.Sub(end.Began))
		return
	}
	loop.Failed++
	t.Cut = append(t.Cut, end)
}

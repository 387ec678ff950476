package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
)

// Case is a question of somebody why an operation or a pool is as it is, with all that is
// known.
type Case struct {
	Now    time.Time
	Survey *Survey
	// Asks are what is known of the operations in question: of the one, or of those below
	// a pool. Unasked are those of a pool with too many of them.
	Asks    []Asked
	Unasked int
	Pool    scheduling.PoolName
	// Search looks for those who could have to leave; nil: nobody asks for that.
	Search *Search
	// Fares is how the operation does, Tail are facts that come last.
	Fares, Tail []Fact
	Answer      Explanation
}

// Reason finds what follows from what is known. It reports whether that is all; if not, it
// has begun a Search.
func (q *Case) Reason() (done bool) {
	q.Survey.classify()
	if q.Pool != "" {
		q.explainPool()
		return true
	}
	a := &q.Asks[0]
	v := q.judge(a)
	if q.Search == nil && v.worthSearch(a) {
		if q.Search = q.newSearch(a, v); q.Search != nil {
			return false
		}
	}
	q.explainOperation(a, v)
	return true
}

// explainPool adds what the operations below a pool wait for.
func (q *Case) explainPool() {
	x := &q.Answer
	slices.SortFunc(q.Asks, func(a, b Asked) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	waiting := 0
	for i := range q.Asks {
		a := &q.Asks[i]
		if a.State.Code == FactNoJobs || a.State.Code == FactNotRunning || a.State.Code == FactSuspended && a.Pending == 0 {
			continue
		}
		answer := q.judge(a).answer(a)
		waiting++
		at := slices.IndexFunc(x.Waits, func(w Wait) bool { return w.Verdict == answer.Code })
		if at < 0 {
			at = len(x.Waits)
			x.Waits = append(x.Waits, Wait{Verdict: answer.Code, First: a.ID, Text: answer.Text})
		}
		x.Waits[at].Operations++
		x.Waits[at].Jobs += a.Pending
	}
	slices.SortStableFunc(x.Waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Verdict, b.Verdict))
	})
	f := Fact{Code: FactWaits, Pool: q.Pool, Count: int64(waiting), Of: int64(len(q.Asks)), Text: "none of the operations below it has jobs to start"}
	if waiting > 0 {
		var parts []string
		for _, w := range x.Waits {
			parts = append(parts, fmt.Sprintf("%s %d", w.Verdict, w.Operations))
		}
		f.Text = fmt.Sprintf("of %s below it, %d with jobs to start: %s", counted(len(q.Asks), "operation"), waiting, strings.Join(parts, ", "))
	}
	if q.Unasked > 0 {
		f.Text += fmt.Sprintf("; %d more were not looked at", q.Unasked)
	}
	x.Facts = append(x.Facts, f)
	x.Facts = append(x.Facts, q.Tail...)
	x.Verdict = x.Facts[0].Code
}

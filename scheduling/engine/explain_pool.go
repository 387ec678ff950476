package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// explainPool adds what the operations below a pool wait for.
func (q *Inquiry) explainPool() {
	x := &q.x
	slices.SortFunc(q.asks, func(a, b ask) int { return cmp.Or(a.started.Compare(b.started), cmp.Compare(a.id, b.id)) })
	waiting := 0
	for i := range q.asks {
		a := &q.asks[i]
		if a.state.Code == FactNoJobs || a.state.Code == FactNotRunning || a.state.Code == FactSuspended && a.pending == 0 {
			continue
		}
		answer := q.judge(a).answer(a)
		waiting++
		at := slices.IndexFunc(x.Waits, func(w Wait) bool { return w.Verdict == answer.Code })
		if at < 0 {
			at = len(x.Waits)
			x.Waits = append(x.Waits, Wait{Verdict: answer.Code, First: a.id, Text: answer.Text})
		}
		x.Waits[at].Operations++
		x.Waits[at].Jobs += a.pending
	}
	slices.SortStableFunc(x.Waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Verdict, b.Verdict))
	})
	f := Fact{Code: FactWaits, Pool: q.pool, Count: int64(waiting), Of: int64(len(q.asks)), Text: "none of the operations below it has jobs to start"}
	if waiting > 0 {
		var parts []string
		for _, w := range x.Waits {
			parts = append(parts, fmt.Sprintf("%s %d", w.Verdict, w.Operations))
		}
		f.Text = fmt.Sprintf("of %s below it, %d with jobs to start: %s", counted(len(q.asks), "operation"), waiting, strings.Join(parts, ", "))
	}
	if q.unasked > 0 {
		f.Text += fmt.Sprintf("; %d more were not looked at", q.unasked)
	}
	x.Facts = append(x.Facts, f)
	x.Facts = append(x.Facts, q.tail...)
	x.Verdict = x.Facts[0].Code
}

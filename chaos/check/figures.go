package check

import (
	"fmt"
	"slices"

	"weir/chaos/history"
	"weir/scheduling/lifecycle"
)

// Figures sum up a run.
type Figures struct {
	// Faults counts what took effect, by kind and scope.
	Faults map[[2]string]int
	// Submitted, Aborted and Unknown count calls: acknowledged submissions and aborts,
	// and those without an answer.
	Submitted, Aborted, Unknown int
	// WorstGap is the longest time between two acknowledged submissions, in
	// nanoseconds, and WorstGapAt when it began.
	WorstGap, WorstGapAt int64
	Operations           map[string]int
	// Attempts counts processes that witnesses saw begin, Lost attempts that were
	// aborted and whose cookie ran again.
	Attempts, Lost int
	LeaderChanges  int
	// Void counts faults that did not take effect, Stalls replicas that stopped because
	// the machine's disk hung.
	Void, Stalls int
}

// Sum returns the figures of a run.
func Sum(run *history.Run) Figures {
	x := newIndex(run)
	f := Figures{Faults: make(map[[2]string]int), Operations: make(map[string]int)}
	var acks []int64
	for _, c := range run.Calls {
		switch {
		case c.Outcome == history.Unknown:
			f.Unknown++
		case c.Outcome != history.OK:
		case c.What == history.Submit:
			f.Submitted++
			acks = append(acks, c.Returned)
		case c.What == history.Abort:
			f.Aborted++
		}
	}
	slices.Sort(acks)
	for i := 1; i < len(acks); i++ {
		if gap := acks[i] - acks[i-1]; gap > f.WorstGap {
			f.WorstGap, f.WorstGapAt = gap, acks[i-1]
		}
	}
	var term uint64
	for _, a := range run.Acts {
		switch {
		case a.What == history.Stall:
			f.Stalls++
		case a.What == history.Inject && a.Error != "":
			f.Void++
		case a.What == history.Inject:
			f.Faults[[2]string{a.Kind, a.Scope}]++
		case a.What == history.Leads && a.Term > term:
			if term > 0 {
				f.LeaderChanges++
			}
			term = a.Term
		}
	}
	for i := range run.Operations {
		f.Operations[run.Operations[i].State]++
		for c, list := range jobs(&run.Operations[i]) {
			f.Lost += lost(list, x.lives[c])
		}
	}
	for _, lives := range x.lives {
		f.Attempts += len(lives)
	}
	return f
}

// lost counts the attempts of a cookie that began, were aborted, and were followed by
// another that began.
func lost(attempts []history.Job, lives []life) int {
	began := func(job string) bool { return slices.ContainsFunc(lives, func(l life) bool { return l.job == job }) }
	count := 0
	for _, a := range attempts {
		if a.State != lifecycle.JobAborted.String() || !began(a.ID) {
			continue
		}
		if slices.ContainsFunc(attempts, func(b history.Job) bool { return b.Attempt > a.Attempt && began(b.ID) }) {
			count++
		}
	}
	return count
}

// Vacuous says what a run did not press, so that it proves nothing.
func (f Figures) Vacuous() []string {
	var out []string
	if f.LeaderChanges == 0 {
		out = append(out, "the leader never changed")
	}
	if f.Lost == 0 {
		out = append(out, "no attempt was lost and run again")
	}
	took := 0
	for _, count := range f.Faults {
		took += count
	}
	if f.Void > took/10 {
		out = append(out, fmt.Sprintf("%d faults did not take effect, and %d did", f.Void, took))
	}
	if f.Submitted == 0 {
		out = append(out, "no submission was acknowledged")
	}
	return out
}

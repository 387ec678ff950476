package state

import (
	"cmp"
	"fmt"
	"slices"

	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/statistics"
)

// verifyTasks checks that each cookie of each task is in exactly one set and is counted.
func verifyTasks(o *operation) error {
	running := make([]cookies.IntervalSet, len(o.tasks))
	for _, a := range byGrant(o.allocations) {
		i, ok := o.taskIndex[scheduling.TaskName(a.GetTask())]
		if !ok {
			return fmt.Errorf("allocation %q: task %q is missing", a.GetJobId(), a.GetTask())
		}
		if !a.GetReplaced() && !running[i].Add(scheduling.Cookie(a.GetCookie())) {
			return fmt.Errorf("allocation %q: cookie %d of task %q runs twice", a.GetJobId(), a.GetCookie(), a.GetTask())
		}
	}
	var failed int64
	for i, t := range o.record.GetTasks() {
		if o.record.GetSpec().GetTasks()[i].GetName() != t.GetName() || o.taskIndex[scheduling.TaskName(t.GetName())] != i {
			return fmt.Errorf("task %q: not at its place in the specification", t.GetName())
		}
		memory := verifyMemory(o.record.GetSpec().GetTasks()[i], t, &o.tasks[i])
		err := cmp.Or(o.verifyTask(i, running[i]), o.verifyAttempts(i), memory, o.verifyGang(i), o.tasks[i].verifyInput(o, t))
		if err != nil {
			return fmt.Errorf("task %q: %w", t.GetName(), err)
		}
		failed += CountedFailures(o.record.GetSpec().GetTasks()[i], t)
	}
	if failed != o.record.GetFailedJobCount() {
		return fmt.Errorf("%d failed jobs, but the tasks count %d", o.record.GetFailedJobCount(), failed)
	}
	return nil
}

// verifyTask checks that each cookie is pending, running, completed or given up.
func (o *operation) verifyTask(task int, running cookies.IntervalSet) error {
	t, sets := o.record.GetTasks()[task], &o.tasks[task]
	counters := counted(t.GetCounters())
	if err := counters.Check(); err != nil {
		return err
	}
	var b breach
	all, pending := sets.pending.all(), sets.pending.all()
	for _, part := range []cookies.IntervalSet{running, sets.completed, sets.givenUp} {
		for _, i := range part.Intervals() {
			b.when(all.AddInterval(i) != i.Len(), "a cookie of [%d, %d) is in more than one of the sets pending, running, completed and given up", i.Begin, i.End)
		}
	}
	want := cookiesOf(o.record.GetSpec().GetTasks()[task], counters.Total)
	b.when(!all.Equal(&want), "cookies %v, want %v", all.Intervals(), want.Intervals())
	b.when(want.Len() != counters.Total || pending.Len() != counters.Pending || running.Len() != counters.Running ||
		sets.completed.Len() != counters.Completed || sets.givenUp.Len() != counters.GivenUp,
		"%d pending, %d running, %d completed, %d given up cookies, but counted as %+v",
		pending.Len(), running.Len(), sets.completed.Len(), sets.givenUp.Len(), counters)
	b.when(len(t.GetPending())+len(t.GetCompleted())+len(t.GetGivenUp())+len(t.GetFailed())+len(t.GetSlices())+len(t.GetParts())+len(t.GetStatistics()) > 0,
		"its work is in the record itself")
	var aborted int64
	for _, n := range t.GetCounters().GetAbortedByReason() {
		aborted += n
	}
	b.when(aborted != counters.Aborted, "%d aborted attempts, but %d by reason", counters.Aborted, aborted)
	return b.err
}

// verifyAttempts checks that attempts are counted only for cookies that may run again, and that
// none of these cookies has used up its attempts.
func (o *operation) verifyAttempts(task int) error {
	t, w, spec := o.record.GetTasks()[task], &o.tasks[task], o.record.GetSpec().GetTasks()[task]
	all := cookiesOf(spec, t.GetCounters().GetTotal())
	over := func(cookie int32) bool {
		c := scheduling.Cookie(cookie)
		return w.completed.Contains(c) && !w.gang.exists() || w.givenUp.Contains(c) || !all.Contains(c)
	}
	for cookie := range t.GetAttempts() {
		if over(cookie) {
			return fmt.Errorf("attempts of cookie %d are counted, but it does not run again", cookie)
		}
	}
	most := spec.GetMaxAttempts()
	for cookie, n := range t.GetFailures() {
		if over(cookie) || n < 1 || most > 0 && n >= most || !o.standsAlone(task) {
			return fmt.Errorf("failures of cookie %d are counted as %d, but it does not run again or the number is invalid for max_attempts %d", cookie, n, most)
		}
	}
	pending := w.pending.all()
	for cookie := range w.failed.All() {
		if o.state.InProgress() || !pending.Contains(cookie) {
			return fmt.Errorf("cookie %d is kept as failed, but is not pending or the operation has not ended: %s", cookie, o.state)
		}
	}
	if w.givenUp.Len() > 0 && (most == 0 || o.record.GetGivenUpError() == nil) {
		return fmt.Errorf("cookies %v are given up, but max_attempts is %d and the error is %v", w.givenUp.Intervals(), most, o.record.GetGivenUpError())
	}
	return nil
}

// verifyProgress checks that what is kept of an operation's progress is counted as measure does it.
func (o *operation) verifyProgress() error {
	var b breach
	again := version{state: o.state, record: o.record, tasks: slices.Clone(o.tasks)}
	for i := range again.tasks {
		w := &again.tasks[i]
		fresh := statistics.NewSums(w.statistics.Set)
		b.when(w.read != w.readBytes(o.record.GetTasks()[i]) || w.statistics.Bytes() != fresh.Bytes(),
			"operation %q: task %d: input and statistics take %d and %d bytes, but are counted with %d and %d",
			o.id(), i, w.readBytes(o.record.GetTasks()[i]), fresh.Bytes(), w.read, w.statistics.Bytes())
	}
	again.measure()
	var live int64
	for _, a := range o.allocations {
		live += allocationBytes(a)
	}
	b.when(again.progress != o.progress || live != o.live, "operation %q: its progress takes %+v bytes and its jobs %d, but they are counted with %+v and %d",
		o.id(), again.progress, live, o.progress, o.live)
	return b.err
}

// verifyQuotas checks that what operations take is counted.
func (s verifier) verifyQuotas() error {
	var b breach
	counted := quotas{users: make(map[scheduling.User]usage)}
	for _, o := range s.order {
		ended := int64(0)
		if o.state.Terminal() {
			ended = o.weight
		}
		counted.add(o.user(), usage{o.weight, ended})
	}
	b.when(counted.whole != s.quotas.whole, "operations take %+v bytes, counted are %+v", counted.whole, s.quotas.whole)
	for user, u := range counted.users {
		b.when(s.quotas.users[user] != u, "operations of user %q take %+v bytes, counted are %+v", user, u, s.quotas.users[user])
	}
	b.when(len(counted.users) != len(s.quotas.users), "%d users have operations, counted are %d", len(counted.users), len(s.quotas.users))
	return b.err
}

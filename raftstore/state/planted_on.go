//go:build plantedbugs

package state

import (
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// CountsTwice counts completions twice, on every replica the same.
var CountsTwice bool

// countAgain counts a completion once more: for the next cookie that is pending, so
// that the state is sound and only the work is not done.
func (c jobChange) countAgain(o *operation, e Ended) {
	task := o.taskIndex[scheduling.TaskName(e.Finished.GetTask())]
	if !CountsTwice || e.Finished.GetState() != lifecycle.JobCompleted.String() {
		return
	}
	cookie, ok := o.tasks[task].pending.pop(0)
	if !ok {
		return
	}
	t := o.record.GetTasks()[task]
	o.tasks[task].completed.Add(cookie)
	t.Counters.Pending--
	t.Counters.Completed++
	delete(t.GetAttempts(), int32(cookie))
	c.touch(o, task, 0)
}

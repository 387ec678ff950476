//go:build plantedbugs

package state

import (
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// CountsTwice makes completions count twice, in the same way on every replica.
var CountsTwice bool

// Unchecked lets every replica carry out the commands of subjects without a look at their rights.
var Unchecked bool

// Drifts, if set, is called before each command. When it returns true, this replica's state becomes another
// one than that of the others.
var Drifts func() bool

// drift adds 1 to the number of pools so far, from which the next pool gets its id.
func drift(s *State) {
	if Drifts != nil && Drifts() {
		s.lastPool++
	}
}

func unchecked() bool { return Unchecked }

// countAgain counts a completion a second time, for the next pending cookie. The state stays
// consistent, but the work of that cookie is missing.
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

package allocation

import (
	"cmp"
	"slices"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// TaskID names a group of uniform jobs of an operation.
type TaskID struct {
	Name scheduling.TaskName
	// Group is the memory, in bytes, of jobs that got a reserve of their own because they ran out
	// of memory before. It is 0 for jobs that get the reserve learned by their task.
	Group int64
}

// Compare orders tasks by name, and groups of the same name from the largest to the smallest.
func (t TaskID) Compare(other TaskID) int {
	return cmp.Or(cmp.Compare(t.Name, other.Name), cmp.Compare(other.Group, t.Group))
}

// Task is a group of uniform jobs of an operation.
type Task struct {
	TaskID
	// Pending is how many jobs may start. It is never negative.
	Pending int64
	// PerJob is what one job needs.
	PerJob resource.Amounts
	// Closed tasks start no jobs, even if some are pending. The jobs of tasks that are Out are too
	// large for every node.
	Closed, Out bool
}

// Waits reports whether there are jobs that may start.
func (t *Task) Waits() bool { return t.Pending > 0 && !t.Closed && !t.Out }

// tasks are the tasks of an operation, sorted.
type tasks []Task

// first returns what the first job that may start needs.
func (ts tasks) first() resource.Amounts {
	for i := range ts {
		if t := &ts[i]; t.Waits() {
			return t.PerJob
		}
	}
	return resource.Amounts{}
}

// fitting returns the first task that has pending jobs, and whose jobs fit into room.
func (ts tasks) fitting(room resource.Amounts) *Task {
	for i := range ts {
		if t := &ts[i]; t.Waits() && t.PerJob.Fits(room) {
			return t
		}
	}
	return nil
}

// Tasks returns the tasks of an operation sorted by name, and groups of the same name from the
// largest to the smallest, because jobs that ran out of memory have already waited once. The slice
// belongs to the element and must not be changed.
func (e *Element) Tasks() []Task { return e.tasks }

// SetTask adds a task to an operation, or replaces the task with the same name and group.
func (e *Element) SetTask(t Task) {
	t.Pending = max(t.Pending, 0)
	i, found := slices.BinarySearchFunc(e.tasks, t.TaskID, byTaskID)
	if found {
		e.tasks[i] = t
	} else {
		e.tasks = slices.Insert(e.tasks, i, t)
	}
	e.place()
}

// AddPending adds n, which may be negative, to the pending jobs of a task that
// the operation has.
func (e *Element) AddPending(task TaskID, n int64) {
	if i, found := slices.BinarySearchFunc(e.tasks, task, byTaskID); found {
		e.tasks[i].Pending = max(e.tasks[i].Pending+n, 0)
		e.place()
	}
}

// DropTask removes a task from an operation.
func (e *Element) DropTask(task TaskID) {
	if i, found := slices.BinarySearchFunc(e.tasks, task, byTaskID); found {
		e.tasks = slices.Delete(e.tasks, i, i+1)
		e.place()
	}
}

// SetClosed closes or opens all groups of a task.
func (e *Element) SetClosed(name scheduling.TaskName, closed bool) {
	changed := false
	for i := range e.tasks {
		if t := &e.tasks[i]; t.Name == name && t.Closed != closed {
			t.Closed, changed = closed, true
		}
	}
	if changed {
		e.place()
	}
}

// CanOpen reports whether jobs of a task of an operation may start once it is open.
func CanOpen(e *Element, name scheduling.TaskName) bool {
	return e.enabled && slices.ContainsFunc(e.tasks, func(t Task) bool { return t.Name == name && t.Pending > 0 && !t.Out })
}

// SetOut sets whether jobs of a task are too large for every node.
func (e *Element) SetOut(task TaskID, out bool) {
	if i, found := slices.BinarySearchFunc(e.tasks, task, byTaskID); found && e.tasks[i].Out != out {
		e.tasks[i].Out = out
		e.place()
	}
}

func byTaskID(t Task, id TaskID) int { return t.Compare(id) }

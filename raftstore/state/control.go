package state

import (
	"fmt"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// controlled returns an operation if epoch is that of its controller.
func (c *change) controlled(what, id string, epoch uint64) (*operation, *refusal) {
	o, refused := c.find(what, id)
	if refused != nil {
		return nil, refused
	}
	if present := o.record.GetAssignment(); epoch != present.GetEpoch() || epoch == 0 {
		return nil, refuse(CodeStaleEpoch, "%s: proposed in epoch %d, but replica %q controls the operation in epoch %d",
			what, epoch, present.GetReplica(), present.GetEpoch())
	}
	return o, nil
}

// prepareOperation takes over that a controller has prepared an operation, or
// why it cannot.
func (c *change) prepareOperation(m *commandpb.PrepareOperation) *refusal {
	what := fmt.Sprintf("prepare operation %q", m.GetOperationId())
	o, refused := c.controlled(what, m.GetOperationId(), m.GetEpoch())
	if refused != nil {
		return refused
	}
	if o.state != lifecycle.Initializing {
		return refuse(CodeInvalidOperationState, "%s: it is %s, not initializing", what, o.state)
	}
	if m.GetError() != nil {
		c.fail(o, m.GetError(), NotePreparationFailed)
		return nil
	}
	c.advance(o, lifecycle.Preparing, "", nil)
	c.advance(o, lifecycle.Pending, "", nil)
	return nil
}

// defineTasks takes over the tasks of an operation: all of its jobs are pending
// and it runs.
func (c *change) defineTasks(m *commandpb.DefineTasks) *refusal {
	what := fmt.Sprintf("define tasks of operation %q", m.GetOperationId())
	o, refused := c.controlled(what, m.GetOperationId(), m.GetEpoch())
	if refused != nil {
		return refused
	}
	if o.state != lifecycle.Materializing {
		return refuse(CodeInvalidOperationState, "%s: it is %s, not materializing", what, o.state)
	}
	defined, refused := c.checkTasks(what, o.record.GetSpec(), m.GetTasks())
	if refused != nil {
		return refused
	}
	c.edit(o)
	o.tasks = make([]taskCookies, len(defined))
	o.taskIndex = make(map[scheduling.TaskName]int, len(defined))
	o.record.Tasks = make([]*statepb.Task, len(defined))
	for i, d := range defined {
		o.tasks[i].pending = cookies.Range(0, scheduling.Cookie(d.GetJobCount()))
		o.taskIndex[scheduling.TaskName(d.GetName())] = i
		o.record.Tasks[i] = &statepb.Task{
			Name:         d.GetName(),
			JobResources: d.GetJobResources(),
			Counters:     &statepb.JobCounters{Total: int64(d.GetJobCount()), Pending: int64(d.GetJobCount())},
			Totals:       &statepb.JobTotals{},
		}
		c.touch(o, i)
	}
	c.emit(TasksDefined{ID: o.id()})
	c.advance(o, lifecycle.Running, "", nil)
	c.tellDemand()
	return nil
}

// checkTasks returns the definitions in the order of the specification, which
// they must cover.
func (c *change) checkTasks(what string, spec *statepb.OperationSpec, tasks []*commandpb.TaskDefinition) ([]*commandpb.TaskDefinition, *refusal) {
	byName := make(map[string]*commandpb.TaskDefinition, len(tasks))
	var jobs int64
	for _, d := range tasks {
		if byName[d.GetName()] != nil {
			return nil, refuse(CodeInvalidCommand, "%s: task %q is defined twice", what, d.GetName())
		}
		if d.GetJobCount() < 1 {
			return nil, refuse(CodeInvalidCommand, "%s: task %q: job_count is %d, it must be at least 1", what, d.GetName(), d.GetJobCount())
		}
		if err := checkResources(d.GetJobResources()); err != nil {
			return nil, refuse(CodeInvalidCommand, "%s: task %q: %v", what, d.GetName(), err)
		}
		byName[d.GetName()] = d
		jobs += int64(d.GetJobCount())
	}
	ordered := make([]*commandpb.TaskDefinition, 0, len(tasks))
	for _, t := range spec.GetTasks() {
		d := byName[t.GetName()]
		if d == nil {
			return nil, refuse(CodeInvalidCommand, "%s: task %q of the specification is not defined", what, t.GetName())
		}
		ordered = append(ordered, d)
	}
	if len(ordered) != len(tasks) {
		return nil, refuse(CodeUnknownTask, "%s: %d tasks are defined, the specification has %d", what, len(tasks), len(ordered))
	}
	return ordered, c.checkJobs(what, jobs)
}

package state

import (
	"cmp"
	"slices"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// controlled returns an operation if epoch is that of its current controller.
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

// prepareOperation records that a controller has prepared an operation, or why it could not prepare
// it.
func (c operationChange) prepareOperation(what string, o *operation, m *commandpb.PrepareOperation) *refusal {
	if o.state != lifecycle.Initializing {
		return refuse(CodeInvalidOperationState, "%s: it is %s, not initializing", what, o.state)
	}
	if m.GetError() != nil {
		c.fail(o, m.GetError(), NotePreparationFailed)
		return nil
	}
	if refused := checkInput(what, o.record.GetSpec(), m.GetInput()); refused != nil {
		return refused
	}
	given := givenBytes(o.record.GetSpec(), m.GetInput())
	if refused := c.checkGrowth("prepare operation", o, given-o.given); refused != nil {
		c.fail(o, lacksRoom("input", refused), NotePreparationFailed)
		return nil
	}
	c.edit(o)
	o.input, o.given = m.GetInput(), given
	c.advance(o, lifecycle.Preparing, "", nil)
	c.advance(o, lifecycle.Pending, "", nil)
	if m.GetAdmit() && c.admitAtOnce(what, o) && len(m.GetTasks()) > 0 {
		if defined, refused := c.checkTasks(what, o, m.GetTasks()); refused == nil {
			c.run(o, defined)
		}
	}
	return nil
}

// admitAtOnce admits a pending operation to each of its trees that has room and in which no other
// operation of its pool waits. It reports whether there is such a tree. The operation is admitted
// to its other trees later, in the order in which operations started.
func (c operationChange) admitAtOnce(what string, o *operation) bool {
	if o.record.GetSuspended() {
		return false
	}
	var roomy []string
	for _, in := range o.record.GetTrees() {
		t := c.trees[scheduling.TreeName(in.GetTree())]
		if t.immediate[scheduling.PoolName(in.GetPool())].Waiting == 1 && admitRun(what, t.pools, "", t.total, o.record.GetSpec(), in) == nil {
			roomy = append(roomy, in.GetTree())
		}
	}
	if len(roomy) == 0 {
		return false
	}
	before := o.record.GetTrees()
	if refused := c.admitTrees(what, o, roomy); refused != nil {
		return false
	}
	c.advanceFrom(o, before, lifecycle.Materializing, "", nil)
	return true
}

// defineTasks sets the tasks of an operation: all of its jobs become pending and it runs.
func (c operationChange) defineTasks(what string, o *operation, m *commandpb.DefineTasks) *refusal {
	if o.state != lifecycle.Materializing {
		return refuse(CodeInvalidOperationState, "%s: it is %s, not materializing", what, o.state)
	}
	defined, refused := c.checkTasks(what, o, m.GetTasks())
	if refused != nil {
		return refused
	}
	c.edit(o)
	c.run(o, defined)
	return nil
}

// run starts an operation with the given tasks, which are in the order of its specification.
func (c operationChange) run(o *operation, defined []*commandpb.TaskDefinition) {
	if refused := c.checkGrowth("define tasks", o, readingBytes(defined)); refused != nil {
		c.fail(o, lacksRoom("jobs", refused), NotePreparationFailed)
		return
	}
	o.tasks = make([]work, len(defined))
	o.taskIndex = make(map[scheduling.TaskName]int, len(defined))
	o.record.Tasks = make([]*statepb.Task, len(defined))
	for i, d := range defined {
		o.taskIndex[scheduling.TaskName(d.GetName())] = i
		o.record.Tasks[i], o.tasks[i] = o.define(o.record.GetSpec().GetTasks()[i], d)
		c.touch(o, i, 0)
	}
	o.measure()
	c.setHeldBack(o, "")
	c.emit(TasksDefined{ID: o.id()})
	c.advance(o, lifecycle.Running, "", nil)
	c.tellDemand()
	if allEnded(o) {
		// There is no input to read.
		c.conclude(o)
	}
}

// define returns a task in its initial state.
func (o *operation) define(spec *statepb.TaskSpec, d *commandpb.TaskDefinition) (*statepb.Task, work) {
	all := cookiesOf(spec, int64(d.GetJobCount()))
	t := &statepb.Task{
		Name:         d.GetName(),
		JobResources: d.GetJobResources(),
		Counters:     &statepb.JobCounters{Total: all.Len(), Pending: all.Len()},
		Totals:       &statepb.JobTotals{},
	}
	if d.GetMemory() != nil {
		t.Memory = shallow(d.GetMemory())
	}
	w := work{gang: gang{size: gangSize(spec, d.GetJobCount())}}
	w.pending.learned = all
	if w.gang.exists() {
		w.gang.begin()
		t.Gang = &statepb.Gang{Incarnation: 1, Size: w.gang.size}
	}
	if o.reads() {
		t.Input = &statepb.InputProgress{BytesTotal: o.input.GetBytes()}
		w.slices = slices.Clone(d.GetSlices())
		w.read = w.readBytes(t)
	}
	return t, w
}

// checkTask returns an error if the definition of a task is invalid.
func (o *operation) checkTask(d *commandpb.TaskDefinition) error {
	var b breach
	b.add(checkResources(d.GetJobResources()))
	b.add(checkMemory(d.GetMemory()))
	jobs, slices := int(d.GetJobCount()), len(d.GetSlices())
	if !o.reads() {
		b.when(jobs < 1, "job_count is %d, it must be at least 1", jobs)
		b.when(slices > 0, "%d jobs have slices, but the operation reads nothing", slices)
		return b.err
	}
	b.when(jobs != slices, "job_count is %d, but %d jobs have slices", jobs, slices)
	var all []*statepb.Slice
	for cookie, s := range d.GetSlices() {
		b.when(len(s.GetSlices()) == 0, "cookie %d has nothing to read", cookie)
		all = append(all, s.GetSlices()...)
	}
	return cmp.Or(b.err, checkCover(o.input, all))
}

// checkTasks returns the definitions in the order of the specification. Every task of the
// specification must be defined.
func (c operationChange) checkTasks(what string, o *operation, tasks []*commandpb.TaskDefinition) ([]*commandpb.TaskDefinition, *refusal) {
	byName := make(map[string]*commandpb.TaskDefinition, len(tasks))
	var jobs int64
	for _, d := range tasks {
		if byName[d.GetName()] != nil {
			return nil, refuse(CodeInvalidCommand, "%s: task %q is defined twice", what, d.GetName())
		}
		if err := o.checkTask(d); err != nil {
			return nil, refuse(CodeInvalidCommand, "%s: task %q: %v", what, d.GetName(), err)
		}
		byName[d.GetName()] = d
		jobs += int64(d.GetJobCount())
	}
	ordered := make([]*commandpb.TaskDefinition, 0, len(tasks))
	for _, t := range o.record.GetSpec().GetTasks() {
		d := byName[t.GetName()]
		if d == nil {
			return nil, refuse(CodeInvalidCommand, "%s: task %q of the specification is not defined", what, t.GetName())
		}
		if size := gangSize(t, d.GetJobCount()); size > d.GetJobCount() {
			return nil, refuse(CodeInvalidCommand, "%s: task %q: gang of size %d, but only %d jobs", what, t.GetName(), size, d.GetJobCount())
		}
		ordered = append(ordered, d)
	}
	if len(ordered) != len(tasks) {
		return nil, refuse(CodeUnknownTask, "%s: %d tasks are defined, but the specification has %d", what, len(tasks), len(ordered))
	}
	return ordered, c.checkJobs(what, jobs)
}

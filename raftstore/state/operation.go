package state

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/bounds"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// operation is an operation, its place in the order of acceptance, and its allocations.
type operation struct {
	*version
	// sequence is the position in the order of acceptance.
	sequence uint64
	// ended is the position in the order of ends; 0 of an operation in progress.
	ended       uint64
	allocations map[scheduling.JobID]*statepb.Allocation
	// weight is what the operation is counted with in the quotas, in bytes.
	weight int64
	// live is what its allocations take, in bytes.
	live int64
	// denied says why none of its jobs may start: its user has lost the grant that they need. It is empty if
	// they may, and derived.
	denied string
}

// demand returns how many jobs of a group of a task are to be granted. It is not in the rules of grants, so that
// logs from before it lead to the state that they led to; the agent starts no job that is denied.
func (o *operation) demand(task int, group int64) int64 {
	if o.denied != "" {
		return 0
	}
	return o.offered(task, group)
}

// version is the record of an operation between two calls of Freeze.
type version struct {
	generation uint64
	state      lifecycle.State
	// shelved is the whole record, if this is a version without it: its record has only what headOf keeps, and
	// tasks and taskIndex are nil. jobs are then the ids of its finished jobs, a line each.
	shelved Shelved
	jobs    string
	// record holds neither the input nor the work of its tasks. The input is in input; the work of
	// each task is in tasks, at the same index.
	record *statepb.Operation
	tasks  []work
	// taskIndex maps the names of tasks to their index. It never changes once made.
	taskIndex map[scheduling.TaskName]int
	// input is the input of a map operation. It never changes once set.
	input *statepb.Input
	// history is what the events and the finished jobs of the record take.
	history history
	// given is what its specification and its input take, in bytes.
	given int64
	// progress is what is kept of its progress besides. It is derived from the record.
	progress progress
}

// key identifies the content of a version that a Frozen has. It holds no record.
func (v *version) key() any {
	return struct {
		id         scheduling.OperationID
		generation uint64
	}{v.id(), v.generation}
}

// id returns the operation's id.
func (v *version) id() scheduling.OperationID { return scheduling.OperationID(v.record.GetId()) }

// edit ensures that the operation's version is not shared with a Frozen, and has the operation measured
// and weighed at the end of the command. It must be called before any change of an operation.
func (s *State) edit(o *operation) {
	editJobs(s, o)
	s.edited[o] = true
}

// editJobs does what edit does, for a change of nothing but jobs and tasks, which are measured when
// they change.
func editJobs(s *State, o *operation) {
	take(s, o)
	if o.generation != s.generation {
		o.version = o.clone(s.generation)
	}
	reweigh(s, o)
}

// reweigh has an operation weighed at the end of the command.
func reweigh(s *State, o *operation) {
	if _, known := s.edited[o]; !known {
		made(&s.edited)[o] = false
	}
}

// clone copies the parts that change in place: the tasks and the lists. Everything else
// in a record is replaced when it changes.
func (v *version) clone(generation uint64) *version {
	record := shallow(v.record)
	record.Events = slices.Clone(record.GetEvents())
	record.FinishedJobs = slices.Clone(record.GetFinishedJobs())
	record.Waste = slices.Clone(record.GetWaste())
	record.Tasks = slices.Clone(record.GetTasks())
	tasks := slices.Clone(v.tasks)
	for i := range tasks {
		record.Tasks[i] = cloneTask(record.GetTasks()[i])
		tasks[i] = tasks[i].clone()
	}
	return &version{generation: generation, state: v.state, record: record, tasks: tasks, taskIndex: v.taskIndex, input: v.input, history: v.history, given: v.given, progress: v.progress}
}

// cloneTask copies the record of a task. What it has by cookie may be long. Its values are replaced, and never changed.
func cloneTask(t *statepb.Task) *statepb.Task {
	rest := shallow(t)
	rest.Attempts, rest.Failures, rest.Reserves = nil, nil, nil
	clone := proto.CloneOf(rest)
	clone.Attempts, clone.Failures, clone.Reserves = maps.Clone(t.GetAttempts()), maps.Clone(t.GetFailures()), maps.Clone(t.GetReserves())
	return clone
}

// asRecord returns the version as it is in a snapshot.
func (v *version) asRecord() *statepb.Record {
	return &statepb.Record{Record: &statepb.Record_Operation{Operation: v.full()}}
}

// full returns the record together with the data kept beside it, as in a snapshot.
func (v *version) full() *statepb.Operation {
	if v.shelved != nil {
		return fromShelf(v.shelved.Read(nil)).GetOperation()
	}
	record := shallow(v.record)
	record.Input = v.input
	record.Tasks = slices.Clone(record.GetTasks())
	for i, t := range record.GetTasks() {
		record.Tasks[i] = v.tasks[i].full(t)
	}
	return record
}

func intervalRecords(set *cookies.IntervalSet) []*statepb.Interval {
	intervals := set.Intervals()
	records := make([]*statepb.Interval, len(intervals))
	for i, r := range intervals {
		records[i] = &statepb.Interval{Begin: int32(r.Begin), End: int32(r.End)}
	}
	return records
}

// shallow copies a message, but not the values that its fields point to. The record of each ended
// job is copied in this way, because protobuf's own reflection would take ten times as long.
func shallow[M interface {
	*T
	proto.Message
}, T any](m M) M {
	copied := M(new(T))
	if m == nil {
		return copied
	}
	from, to := reflect.ValueOf(m).Elem(), reflect.ValueOf(copied).Elem()
	for i := range to.NumField() {
		// Unexported fields are internal to generated messages.
		if field := to.Field(i); field.CanSet() {
			field.Set(from.Field(i))
		}
	}
	return copied
}

// find returns the operation with an id, with its whole record.
func (s *State) find(what, id string) (*operation, *refusal) {
	if o, ok := s.operations[scheduling.OperationID(id)]; ok {
		take(s, o)
		return o, nil
	}
	return nil, refuse(CodeUnknownOperation,
		"%s: operation %q not found: never submitted, or no longer archived", what, id)
}

// advance moves an operation to another state. The caller has checked that the transition
// is legal.
func (c *change) advance(o *operation, to lifecycle.State, note string, attributes map[string]string) {
	c.advanceFrom(o, o.record.GetTrees(), to, note, attributes)
}

// advanceFrom advances an operation whose trees have been changed already. The parameter trees
// holds its trees before the change.
func (c *change) advanceFrom(o *operation, trees []*statepb.OperationTree, to lifecycle.State, note string, attributes map[string]string) {
	c.edit(o)
	from := o.state
	o.state = to
	o.record.State = to.String()
	if to.Finishing() {
		o.record.Suspended = false
		c.clearPending(o)
	}
	c.count(o, trees, from, to)
	c.note(o, note, attributes)
	if to.Terminal() {
		c.end(o)
	}
	c.emit(OperationChanged{ID: o.id(), From: from, To: to, Suspended: o.record.GetSuspended()})
	if to.Terminal() {
		c.trimArchive()
	}
}

// fail moves an operation to failing with this error.
func (c *change) fail(o *operation, why *statepb.Error, note string) {
	c.edit(o)
	o.record.Result = cutError(c.limits, why, bounds.Result)
	c.advance(o, lifecycle.Failing, note, nil)
}

// note appends an event to those of the operation. edit has been called.
func (c *change) note(o *operation, note string, attributes map[string]string) {
	o.record.LastIndex = c.index
	e := &statepb.OperationEvent{Time: c.timestamp(), State: o.state.String(), Note: note, Attributes: attributes, Index: c.index}
	if c.limits.GetByBytes() && eventBytes(e) > maxEventBytes {
		e.Attributes = bounds.CutAttributes(attributes, maxEventBytes)
	}
	o.record.Events = append(o.record.GetEvents(), e)
	o.history.events += eventBytes(e)
	c.trimHistory(o)
}

// trimHistory trims the events and finished jobs of an operation to the limits. edit has
// been called.
func (s *State) trimHistory(o *operation) {
	o.trimEvents(s.limits, eventsBudget(s, o))
	o.trimFinished(s.limits, jobsBudget(s, o))
	weigh(s, o)
}

// end archives an operation that has just ended.
func (c *change) end(o *operation) {
	o.record.FinishTime, o.record.Stop = c.timestamp(), nil
	o.record.Spec = withoutSecrets(o.record.GetSpec())
	o.input, o.given = nil, givenBytes(o.record.GetSpec(), nil)
	for i, t := range o.record.GetTasks() {
		o.tasks[i].forget(t)
	}
	c.archive = append(c.archive, o.record.GetId())
	o.ended = c.ends()
	o.measure()
	c.quotas.archive(o)
	weigh(c.State, o)
	keepRecent(c.State, o)
	if i := len(c.archive) - 1 - keptHistograms; i >= 0 {
		c.condense(c.operations[scheduling.OperationID(c.archive[i])])
	}
}

// trimArchive drops the operations that ended first until the archive is within its limit.
func (c *change) trimArchive() {
	var dropped []*operation
	for len(c.archive) > int(c.limits.GetArchivedOperations()) {
		o := c.operations[scheduling.OperationID(c.archive[0])]
		c.archive = c.archive[1:]
		dropped = append(dropped, o)
		c.emit(OperationArchived{ID: o.id()})
	}
	c.forget(dropped...)
}

// forget removes ended operations, their aliases and their mutation ids.
func (s *State) forget(dropped ...*operation) {
	for _, o := range dropped {
		delete(s.operations, o.id())
		s.quotas.forget(o)
		if alias := o.record.GetSpec().GetAlias(); s.aliases[alias] == o.id() {
			delete(s.aliases, alias)
		}
		if o.record.GetMutationId() != "" {
			delete(s.mutations, mutationOf(o.record))
		}
	}
	if len(dropped) > 1 {
		// A leader may set a limit that is lower by many.
		s.order = slices.DeleteFunc(s.order, func(o *operation) bool { return s.operations[o.id()] != o })
		return
	}
	for _, o := range dropped {
		if i, ok := slices.BinarySearchFunc(s.order, o.sequence, bySequence); ok {
			s.order = slices.Delete(s.order, i, i+1)
		}
	}
}

// insert adds an operation at the end of the order of acceptance.
func (s *State) insert(v *version) *operation {
	s.accepted++
	o := &operation{version: v, sequence: s.accepted, allocations: make(map[scheduling.JobID]*statepb.Allocation)}
	s.operations[o.id()] = o
	s.order = append(s.order, o)
	if alias := o.record.GetSpec().GetAlias(); alias != "" {
		s.aliases[alias] = o.id()
	}
	if o.record.GetMutationId() != "" {
		s.mutations[mutationOf(o.record)] = o.id()
	}
	return o
}

// ends returns the position of an end in the order of ends: the next one.
func (s *State) ends() uint64 {
	s.ended++
	return s.ended
}

func bySequence(o *operation, sequence uint64) int { return cmp.Compare(o.sequence, sequence) }

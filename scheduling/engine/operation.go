package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Operation describes an operation to the engine.
type Operation struct {
	ID scheduling.OperationID
	// Pool is the pool of the operation, which the engine must know.
	Pool scheduling.PoolName
	// Weight is the weight of the operation in its pool, relative to its siblings. It overrides the
	// one in Options.
	Weight float64
	// Options are the options that were set for the operation in this tree.
	Options pooltree.OperationOptions
	// Started orders equally satisfied operations: the one that started earlier is first. Started
	// does not change.
	Started time.Time
	// Enabled operations run, and so may start jobs.
	Enabled bool
	// Suspended operations may not start jobs, enabled or not.
	Suspended bool
	// Gang operations are useful only as a whole.
	Gang bool
	// Abrupt are the tasks whose jobs cannot be asked to leave: they end at once if preempted.
	// Only estimates use it.
	Abrupt []scheduling.TaskName
	// Spread are the tasks whose jobs go to different nodes where there is room.
	Spread []scheduling.TaskName
	// Kind is what operations have in common whose jobs are likely to run as long as each other's. If it
	// is empty, nothing is known. Only estimates use it.
	Kind string
}

// With returns the operation with these options, and the weight that they set.
func (op Operation) With(o pooltree.OperationOptions) Operation {
	op.Weight, op.Options = or(o.Weight, pooltree.DefaultWeight), o
	return op
}

// operation is an operation of the tree.
type operation struct {
	Operation
	element
	pool *pool
	// tasks are sorted in the same way as the tasks of order.
	tasks []task
	// held are allocations and starts in flight, in any order. leavers counts the allocations that have been
	// told to leave.
	held    []*holding
	leavers int
	claims  []*claim
	// gangs are the gangs of tasks of the operation whose jobs start only together.
	gangs []*gang
	// ended is the last claim that ended. lastStart is when a job was last started.
	ended     EndedClaim
	lastStart time.Time
	// groups are the allocations of the operation that are not leaving.
	groups preemption.Groups
	// removed operations stay until they hold nothing.
	removed bool
	// effective are the settings in force.
	effective pooltree.EffectiveOperation
	// least is the smallest amount of each resource that any waiting job needs, as a share, as of
	// the last update. It is nil unless the tree tolerates deficits smaller than such a job.
	least *resource.Vector
	// fromStarving says that jobs of the operation may be preempted while it starves. starver is
	// the element whose starvation lets the operation preempt others.
	fromStarving bool
	starver      starver
	stage        preemption.Stage
	// discount is what the candidates of the operation hold on a node, in the search numbered
	// round.
	discount resource.Amounts
	round    uint64
	// settled is the usage that the operation had left after its last graceful preemption.
	// settledIn is the age of that preemption; 0 if there was none.
	settled   resource.Amounts
	settledIn uint64
	// wanted is how many jobs the operation asked for at the last update, including running ones.
	wanted int64
	// takings say from which operations this one took resources. visit is the last traversal of
	// takings that reached this operation.
	takings []taking
	visit   uint64
	// spared counts, by block, the allocations of the operation that were kept from being victims.
	spared [preemption.BlockedByRate + 1]uint64
	// packing remembers nodes that fit jobs of the operation.
	packing allocation.Packing
	// portless says when a node was last found to have too few free ports for a job of a task.
	portless map[portless]time.Time
	// bestAt is when the best allocation share was last computed.
	bestAt time.Time
	took   took
	// came says that the history has the operation.
	came bool
	// begun says that it has started jobs. told has the estimates since the last start.
	begun bool
	told  []explain.Told
}

// task is the committed side of an allocation.Task, whose pending jobs are the effective ones.
type task struct {
	allocation.TaskID
	// pending is the number of pending jobs in the replicated state.
	pending int64
	// inFlight is the number of pending jobs that are about to start. claimed is the number of
	// pending jobs for which resources are held.
	inFlight, claimed int64
	perJob            resource.Amounts
	// fits says that some empty node that takes jobs of the task could hold one. hopes says that an
	// awaited node could. Both are as of layout. If layout is 0, they have to be computed. out says
	// that, as of the last update, no node could hold a job, or limits are too low: the jobs then
	// count as no demand.
	fits, hopes bool
	layout      uint64
	out         bool
	// passed is when, since the last start, a node that has jobs of the task was first passed over;
	// zero if none was.
	passed time.Time
}

// AddOperation adds an operation without demand.
func (e *Engine) AddOperation(op Operation) error {
	if e.tree.operations[op.ID] != nil {
		return fmt.Errorf("add operation %s: %w", op.ID, ErrExists)
	}
	if err := e.tree.validate(op); err != nil {
		return fmt.Errorf("add operation %s: %w", op.ID, err)
	}
	added := &operation{
		Operation: op, element: newElement(fairshare.NewOperation(string(op.ID)), allocation.NewOperation(string(op.ID), op.Started.UnixNano())),
	}
	added.order.SetOwner(added)
	added.order.SetEnabled(added.active())
	added.attach(e.tree.pools[op.Pool])
	e.tree.settle(added)
	e.tree.operations[op.ID] = added
	e.moment.changed()
	return nil
}

// SetOperation replaces the description of an operation, except Started.
func (e *Engine) SetOperation(op Operation) error {
	known, err := e.tree.operation(op.ID)
	if err == nil {
		err = e.tree.validate(op)
	}
	if err != nil {
		return fmt.Errorf("set operation %s: %w", op.ID, err)
	}
	op.Started = known.Started
	same := reflect.DeepEqual(known.Operation, op)
	if !known.active() {
		// Time below its share does not count while the operation was not active.
		known.clock = preemption.Clock{}
	}
	if !same {
		// Estimates held only for the operation as it was.
		e.tree.history.forgets(known)
	}
	known.Operation = op
	known.order.SetEnabled(known.active())
	if !known.active() {
		e.claims.endAllClaims(known)
	}
	if to := e.tree.pools[op.Pool]; to != known.pool {
		e.reservations.unreserve(known.order)
		known.detach()
		known.attach(to)
	}
	e.tree.settle(known)
	if !same {
		e.moment.changed()
	}
	return nil
}

// SetGang sets whether an operation is useful only as a whole.
func (e *Engine) SetGang(id scheduling.OperationID, gang bool) error {
	op, err := e.tree.operation(id)
	if err != nil {
		return fmt.Errorf("set gang %s: %w", id, err)
	}
	op.Gang, op.share.Gang = gang, gang
	e.moment.stale = true
	return nil
}

// RemoveOperation removes an operation. While it holds allocations it stays and
// starts no jobs.
func (e *Engine) RemoveOperation(id scheduling.OperationID) error {
	op, err := e.tree.operation(id)
	if err != nil {
		return fmt.Errorf("remove operation %s: %w", id, err)
	}
	op.removed = true
	e.tree.history.forgets(op)
	op.order.SetEnabled(false)
	e.claims.dropGangs(op)
	e.claims.endAllClaims(op)
	e.reservations.unreserve(op.order)
	e.moment.changed()
	e.tree.forget(op)
	return nil
}

// SetDemand sets how many jobs of a group of a task are pending in the replicated state, including
// those in flight, and what each job needs. The package comment says what the engine subtracts.
// Jobs of group 0 get the memory that their task has learned to need. Jobs of another group get as
// many bytes as the number of the group.
func (e *Engine) SetDemand(id scheduling.OperationID, name scheduling.TaskName, group, pending int64, perJob resource.Amounts) error {
	op, err := e.tree.operation(id)
	switch {
	case err != nil:
	case pending < 0:
		err = fmt.Errorf("negative number %d of pending jobs", pending)
	case group != 0 && group != perJob.Memory:
		err = fmt.Errorf("the group is for jobs of %d bytes of memory, but these need %d", group, perJob.Memory)
	case perJob.IsZero():
		err = errors.New("a job must need some resource")
	default:
		err = perJob.Validate()
	}
	if err != nil {
		return fmt.Errorf("set demand of task %q of operation %s: %w", name, id, err)
	}
	t := op.task(allocation.TaskID{Name: name, Group: group})
	if pending > t.pending {
		t.passed = time.Time{}
	}
	t.pending, t.perJob, t.layout = pending, perJob, 0
	e.tree.history.comes(op)
	e.claims.endClaims(op, t, max(pending-t.inFlight, 0))
	e.claims.resize(op, t)
	if g := op.gang(name); g != nil {
		g.layout = 0
	}
	op.order.SetTask(allocation.Task{TaskID: t.TaskID, Pending: t.effective(), PerJob: perJob, Closed: e.gangs.closed(op, name), Out: t.out})
	op.forgetTask(t)
	return nil
}

func (tr *tree) validate(op Operation) error {
	if tr.pools[op.Pool] == nil {
		return fmt.Errorf("pool %q: %w", op.Pool, ErrUnknown)
	}
	if err := op.Options.Validate(); err != nil {
		return err
	}
	if l := op.Options.ResourceLimits; l != nil {
		if err := l.Amounts.Validate(); err != nil {
			return fmt.Errorf("resource_limits: %w", err)
		}
	}
	return pooltree.ValidateWeight(op.Weight)
}

// operation returns an operation that is not removed.
func (tr *tree) operation(id scheduling.OperationID) (*operation, error) {
	op := tr.operations[id]
	if op == nil || op.removed {
		return nil, fmt.Errorf("operation: %w", ErrUnknown)
	}
	return op, nil
}

// forget drops a removed operation that holds nothing.
func (tr *tree) forget(op *operation) {
	if op.removed && len(op.held) == 0 {
		tr.history.leaves(op)
		op.detach()
		tr.cluster.dropFilter(op.filter)
		delete(tr.operations, op.ID)
		tr.moment.stale = true
	}
}

func (op *operation) active() bool { return op.Enabled && !op.Suspended && !op.removed }

// settle applies the settings in force to an operation in its pool.
func (tr *tree) settle(op *operation) {
	for _, g := range op.gangs {
		g.layout = 0
	}
	for i := range op.tasks {
		op.tasks[i].layout = 0
	}
	op.effective = op.Options.Effective(op.pool.effective)
	op.filter = tr.cluster.changeFilter(op.filter, op.effective.TagFilter)
	op.order.SetFilter(op.filter)
	op.order.SetGuarded(op.effective.Graceful || op.effective.Packing.Enable || len(op.Spread) > 0 || len(op.portless) > 0)
	s := op.share
	s.Rank, s.Weight, s.Gang = op.Started.UnixNano(), op.Weight, op.Gang
	s.MaxShareRatio = or(op.Options.MaxShareRatio, fairshare.NoShareRatio)
	op.bound(op.effective.Limits, keptCeiling(s, op.ceiling))
}

// rank orders elements that are equally satisfied. In a FIFO pool it is their place. Elsewhere
// operations are ordered by their start, and pools by name.
func rank(s *fairshare.Element) int64 {
	switch {
	case s.EffectiveFIFOIndex >= 0:
		return int64(s.EffectiveFIFOIndex)
	case s.FIFOIndex >= 0:
		return int64(s.FIFOIndex)
	default:
		return s.Rank
	}
}

// demand returns what the operation uses and could use, and the number of jobs that it could start.
// The demand is no more than usage unless the operation may start jobs (F.2), and no more than the
// limits if limits bound demand. What leaving jobs hold counts, because it will be demanded again.
// A gang that is out of reach, and jobs that no node can hold, do not count.
func (op *operation) demand() (demand resource.Amounts, pending int64) {
	usage := op.order.Usage()
	if !op.active() {
		return usage, 0
	}
	demand = usage.Add(op.order.Leaving())
	for i := range op.tasks {
		t := &op.tasks[i]
		if t.out || op.out(t.Name) {
			continue
		}
		n := t.effective()
		demand = demand.Add(t.perJob.Times(n))
		pending += n
	}
	if op.effective.LimitsBoundDemand {
		demand = demand.Min(op.effective.Limits).Max(usage)
	}
	return demand, pending
}

// task returns the task with this id. If there is none, it adds the task. The pointer is valid
// until tasks are added or removed.
func (op *operation) task(id allocation.TaskID) *task {
	i, found := slices.BinarySearchFunc(op.tasks, id, func(t task, id allocation.TaskID) int { return t.Compare(id) })
	if !found {
		op.tasks = slices.Insert(op.tasks, i, task{TaskID: id})
	}
	return &op.tasks[i]
}

// forgetTask drops a group of a task that has no jobs to start, since there may be as many groups
// as jobs.
func (op *operation) forgetTask(t *task) {
	if id := t.TaskID; id.Group != 0 && t.pending == 0 && t.inFlight == 0 && t.claimed == 0 {
		op.tasks = slices.DeleteFunc(op.tasks, func(t task) bool { return t.TaskID == id })
		op.order.DropTask(id)
	}
}

// jobs returns how many jobs of an operation are to start.
func (op *operation) jobs() (n int64) {
	for i := range op.tasks {
		n += op.tasks[i].effective()
	}
	return n
}

// waiting returns how many jobs of a task may start.
func (op *operation) waiting(id allocation.TaskID) int64 {
	i, found := slices.BinarySearchFunc(op.tasks, id, func(t task, id allocation.TaskID) int { return t.Compare(id) })
	if !found {
		return 0
	}
	return op.tasks[i].effective()
}

func (t *task) effective() int64 { return max(t.pending-t.inFlight-t.claimed, 0) }

func (op *operation) attach(p *pool) {
	op.pool = p
	p.operations = append(p.operations, op)
	op.element.attach(&p.element)
}

func (op *operation) detach() {
	op.pool.operations = without(op.pool.operations, op)
	op.element.detach()
	op.pool = nil
}

package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// Gang says that the jobs of a task are useful only together (J.5).
type Gang struct {
	// Size is how many of the jobs have to run at the same time; 0 if each is useful by itself.
	Size int64
	// Completed is how many of the jobs have completed and need not run again.
	Completed int64
}

// gang is a task whose jobs start only together. While some are missing, the task is closed, and
// none of its jobs starts by itself. One gang at a time, in the order of scheduling, gathers, and
// its task is open. Wherever it is the gang's turn, on a node that has room or could have it by
// preemption, a claim is made for a job instead of a start. Once each missing job has a claim that
// can be met, all start in one plan. If this does not happen in time, the claims end, and other
// gangs come first.
//
// So two gangs can never each hold what the other one needs.
type gang struct {
	Gang
	operation *operation
	task      scheduling.TaskName
	// held is how many allocations and starts in flight the task has.
	held int64
	// claims is the number of jobs for which room is held. until is when the gathering ends, unless
	// the gang waits for jobs that leave for it.
	claims int64
	until  time.Time
	// misses is how often the gang has failed to gather since it last started. again is when it may
	// next gather.
	misses int
	again  time.Time
	// vain says that the gang failed to gather in the age vainIn. In this age, no job is preempted
	// for the gang again.
	vain   bool
	vainIn uint64
	// started is the number of the heartbeat in which the gang last started.
	started uint64
	// lostIn is the last selection of victims by which the gang would be lost. lostBy is the rule
	// that allows this.
	lostIn uint64
	lostBy explain.Rule
	// fit says how many of the missing jobs fit on all nodes that take jobs, if these nodes are
	// empty. hope is the same with awaited nodes included. Both are as of layout. If layout is 0,
	// they have to be computed. out says that, as of the last update, the gang could not start even
	// in an empty tree.
	fit, hope allocation.Fit
	layout    uint64
	out       bool
}

// gangs are the gangs of all operations, and the one that gathers.
type gangs struct {
	*tree

	all []*gang
	// gathering is the gang for which room is held; nil if there is none.
	gathering *gang
	// beats counts heartbeats.
	beats uint64
}

const (
	// maxGangPause is the upper bound of the pause of a gang that failed to gather, in multiples of
	// gang_timeout.
	maxGangPause = 8
	// refusedGangPause is how long a gang pauses after a start of its jobs was refused.
	refusedGangPause = time.Second
)

// SetTaskGang sets whether the jobs of a task start only together. Call it before SetDemand for the
// task.
func (e *Engine) SetTaskGang(id scheduling.OperationID, task scheduling.TaskName, of Gang) error {
	op, err := e.tree.operation(id)
	if err == nil && (of.Size < 0 || of.Completed < 0) {
		err = fmt.Errorf("the size %d and the completed jobs %d must not be negative", of.Size, of.Completed)
	}
	if err != nil {
		return fmt.Errorf("set gang of task %q of operation %s: %w", task, id, err)
	}
	g := op.gang(task)
	switch {
	case g == nil && of.Size == 0:
		return nil
	case g == nil:
		g = &gang{operation: op, task: task, held: op.heldBy(task)}
		op.gangs = append(op.gangs, g)
		e.gangs.all = append(e.gangs.all, g)
	}
	if g.Gang != of {
		g.Gang, g.layout = of, 0
	}
	e.gangs.openOrClose(g)
	e.claims.gatherAgain(g)
	return nil
}

// heldBy counts the allocations and starts in flight of a task that no gang counts yet.
func (op *operation) heldBy(task scheduling.TaskName) (n int64) {
	for _, h := range op.held {
		if h.task.Name == task {
			n++
		}
	}
	return n
}

// gang returns the gang of a task, or nil.
func (op *operation) gang(task scheduling.TaskName) *gang {
	for _, g := range op.gangs {
		if g.task == task {
			return g
		}
	}
	return nil
}

// missing returns the gang of a task if some of its jobs have to start together, else nil.
func (op *operation) missing(task scheduling.TaskName) *gang {
	if g := op.gang(task); g != nil && g.missing() > 0 {
		return g
	}
	return nil
}

// missing returns how many jobs have to start together.
func (g *gang) missing() int64 { return max(g.Size-g.Completed-g.held, 0) }

// waiting returns how many jobs are to start, including the jobs for which room is held.
func (g *gang) waiting() (n int64) {
	for i := range g.operation.tasks {
		if t := &g.operation.tasks[i]; t.Name == g.task {
			n += t.effective() + t.claimed
		}
	}
	return n
}

// needs calls the function `with` for each group of missing jobs, in the order of choice. It passes
// the resources that one job needs, and the number of the jobs.
func (g *gang) needs(with func(perJob resource.Amounts, n int64)) {
	missing := g.missing()
	for i := range g.operation.tasks {
		t := &g.operation.tasks[i]
		if n := min(t.effective()+t.claimed, missing); t.Name == g.task && n > 0 {
			missing -= n
			with(t.perJob, n)
		}
	}
}

// together returns what all missing jobs need together.
func (g *gang) together() (sum resource.Amounts) {
	g.needs(func(perJob resource.Amounts, n int64) { sum = sum.Add(perJob.Times(n)) })
	return sum
}

// rest returns the needs of the missing jobs for which no room is held yet. The result one is what
// the largest of these jobs needs. The result others is what all the others need together.
func (g *gang) rest() (others, one resource.Amounts) {
	left := g.missing() - g.claims
	for i := range g.operation.tasks {
		t := &g.operation.tasks[i]
		if n := min(t.effective(), left); t.Name == g.task && n > 0 {
			left -= n
			others, one = others.Add(t.perJob.Times(n)), one.Max(t.perJob)
		}
	}
	return others.Sub(one), one
}

// holds adds n, which may be negative, to the number of allocations and starts in flight of a
// task's gang.
func (cs *claims) holds(op *operation, task scheduling.TaskName, n int64) {
	if g := op.gang(task); g != nil {
		g.held += n
		g.layout = 0
		cs.gangs.openOrClose(g)
		cs.gatherAgain(g)
	}
}

// closed reports whether no job of a task may start now.
func (gs *gangs) closed(op *operation, task scheduling.TaskName) bool {
	g := op.gang(task)
	switch {
	case g == nil:
		return false
	case g.missing() == 0:
		// A job beyond the gang does not start in the same heartbeat: it is not part of the
		// gang's proposal.
		return g.started == gs.beats
	default:
		return g != gs.gathering || g.claims >= g.missing() || !gs.moment.now.Before(g.until)
	}
}

// openOrClose updates whether jobs of a gang's task may start.
func (gs *gangs) openOrClose(g *gang) {
	g.operation.order.SetClosed(g.task, gs.closed(g.operation, g.task))
}

// dropGangs removes the gangs of an operation.
func (cs *claims) dropGangs(op *operation) {
	for _, g := range op.gangs {
		cs.endGathering(g, ClaimUnwanted)
		cs.gangs.all = without(cs.gangs.all, g)
	}
	op.gangs = nil
}

// view describes the gang of a task for a Snapshot.
func (gs *gangs) view(op *operation, task scheduling.TaskName) explain.Gang {
	g := op.gang(task)
	if g == nil {
		return explain.Gang{}
	}
	v := explain.Gang{Size: g.Size, Completed: g.Completed, Held: g.held, Missing: g.missing(), Gathered: g.claims}
	if gs.gathering == g {
		v.Until = g.until
	}
	return v
}

package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// ask is what only the engine knows of why jobs of an operation wait, besides the nodes.
// It shares nothing with the engine: op is for the engine alone.
type ask struct {
	op *operation
	id scheduling.OperationID
	// started orders operations that wait for the same.
	started time.Time
	// held are the facts about what is held for its jobs, the earliest first.
	held []Fact
	// state is the verdict where nodes do not matter; empty: they do.
	state Fact
	// pending are the jobs that are to start.
	pending int64
	tasks   []taskAsk
	gates   []gate
	// unpacked says that nodes were passed over for others that fit better.
	unpacked bool
	status   preemption.Status
	// starves is the name of who starves, so that others leave for the operation; empty:
	// nobody. since is when that began to be below its fair share, stage the one in which
	// victims are looked for, vain what was found there in vain.
	starves string
	since   time.Time
	stage   preemption.Stage
	vain    struct {
		Count uint64
		Last  allocation.Fact
	}
	backoff time.Duration
	// resource is the one of which its fair share is greatest.
	resource     resource.Kind
	usage, share float64
	// packed says that as many of its jobs run as fit on the nodes.
	packed bool
	// hopes are when others leave for it at the soonest, by stage.
	hopes [stageCount]hope
	// gathering is that of the gang whose jobs all have room.
	gathering *gathering
	// rivals are those that have their turn before it where others have to leave.
	rivals int
}

// taskAsk is a group of a task with jobs to start.
type taskAsk struct {
	allocation.TaskID
	pending int64
	perJob  resource.Amounts
	view    GangView
	// gang is what keeps jobs from starting that have to start together, together what
	// they all need.
	gang     *Fact
	together resource.Amounts
	// gathering is that of the gang, if only room keeps it from starting.
	gathering *gathering
	limit     *Fact
	withheld  bool
	// awaits says that all nodes that hold a job are about to be heard again.
	awaits bool
}

// hope is the prospect of others leaving for an operation: by whose starvation, and when.
type hope struct {
	by starver
	at time.Time
}

// ask takes note of an operation.
func (e *Engine) ask(op *operation, now time.Time) ask {
	a := ask{op: op, id: op.ID, started: op.Started, status: op.hunger.Status, backoff: e.settings.Starvation.Backoff, held: claimFacts(op)}
	flying := int64(0)
	for i := range op.tasks {
		a.pending += op.tasks[i].effective()
		flying += op.tasks[i].inFlight
	}
	switch {
	case op.Suspended:
		a.state = Fact{Code: FactSuspended, Text: "the operation is suspended: its jobs do not start until it is resumed"}
	case !op.active():
		a.state = Fact{Code: FactNotRunning, Text: "the operation may not start jobs in this tree: it does not run here"}
	case a.pending > 0:
		e.askTasks(&a, now)
	case e.gathering != nil && e.gathering.operation == op:
		a.state = e.gangCause(e.gathering, now)
		if a.state.Code == FactGang && e.gathering.claims >= e.gathering.missing() {
			a.gathering = e.gatheringOf(e.gathering, now)
		}
	case flying > 0:
		a.state = Fact{Code: FactStarting, Count: flying, Text: "being started: " + counted(flying, "job")}
	case len(op.claims) > 0:
		a.state, a.held = a.held[0], a.held[1:]
	default:
		a.state = Fact{Code: FactNoJobs, Text: "none of its jobs waits: all run or have ended"}
	}
	return a
}

// askTasks takes note of those of its tasks that have jobs to start, and of what may let
// them.
func (e *Engine) askTasks(a *ask, now time.Time) {
	op := a.op
	a.gates = op.gates()
	a.unpacked = op.effective.Packing.Enable && op.order.Facts()[allocation.Unpacked].Count > 0
	a.resource = greatest(op.share)
	a.usage, a.share = resource.Share(op.order.Usage(), e.total)[a.resource], op.share.FairShare[a.resource]
	a.packed = (packed(op.share, a.resource) || a.share >= 1-resource.LargeEpsilon) && a.usage >= a.share-resource.LargeEpsilon
	if op.starver != (starver{}) {
		a.starves, a.since, a.stage, a.vain = "it", op.hunger.Since, op.stage, op.order.Facts()[allocation.NoVictims]
		if p := op.starver.pool; p != nil {
			a.starves = "pool " + quote(p.name)
		}
	}
	a.hopes = e.hopes(op)
	for stage := range e.starving {
		for _, other := range e.starving[stage] {
			if other != op && other.active() && other.order.Before(op.order) {
				a.rivals++
			}
		}
	}
	for i := range op.tasks {
		t := &op.tasks[i]
		if t.effective() == 0 {
			continue
		}
		out := taskAsk{TaskID: t.TaskID, pending: t.effective(), perJob: t.perJob, view: e.gangView(op, t.Name), withheld: e.withheld(op, t.perJob), awaits: e.waitsForNodes(op, t)}
		if g := op.missing(t.Name); g != nil {
			f := e.gangCause(g, now)
			out.gang, out.together = &f, g.together()
			if f.Code == FactGang || f.Code == FactGangTurn || f.Code == FactGangPause {
				out.gathering = e.gatheringOf(g, now)
			}
		}
		if f, limited := limitOf(op, t.perJob); limited {
			out.limit = &f
		}
		a.tasks = append(a.tasks, out)
	}
}

// hopes are when an operation starves, or a pool above it, by which it may preempt others.
func (e *Engine) hopes(op *operation) (all [stageCount]hope) {
	sooner := func(stage preemption.Stage, by starver, at time.Time) {
		if known := all[stage].at; !at.IsZero() && (known.IsZero() || at.Before(known)) {
			all[stage] = hope{by, at}
		}
	}
	from := func(by starver, c preemption.Clock, t preemption.Timeouts) {
		starving, aggressively := c.Starves(t)
		sooner(preemption.NormalStage, by, starving)
		sooner(preemption.AggressiveStage, by, aggressively)
	}
	from(starver{operation: op}, op.hunger, e.timeoutsOf(op))
	if e.settings.Preemption.PriorityScope == pooltree.OperationOnly {
		return all
	}
	for p := op.pool; p.parent != nil; p = p.parent {
		from(starver{pool: p}, p.hunger, timeouts(p.effective.Starvation, p.effective.CanStarve))
	}
	return all
}

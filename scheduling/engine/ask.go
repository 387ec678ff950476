package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
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
	// below says that it is below its fair share, or its min share.
	below bool
	// starves is the name of who starves, so that others leave for the operation; empty:
	// nobody. since is when that began to be below its share, stage the one in which
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
	// behind is why what is freed is not for it: those before it in a FIFO pool, or nothing
	// that it has a share in; nil: neither.
	behind *Fact
	// hopes are when others leave for it at the soonest, by stage; outrun is why nobody will
	// though its pool starves.
	hopes  [stageCount]hope
	outrun string
	// gathering is that of the gang whose jobs all have room.
	gathering *gathering
}

// taskAsk is a group of a task with jobs to start.
type taskAsk struct {
	allocation.TaskID
	pending int64
	perJob  resource.Amounts
	view    GangView
	// gang is what keeps jobs from starting that have to start together.
	gang *Fact
	// gathering is that of the gang, if only room keeps it from starting.
	gathering *gathering
	limit     *Fact
	withheld  bool
	// awaits says that all nodes that hold a job are about to be heard again.
	awaits bool
}

// hope is the prospect of others leaving for an operation: by whose starvation, when, and
// for how many jobs of others that come before it others leave first.
type hope struct {
	by     starver
	at     time.Time
	rivals int
}

// ask takes note of an operation.
func (iq *inquiries) ask(op *operation, now time.Time) ask {
	a := ask{op: op, id: op.ID, started: op.Started, below: !op.clock.From().IsZero(), backoff: iq.moment.settings.Backoff, held: claimFacts(op)}
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
		iq.askTasks(&a, now)
	case iq.gangs.gathering != nil && iq.gangs.gathering.operation == op:
		a.state = iq.gangCause(iq.gangs.gathering, now)
		if a.state.Code == FactGang && iq.gangs.gathering.claims >= iq.gangs.gathering.missing() {
			a.gathering = iq.gatheringOf(iq.gangs.gathering, now)
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
func (iq *inquiries) askTasks(a *ask, now time.Time) {
	op := a.op
	a.gates = op.gates()
	a.unpacked = op.effective.Packing.Enable && op.order.Facts()[allocation.Unpacked].Count > 0
	a.resource = greatest(op.share)
	a.usage, a.share = resource.Share(op.order.Usage(), iq.cluster.total)[a.resource], op.share.FairShare[a.resource]
	a.packed = (packed(op.share, a.resource) || a.share >= 1-resource.LargeEpsilon) && a.usage >= a.share-resource.LargeEpsilon
	if op.starver != (starver{}) {
		a.starves, a.since, a.stage, a.vain = "it", op.clock.From(), op.stage, op.order.Facts()[allocation.NoVictims]
		if p := op.starver.pool; p != nil {
			a.starves, a.since = "pool "+quote(p.name), p.clock.From()
		}
	}
	a.behind = iq.behind(op, a.resource)
	for i := range op.tasks {
		t := &op.tasks[i]
		if t.effective() == 0 {
			continue
		}
		out := taskAsk{TaskID: t.TaskID, pending: t.effective(), perJob: t.perJob, view: iq.gangs.gangView(op, t.Name), withheld: iq.graceful.withheld(op, t.perJob), awaits: iq.cluster.waitsForNodes(op, t)}
		if g := op.missing(t.Name); g != nil {
			f := iq.gangCause(g, now)
			out.gang = &f
			if f.Code == FactGang || f.Code == FactGangTurn || f.Code == FactGangPause {
				out.gathering = iq.gatheringOf(g, now)
			}
		}
		if f, limited := jobLimit(op, t.perJob); limited {
			out.limit = &f
		}
		a.tasks = append(a.tasks, out)
	}
}

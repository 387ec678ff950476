package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/discovery"
	"weir/actors/agent/journal"
	"weir/actors/agent/readiness"
	"weir/actors/agent/runner"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
)

const (
	// tailBytes is how much of the end of stderr is reported with a failure.
	tailBytes = 4 << 10
	// pressPause is the pause before an instruction that did not reach a proxy is sent again.
	pressPause = time.Second
	// releasePause is the pause before the removal of leftovers is retried. It is long because an
	// operator has to fix the cause.
	releasePause = 10 * time.Second
)

// jobRecord is the state of a job's actor. It outlives a panic.
type jobRecord struct {
	job     *Job
	courier *Courier
	run     Run
	// desk answers the job's discovery requests. unanswered are the replies to its reports that
	// its state is saved; they wait until the stop has reached its processes.
	desk       *discovery.Desk
	unanswered []func(error)
	// words watches the job's readiness and reports it, while the job runs and has not been
	// asked to leave.
	words atomic.Pointer[readiness.Watcher]
	// asks is the number of the latest question to a controller.
	asks uint64
	// overdue is the timer of SpecPatience. `again` is the timer of retries.
	overdue, again *time.Timer
	// stall is the timer of a duty that waits for the disk; watching is that duty's number.
	stall    *time.Timer
	watching uint64
	// stopStart cancels the start of the processes.
	stopStart context.CancelFunc
	begun     bool
	// noted: the record of the job's process is in the journal, or on its way there.
	noted bool
	// heldBack: the report was delayed once, because the job ended by the node's fault.
	heldBack bool
	// stopFetch cancels the fetching of files. placed: fetched files wait to be moved into the
	// workspace.
	stopFetch context.CancelFunc
	placed    bool
	shown     *actorpb.HeldJob
}

// jobActor brings one job through its life.
type jobActor struct {
	*environment
	*jobRecord
}

type (
	// told is the result of sending the job's processes an instruction about their end.
	told struct {
		number int
		err    error
	}
	// saved is the job's report that its state is saved.
	saved struct{ answer func(error) }
)

// Receive implements actor.Actor.
func (a *jobActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case order:
		a.job.Stop(time.Now(), m.Order)
		a.act(ctx)
	case work:
		m(ctx)
	case runner.Started:
		if a.job.Phase() < Ended {
			a.job.Saw(m)
			a.noteProcess(ctx, m)
			a.act(ctx)
		}
	case runner.Sample, runner.Exited:
		a.job.Saw(m.(runner.Event))
		a.act(ctx)
	case told:
		a.told(ctx, m)
	case saved:
		a.saved(ctx, m)
	case *actor.Stopping:
		stopTimers(a.overdue, a.again, a.stall)
		a.dropFiles()
		a.closeWords()
	case *actor.Restarting:
		stopTimers(a.overdue, a.again, a.stall)
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		a.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

// start begins the job, or resumes it after a panic. Whatever was in progress is done again,
// except starting processes and writing to the journal, whose outcomes still arrive.
func (a *jobActor) start(ctx actor.Context) {
	if a.begun {
		for _, duty := range []Duty{AskSpec, StopRun, ReadTail, Report, Release, Leave} {
			a.job.Retry(duty)
		}
		a.watch(ctx, a.job.underway)
	} else {
		a.desk = a.newDesk(ctx)
		if a.run != nil {
			go pass(a.run, ctx.Self(), ctx.ActorSystem().Root)
			a.openDesk()
			if a.job.Phase() >= Ended {
				// An earlier agent process may have given up the start of these processes.
				a.endLate()
			} else if a.job.order == nil {
				a.openWords()
			}
		}
	}
	a.begun = true
	if a.job.Phase() == Waiting {
		a.overdue = after(ctx, a.overdue, a.cfg.Timing.SpecPatience, func(ctx actor.Context) {
			a.job.NoSpec(time.Now(), fmt.Sprintf("no controller responded within %v", a.cfg.Timing.SpecPatience))
			a.act(ctx)
		})
	}
	a.act(ctx)
}

// act does the next duty and reports the job's state to the agent.
func (a *jobActor) act(ctx actor.Context) {
	a.shared.figures.passed(a.job.Passed(time.Now()))
	if a.job.Phase() >= Ended {
		a.dropFiles()
		a.closeWords()
	}
	duty := a.job.Next()
	if duty != Rest {
		a.watch(ctx, duty)
	}
	switch duty {
	case Rest:
	case AskSpec:
		a.ask(ctx, &actorpb.JobSpecRequest{
			Node: a.cfg.Node, OperationId: a.job.start.GetOperationId(), JobId: a.job.start.GetJobId(),
			GrantIndex: a.job.start.GetToken().GetIndex(),
		})
	case FetchFiles:
		stopTimers(a.overdue)
		a.fetch(ctx)
	case NoteStart:
		a.noteFor(ctx, NoteStart, a.job.starting(a.boot))
	case StartRun:
		a.courier.Reset()
		a.startRun(ctx)
	case NoteStop:
		a.noteFor(ctx, NoteStop, a.job.stopping())
	case StopRun:
		a.closeWords()
		a.desk.Tell(a.job.Notice())
		telling, run := a.job.Telling(time.Now()), a.run
		self, root := ctx.Self(), ctx.ActorSystem().Root
		go func() { root.Send(self, told{telling.Number, telling.to(run)}) }()
	case ReadTail:
		end := a.shared.waits.begin("read the output of job " + a.job.start.GetJobId())
		aside(ctx, func() work {
			defer end()
			tail := a.readTail()
			return func(ctx actor.Context) {
				a.job.Tail(tail)
				a.act(ctx)
			}
		})
	case NoteEnd:
		a.noteFor(ctx, NoteEnd, journal.Exited(a.job.Result(), a.job.tail))
	case Report:
		a.report(ctx)
	case Release:
		// Not watched as a disk operation (shared.waits): removing many files takes long on a
		// healthy disk too.
		aside(ctx, func() work {
			err := a.run.Release()
			return func(ctx actor.Context) { a.released(ctx, err) }
		})
	case NoteRelease:
		a.noteFor(ctx, NoteRelease, journal.Released(a.job.start.GetJobId()))
	case Leave:
		ctx.Send(a.agent, forgotten{a.job.start.GetJobId()})
		ctx.Stop(ctx.Self())
		return
	}
	a.show(ctx)
}

// show sends the agent the job's entry for heartbeats, if it has changed.
func (a *jobActor) show(ctx actor.Context) {
	held := a.job.Held()
	if !proto.Equal(held, a.shown) {
		a.shown = held
		ctx.Send(a.agent, changed{held, a.job.Use()})
	}
}

// noteFor does a duty that writes a record to the journal.
func (a *jobActor) noteFor(ctx actor.Context, duty Duty, record *journalpb.Record) {
	a.note(ctx, func(ctx actor.Context) {
		a.job.Noted(duty)
		a.act(ctx)
	}, record)
}

// retry does a duty again after a pause.
func (a *jobActor) retry(ctx actor.Context, pause time.Duration, duty Duty) {
	a.again = after(ctx, a.again, pause, func(ctx actor.Context) {
		a.job.Retry(duty)
		a.act(ctx)
	})
}

// noteProcess records the job's process in the journal, once. Nothing waits for the record.
func (a *jobActor) noteProcess(ctx actor.Context, e runner.Started) {
	if a.noted {
		return
	}
	a.noted = true
	a.note(ctx, nil, journal.Started(e.JobID, e.Pid, timestamppb.New(e.Time), e.Cgroup))
}

// ask sends a question to the operation's controller, or asks a replica where the controller
// is.
func (a *jobActor) ask(ctx actor.Context, question proto.Message) {
	to, find := a.courier.Next(*a.shared.replicas.Load())
	if find {
		question = &actorpb.FindController{OperationId: a.job.start.GetOperationId(), GrantIndex: a.job.start.GetToken().GetIndex()}
	}
	a.asks++
	self, root, number := ctx.Self(), ctx.ActorSystem().Root, a.asks
	a.replicas.Ask(to, question, a.cfg.Timing.AskTimeout, func(reply proto.Message, err error) {
		root.Send(self, work(func(ctx actor.Context) {
			if number == a.asks {
				a.heard(ctx, find, reply, err)
			}
		}))
	})
}

func (a *jobActor) report(ctx actor.Context) {
	if a.job.NodeFault() && !a.heldBack {
		a.heldBack = true
		a.retry(ctx, a.cfg.Timing.FaultPause, Report)
		return
	}
	a.ask(ctx, &actorpb.JobEnded{
		Node: a.cfg.Node, Incarnation: a.nodeLife, OperationId: a.job.start.GetOperationId(),
		GrantIndex: a.job.start.GetToken().GetIndex(), Job: a.job.Result(), StderrTail: a.job.tail,
	})
}

// heard handles a controller's answer. The job may have moved on: an order to end it does not
// wait for its spec.
func (a *jobActor) heard(ctx actor.Context, find bool, reply proto.Message, err error) {
	duty := AskSpec
	if a.job.Underway(Report) {
		duty = Report
	}
	if !a.job.Underway(duty) {
		return
	}
	verdict, pause, cause := a.courier.Heard(find, reply, err)
	switch verdict {
	case Nobody:
		a.cfg.Logger.Info("no controller for the job; dropping it", "job", a.job.start.GetJobId(), "operation", a.job.start.GetOperationId())
		a.shared.figures.ended(a.job.Result())
		a.job.Acknowledge()
	case Answered:
		if duty == AskSpec {
			a.job.Answered(time.Now(), reply)
			break
		}
		a.acknowledged(ctx, reply)
	default:
		a.cfg.Logger.Debug("retrying controller", "job", a.job.start.GetJobId(), "pause", pause, "cause", cause)
		a.retry(ctx, pause, duty)
	}
	a.act(ctx)
}

// acknowledged handles the controller's answer to a result.
func (a *jobActor) acknowledged(ctx actor.Context, reply proto.Message) {
	ack, ok := reply.(*actorpb.JobEndedAck)
	if !ok || ack.GetJobId() != a.job.start.GetJobId() {
		a.cfg.Logger.Debug("result not acknowledged", "job", a.job.start.GetJobId(), "answer", describe(reply))
		a.retry(ctx, a.courier.Lost(), Report)
		return
	}
	if ack.GetRefusal() != "" {
		a.cfg.Logger.Warn("job result rejected", "job", ack.GetJobId(), "refusal", ack.GetRefusal(), "state", a.job.Result().GetState())
	}
	a.shared.figures.ended(a.job.Result())
	a.job.Acknowledge()
}

func (a *jobActor) released(ctx actor.Context, err error) {
	if err == nil {
		a.job.Released()
		a.act(ctx)
		return
	}
	a.cfg.Logger.Error("cannot clean up after a job; retrying", "job", a.job.start.GetJobId(), "error", err)
	a.retry(ctx, releasePause, Release)
}

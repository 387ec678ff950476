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
	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/agent/readiness"
	"weir/actors/agent/runner"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
)

const (
	// tailBytes is how much of stderr goes with a failure.
	tailBytes = 4 << 10
	// pressPause is the pause before a proxy that could not be told something is
	// told again.
	pressPause = time.Second
	// releasePause is the pause before leftovers that could not be removed are
	// tried again: it takes people to help.
	releasePause = 10 * time.Second
)

// jobEnvironment is what the actor of a job works with.
type jobEnvironment struct {
	cfg       Config
	processes Processes
	replicas  Replicas
	shared    *shared
	// nodeLife is the node's, boot the machine's, of which journal tells the next
	// process of the agent.
	nodeLife uint64
	boot     string
	// session is that of this process of the agent.
	session uint64
	journal records
	// files are kept for jobs, and placed in folder.
	files  *filecache.Cache
	folder folder
	// directory knows the peers of jobs that ask.
	directory *discovery.Directory
	// life ends with the agent.
	life  context.Context
	agent *actor.PID
}

// jobRecord is what a job's actor knows. It outlives a panic.
type jobRecord struct {
	job     *Job
	courier *Courier
	run     Run
	// desk is where the job asks about others and itself. unanswered wait there until the
	// job's processes are told that it has saved its state.
	desk       *discovery.Desk
	unanswered []chan<- error
	// words finds out and tells whether the job takes requests, while it runs and may stay.
	words atomic.Pointer[readiness.Watcher]
	// asks numbers questions to controllers.
	asks uint64
	// overdue and again are set for the spec's patience and for retries.
	overdue, again *time.Timer
	// stall is set for the limit of a duty that waits for the disk, the one of this number.
	stall    *time.Timer
	watching uint64
	// stopStart calls off what is being started.
	stopStart context.CancelFunc
	begun     bool
	// noted: the journal knows the job's process.
	noted bool
	// heldBack: the result has been held back, for the node's fault.
	heldBack bool
	// stopFetch ends the fetching of files. placed: they wait to be moved into the
	// workspace.
	stopFetch context.CancelFunc
	placed    bool
	shown     *actorpb.HeldJob
}

// jobActor brings one job through its life.
type jobActor struct {
	jobEnvironment
	*jobRecord
}

type (
	// heard brings a controller's answer.
	heard struct {
		ask   uint64
		find  bool
		reply proto.Message
		err   error
	}
	// noted tells that the journal has what a duty was to put there.
	noted struct{ duty Duty }
	// began brings the outcome of starting processes.
	began struct {
		run Run
		err error
	}
	// told brings the outcome of telling them to end.
	told struct {
		number int
		err    error
	}
	// tail brings the end of stderr.
	tail struct{ data []byte }
	// released brings the outcome of removing leftovers.
	released struct{ err error }
	// retry lets a duty be done again.
	retry struct{ duty Duty }
	// impatient tells that a duty has been under way for so long that the disk is taken to hang.
	impatient struct {
		duty   Duty
		number uint64
	}
	// overdue tells that the spec has been waited for long enough.
	overdue struct{}
)

// Receive implements actor.Actor.
func (a *jobActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case order:
		a.job.Stop(time.Now(), m.Order)
		a.act(ctx)
	case heard:
		a.heard(ctx, m)
	case fetched:
		a.fetched(ctx, m)
	case began:
		a.began(ctx, m)
	case runner.Started:
		if a.job.Phase() < Ended {
			a.job.Saw(m)
			a.noteProcess(ctx, m)
			a.act(ctx)
		}
	case runner.Sample, runner.Exited:
		a.job.Saw(m.(runner.Event))
		a.act(ctx)
	case noted:
		a.job.Noted(m.duty)
		a.act(ctx)
	case told:
		a.told(ctx, m)
	case saved:
		a.saved(ctx, m)
	case tail:
		a.job.Tail(m.data)
		a.act(ctx)
	case released:
		a.released(ctx, m)
	case impatient:
		a.stalled(ctx, m)
	case retry:
		a.job.Retry(m.duty)
		a.act(ctx)
	case overdue:
		a.job.NoSpec(time.Now(), fmt.Sprintf("no controller responded within %v", a.cfg.Timing.SpecPatience))
		a.act(ctx)
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

// start begins the job's life, or goes on with it after a panic: whatever was
// being done is done again, but for starting processes and what the journal was
// told, whose outcomes will come.
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
				// An earlier process may have given it up while it was started.
				a.endLate()
			} else if a.job.order == nil {
				a.openWords()
			}
		}
	}
	a.begun = true
	if a.job.Phase() == Waiting {
		a.overdue = after(ctx, a.overdue, a.cfg.Timing.SpecPatience, overdue{})
	}
	a.act(ctx)
}

// act does what is due and tells the agent how the job stands.
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
		a.note(ctx, noted{NoteStart}, a.job.starting(a.boot))
	case StartRun:
		a.courier.Reset()
		a.startRun(ctx)
	case NoteStop:
		a.note(ctx, noted{NoteStop}, a.job.stopping())
	case StopRun:
		a.closeWords()
		a.desk.Tell(a.job.Notice())
		telling, run := a.job.Telling(time.Now()), a.run
		a.aside(ctx, func() any { return told{telling.Number, telling.to(run)} })
	case ReadTail:
		end := a.shared.waits.begin("read the output of job " + a.job.start.GetJobId())
		a.aside(ctx, func() any {
			defer end()
			return tail{a.readTail()}
		})
	case NoteEnd:
		a.note(ctx, noted{NoteEnd}, journal.Exited(a.job.Result(), a.job.tail))
	case Report:
		a.report(ctx)
	case Release:
		// That takes long of many files on a disk that answers, and says nothing of it.
		a.aside(ctx, func() any { return released{a.run.Release()} })
	case NoteRelease:
		a.note(ctx, noted{NoteRelease}, journal.Released(a.job.start.GetJobId()))
	case Leave:
		ctx.Send(a.agent, forgotten{a.job.start.GetJobId()})
		ctx.Stop(ctx.Self())
		return
	}
	a.show(ctx)
}

// show tells the agent what heartbeats are to say, if that is new.
func (a *jobActor) show(ctx actor.Context) {
	held := a.job.Held()
	if !proto.Equal(held, a.shown) {
		a.shown = held
		ctx.Send(a.agent, changed{held, a.job.Use()})
	}
}

// aside does what blocks, and sends the outcome back.
func (a *jobActor) aside(ctx actor.Context, work func() any) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() { root.Send(self, work()) }()
}

// note puts a record into the journal and sends the actor what follows once it is
// there. If it cannot be there, the agent ends.
func (a *jobActor) note(ctx actor.Context, then any, record *journalpb.Record) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	end := a.shared.waits.begin("write to its journal")
	a.journal.Append(func(err error) {
		end()
		switch {
		case err != nil:
			root.Send(a.agent, spoiled{err})
		case then != nil:
			root.Send(self, then)
		}
	}, record)
}

// noteProcess notes who the job's process is, once. Nothing waits for that.
func (a *jobActor) noteProcess(ctx actor.Context, e runner.Started) {
	if a.noted {
		return
	}
	a.noted = true
	a.note(ctx, nil, journal.Started(e.JobID, e.Pid, timestamppb.New(e.Time), e.Cgroup))
}

// ask brings a question to the operation's controller, or asks for the way.
func (a *jobActor) ask(ctx actor.Context, question proto.Message) {
	to, find := a.courier.Next(*a.shared.replicas.Load())
	if find {
		question = &actorpb.FindController{OperationId: a.job.start.GetOperationId(), GrantIndex: a.job.start.GetToken().GetIndex()}
	}
	a.asks++
	self, root, number := ctx.Self(), ctx.ActorSystem().Root, a.asks
	a.replicas.Ask(to, question, a.cfg.Timing.AskTimeout, func(reply proto.Message, err error) {
		root.Send(self, heard{number, find, reply, err})
	})
}

func (a *jobActor) report(ctx actor.Context) {
	if a.job.NodeFault() && !a.heldBack {
		a.heldBack = true
		a.again = after(ctx, a.again, a.cfg.Timing.FaultPause, retry{Report})
		return
	}
	a.ask(ctx, &actorpb.JobEnded{
		Node: a.cfg.Node, Incarnation: a.nodeLife, OperationId: a.job.start.GetOperationId(),
		GrantIndex: a.job.start.GetToken().GetIndex(), Job: a.job.Result(), StderrTail: a.job.tail,
	})
}

// heard takes a controller's answer. The job may have gone on meanwhile: an order
// to end it does not wait for its spec.
func (a *jobActor) heard(ctx actor.Context, m heard) {
	duty := AskSpec
	if a.job.Underway(Report) {
		duty = Report
	}
	if m.ask != a.asks || !a.job.Underway(duty) {
		return
	}
	verdict, pause, cause := a.courier.Heard(m.find, m.reply, m.err)
	switch verdict {
	case Nobody:
		a.cfg.Logger.Info("no controller for the job; dropping it", "job", a.job.start.GetJobId(), "operation", a.job.start.GetOperationId())
		a.shared.figures.ended(a.job.Result())
		a.job.Acknowledge()
	case Answered:
		if duty == AskSpec {
			a.job.Answered(time.Now(), m.reply)
			break
		}
		a.acknowledged(ctx, m.reply)
	default:
		a.cfg.Logger.Debug("retrying controller", "job", a.job.start.GetJobId(), "pause", pause, "cause", cause)
		a.again = after(ctx, a.again, pause, retry{duty})
	}
	a.act(ctx)
}

// acknowledged takes the answer to a result.
func (a *jobActor) acknowledged(ctx actor.Context, reply proto.Message) {
	ack, ok := reply.(*actorpb.JobEndedAck)
	if !ok || ack.GetJobId() != a.job.start.GetJobId() {
		a.cfg.Logger.Debug("result not acknowledged", "job", a.job.start.GetJobId(), "answer", describe(reply))
		a.again = after(ctx, a.again, a.courier.Lost(), retry{Report})
		return
	}
	if ack.GetRefusal() != "" {
		a.cfg.Logger.Warn("job result rejected", "job", ack.GetJobId(), "refusal", ack.GetRefusal(), "state", a.job.Result().GetState())
	}
	a.shared.figures.ended(a.job.Result())
	a.job.Acknowledge()
}

func (a *jobActor) released(ctx actor.Context, m released) {
	if m.err == nil {
		a.job.Released()
		a.act(ctx)
		return
	}
	a.cfg.Logger.Error("cannot clean up after a job; retrying", "job", a.job.start.GetJobId(), "error", m.err)
	a.again = after(ctx, a.again, releasePause, retry{Release})
}

func stopTimers(timers ...*time.Timer) {
	for _, timer := range timers {
		if timer != nil {
			timer.Stop()
		}
	}
}

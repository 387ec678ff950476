package controller

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// leaveAttempts bounds how often an operation that has ended tries to leave what it has
// learned, while others of its profiles leave theirs.
const leaveAttempts = 10

// MemoryState reads what the replicated state knows of memory. What it returns is not to be
// changed.
type MemoryState interface {
	// Memory returns the tasks of the operation, each with its name and what is known of its
	// memory; without digests, unless they are asked for. None: there is no such operation.
	Memory(operation string, digests bool) []*statepb.Task
	// Reserve returns the reserve of its own that a cookie has; nil: it has none.
	Reserve(operation, task string, cookie int32) *statepb.CookieReserve
	// Profile returns the memory profile of a key; nil: there is none.
	Profile(key string) *statepb.MemoryProfile
	// Learning returns what the operation in progress has learned that knows most of a memory
	// profile; nil: none knows anything.
	Learning(key string) *Learning
}

// Over tells the actor that its operation has ended: it leaves what was learned, and stops.
type Over struct{}

// learning is what a controller knows about memory.
type learning struct {
	lessons *Lessons
	// telling: reserves are on their way; leaving: profiles are.
	telling, leaving bool
	// left: what was learned has been left, or cannot be.
	left     bool
	attempts int
	// over: the operation has ended. All lives of the actor know, for they are told once.
	over *bool
	// tellTimer and leaveTimer tell and leave again what was not committed, or not due.
	tellTimer, leaveTimer *time.Timer
}

// later is something to do in the life of the actor that has it done.
type later struct {
	of *controllerActor
	do func(ctx actor.Context)
}

// end leaves what was learned, and stops. Nobody asks this controller any more.
func (a *controllerActor) end(ctx actor.Context) {
	*a.learning.over = true
	a.ends.Drop(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "the operation has ended", RetryMillis: 50})
	a.learn(ctx)
}

// learn takes in what jobs have taught, has the reserves told that follow, and leaves what was
// learned when the operation ends.
func (a *controllerActor) learn(ctx actor.Context) {
	op, _ := a.cfg.State.Operation(a.cfg.Operation)
	state, err := lifecycle.ParseState(op.GetState())
	known := op != nil && err == nil && op.GetAssignment().GetEpoch() == a.cfg.Epoch
	ending := known && (state.Finishing() || state.Terminal())
	if known && (state == lifecycle.Running || ending) {
		a.takeLessons(op)
		a.tellReserves(ctx, state)
		if ending {
			a.leaveProfiles(ctx)
		}
	}
	if *a.learning.over && !a.learning.leaving && (!ending || a.learning.left) {
		ctx.Stop(ctx.Self())
	}
}

// takeLessons takes in samples that have been committed.
func (a *controllerActor) takeLessons(op *statepb.Operation) {
	l := &a.learning
	if l.lessons == nil {
		l.lessons = NewLessons(op.GetSpec())
	}
	err := l.lessons.Take(a.cfg.State.Memory(op.GetId(), !l.lessons.Complete()))
	if errors.Is(err, errBehind) {
		err = l.lessons.Take(a.cfg.State.Memory(op.GetId(), true))
	}
	if err != nil {
		a.cfg.Logger.Warn("memory digest unreadable; starting a new one", "operation", op.GetId(), "error", err)
	}
}

func (a *controllerActor) tellReserves(ctx actor.Context, state lifecycle.State) {
	l := &a.learning
	if l.telling || state != lifecycle.Running {
		return
	}
	now := a.cfg.Now()
	reserves, after := l.lessons.Learn(now)
	if after > 0 {
		a.doAfter(ctx, &l.tellTimer, after, a.learn)
	}
	if len(reserves) == 0 {
		return
	}
	l.telling = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	command := &commandpb.UpdateReserves{OperationId: a.cfg.Operation, Epoch: a.cfg.Epoch, Time: timestamppb.New(now), Tasks: reserves}
	a.cfg.Log.ProposeAsync([]proto.Message{command}, func(results []*commandpb.Result, err error) {
		root.Send(self, later{a, func(ctx actor.Context) { a.reservesTold(ctx, results, err) }})
	})
}

func (a *controllerActor) reservesTold(ctx actor.Context, results []*commandpb.Result, err error) {
	a.learning.telling = false
	if err != nil || results[0].GetRefusal() != nil {
		a.cfg.Logger.Debug("reserves not committed", "operation", a.cfg.Operation, "error", err, "refusal", results)
		a.doAfter(ctx, &a.learning.tellTimer, a.cfg.RetryAfter, a.learn)
		return
	}
	a.learn(ctx)
}

func (a *controllerActor) leaveProfiles(ctx actor.Context) {
	l := &a.learning
	if l.left || l.leaving {
		return
	}
	now := a.cfg.Now()
	profiles := l.lessons.Leave(a.cfg.Operation, now, a.cfg.State.Profile)
	if len(profiles) == 0 {
		l.left = true
		return
	}
	l.leaving = true
	l.attempts++
	self, root := ctx.Self(), ctx.ActorSystem().Root
	command := &commandpb.SaveMemoryProfiles{OperationId: a.cfg.Operation, Epoch: a.cfg.Epoch, Time: timestamppb.New(now), Profiles: profiles}
	a.cfg.Log.ProposeAsync([]proto.Message{command}, func(results []*commandpb.Result, err error) {
		root.Send(self, later{a, func(ctx actor.Context) { a.profilesLeft(ctx, results, err) }})
	})
}

func (a *controllerActor) profilesLeft(ctx actor.Context, results []*commandpb.Result, err error) {
	l := &a.learning
	if err == nil && results[0].GetRefusal() == nil {
		l.left = true
	} else if l.attempts >= leaveAttempts {
		a.cfg.Logger.Warn("memory profiles not saved; giving up", "operation", a.cfg.Operation, "error", err, "refusal", results)
		l.left = true
	}
	if l.left {
		l.leaving = false
		a.learn(ctx)
		return
	}
	// Leaving goes on, after a pause: another operation may have left its own meanwhile.
	a.doAfter(ctx, &l.leaveTimer, a.cfg.RetryAfter, func(ctx actor.Context) {
		l.leaving = false
		a.learn(ctx)
	})
}

// doAfter does one thing when enough time has passed, and forgets what the timer was for.
func (a *controllerActor) doAfter(ctx actor.Context, timer **time.Timer, wait time.Duration, do func(actor.Context)) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	stopTimer(*timer)
	*timer = time.AfterFunc(wait, func() { root.Send(self, later{a, do}) })
}

// expect returns what is known of a task's memory before its first job.
func (a *controllerActor) expect(op *statepb.Operation) func(*statepb.TaskSpec) *statepb.TaskMemory {
	return func(task *statepb.TaskSpec) *statepb.TaskMemory {
		var profile *statepb.MemoryProfile
		var learning *Learning
		if key := op.GetSpec().MemoryProfileKey(task); key != "" {
			profile, learning = a.cfg.State.Profile(key), a.cfg.State.Learning(key)
		}
		known, err := Expect(op.GetSpec(), task, profile, learning)
		if err != nil {
			a.cfg.Logger.Warn("memory profile unreadable", "operation", op.GetId(), "error", err)
		}
		return known
	}
}

// complete adds to the record of a job what is known here of its reserve, its statistics, and
// what it teaches.
func (a *controllerActor) complete(op *statepb.Operation, allocation *statepb.Allocation, job *statepb.FinishedJob) {
	task := taskOf(op, allocation)
	if task == nil {
		return
	}
	lessons := a.learning.lessons
	if lessons == nil {
		lessons = NewLessons(op.GetSpec())
	}
	job.Reserve = reserveOf(op, task, allocation)
	measured(job, op.GetSpec().MemoryTask(task), task)
	teach(job, lessons.Of(task.GetName()), a.cfg.State.Reserve(op.GetId(), task.GetName(), job.GetCookie()))
}

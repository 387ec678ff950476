package controller

import (
	"errors"
	"log/slog"

	"google.golang.org/protobuf/proto"

	"weir/actors/reconcile"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// leaveAttempts is how often an ended operation tries to save its memory profiles while other
// operations keep changing them.
const leaveAttempts = 10

// MemoryState reads the memory statistics of the replicated state. Results must not be changed.
type MemoryState interface {
	// Memory returns the tasks of the operation, each with its name and memory state, without
	// digests unless requested. It returns none if there is no such operation.
	Memory(operation string, digests bool) []*statepb.Task
	// Reserve returns a cookie's own reserve; nil if it has none.
	Reserve(operation, task string, cookie int32) *statepb.CookieReserve
	// Profile returns the memory profile of a key; nil if there is none.
	Profile(key string) *statepb.MemoryProfile
	// Learning returns what an operation in progress has learned for a memory profile. Of several
	// operations, the one with the most samples counts. nil means that no operation has samples.
	Learning(key string) *Learning
}

// Over tells the actor that its operation has ended. The actor saves the memory profiles, and
// stops.
type Over struct{}

// learning is the memory state of a controller.
type learning struct {
	lessons *Lessons
	// telling means that a proposal of reserves is in flight. leaving means that a proposal of
	// profiles is.
	telling, leaving bool
	// left means that the profiles are saved, or cannot be.
	left     bool
	attempts int
	// over means that the operation has ended. It is shared by all lives of the actor, because
	// Over is sent once.
	over *bool
	// tellAgain and leaveAgain retry proposals that were not committed, or were not due yet.
	tellAgain, leaveAgain reconcile.Timer
}

// end saves the memory profiles, and stops. No more requests reach this controller. The outcome of results
// in flight, which may have ended the operation, still answers their agents.
func (a *controllerActor) end() {
	*a.learning.over = true
	if !a.finishing {
		a.ends.Drop(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "the operation has ended", RetryMillis: 50})
	}
	a.learn()
}

// learn adds new samples, proposes the reserves that result, and saves the memory profiles when
// the operation ends.
func (a *controllerActor) learn() {
	op, _ := a.cfg.State.Operation(a.cfg.Operation)
	state, err := lifecycle.ParseState(op.GetState())
	known := op != nil && err == nil && op.GetAssignment().GetEpoch() == a.cfg.Epoch
	ending := known && (state.Finishing() || state.Terminal())
	if known && (state == lifecycle.Running || ending) {
		a.takeLessons(op)
		a.tellReserves(state)
		if ending {
			a.leaveProfiles()
		}
	}
	if *a.learning.over && !a.finishing && !a.learning.leaving && (!ending || a.learning.left) {
		a.life.Context().Stop(a.life.Context().Self())
	}
}

// takeLessons adds samples that have been committed.
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

func (a *controllerActor) tellReserves(state lifecycle.State) {
	l := &a.learning
	if l.telling || state != lifecycle.Running {
		return
	}
	reserves, after := l.lessons.Learn(a.cfg.Now())
	if after > 0 {
		a.life.After(&l.tellAgain, after, a.learn)
	}
	if len(reserves) == 0 {
		return
	}
	l.telling = true
	a.life.Propose(a.cfg.Log, a.reservesTold, &commandpb.UpdateReserves{OperationId: a.cfg.Operation, Epoch: a.cfg.Epoch, Tasks: reserves})
}

func (a *controllerActor) reservesTold(results []*commandpb.Result, err error) {
	a.learning.telling = false
	if err != nil || results[0].GetRefusal() != nil {
		a.cfg.Logger.Debug("reserves not committed", "operation", a.cfg.Operation, "error", err, "refusal", results)
		a.life.After(&a.learning.tellAgain, a.cfg.RetryAfter, a.learn)
		return
	}
	a.learn()
}

func (a *controllerActor) leaveProfiles() {
	l := &a.learning
	if l.left || l.leaving {
		return
	}
	profiles := l.lessons.Leave(a.cfg.Operation, a.cfg.State.Profile)
	if len(profiles) == 0 {
		l.left = true
		return
	}
	l.leaving = true
	l.attempts++
	a.life.Propose(a.cfg.Log, a.profilesLeft, &commandpb.SaveMemoryProfiles{OperationId: a.cfg.Operation, Epoch: a.cfg.Epoch, Profiles: profiles})
}

func (a *controllerActor) profilesLeft(results []*commandpb.Result, err error) {
	l := &a.learning
	if err == nil && results[0].GetRefusal() == nil {
		l.left = true
	} else if l.attempts >= leaveAttempts {
		a.cfg.Logger.Warn("memory profiles not saved; giving up", "operation", a.cfg.Operation, "error", err, "refusal", results)
		l.left = true
	}
	if l.left {
		l.leaving = false
		a.learn()
		return
	}
	// Save again after a pause: another operation may have saved its profile meanwhile.
	a.life.After(&l.leaveAgain, a.cfg.RetryAfter, func() {
		l.leaving = false
		a.learn()
	})
}

// expect returns the memory state of a task of an operation before its first job.
func expect(op *statepb.Operation, of MemoryState, log *slog.Logger) func(*statepb.TaskSpec) *statepb.TaskMemory {
	return func(task *statepb.TaskSpec) *statepb.TaskMemory {
		var profile *statepb.MemoryProfile
		var learning *Learning
		key := op.GetSpec().MemoryProfileKey(op.GetUser(), task)
		if key != "" {
			profile, learning = of.Profile(key), of.Learning(key)
			if profile == nil {
				profile = of.Profile(op.GetSpec().FormerProfileKey(task))
			}
		}
		known, err := Expect(op.GetSpec(), task, key, profile, learning)
		if err != nil {
			log.Warn("memory profile unreadable", "operation", op.GetId(), "error", err)
		}
		return known
	}
}

// Prepared returns what the controller of an operation that is initializing would propose first, from
// what `of` knows; nil if the controller has to look at files before.
func Prepared(op *statepb.Operation, of MemoryState, log *slog.Logger) proto.Message {
	if reads(op) || hasFiles(op) {
		return nil
	}
	return Next(op, op.GetAssignment().GetEpoch(), expect(op, of, log))
}

// complete adds the reserve, the statistics and the memory sample to the record of a job.
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

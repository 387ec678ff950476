// Package reconcile is the actor that brings the replicated state to where a rule wants it, one
// proposal at a time. The rule decides from the state as it is; the actor looks again when that
// may have changed, when a proposal was not committed, and when the rule says so.
package reconcile

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// Log proposes commands in the leader's term. done is called once, off the
// caller's goroutine.
type Log interface {
	ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error))
}

// Step is what a rule decides.
type Step struct {
	// Propose is what to do now; empty: nothing.
	Propose []proto.Message
	// Again is when to decide again although nothing changes; zero: never.
	Again time.Time
	// Follow: another step may follow at once when this one has been committed.
	Follow bool
}

// Config is what the actor works with.
type Config struct {
	// Decide returns the step from the state as it is now.
	Decide func(now time.Time) Step
	Log    Log
	// RetryAfter is the pause after a step was refused or not committed: the rule saw a state
	// older than the log's.
	RetryAfter time.Duration
	Now        func() time.Time
	// Logger has the keys of what the actor is about.
	Logger *slog.Logger
}

// Look tells the actor that the state may have changed.
type Look struct{}

// proposed brings the outcome of a step to the life of the actor that took it.
type proposed struct {
	of      *reconciler
	follow  bool
	results []*commandpb.Result
	err     error
}

// New returns the producer of an actor.
func New(cfg Config) actor.Producer {
	return func() actor.Actor { return &reconciler{cfg: cfg} }
}

type reconciler struct {
	cfg Config
	// inFlight: a step is proposed and its outcome has not come.
	inFlight bool
	// dirty: a Look came while a step was in flight.
	dirty bool
	timer *time.Timer
}

// Receive implements actor.Actor.
func (r *reconciler) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, Look:
		r.look(ctx)
	case proposed:
		if m.of == r {
			r.proposed(ctx, m)
		}
	case *actor.Stopping, *actor.Restarting:
		r.stopTimer()
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The rest of the life cycle needs no work here.
	default:
		r.cfg.Logger.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
	}
}

func (r *reconciler) look(ctx actor.Context) {
	if r.inFlight {
		r.dirty = true
		return
	}
	r.dirty = false
	r.stopTimer()
	now := r.cfg.Now()
	step := r.cfg.Decide(now)
	if !step.Again.IsZero() {
		r.lookAfter(ctx, step.Again.Sub(now))
	}
	if len(step.Propose) == 0 {
		return
	}
	r.inFlight = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	r.cfg.Log.ProposeAsync(step.Propose, func(results []*commandpb.Result, err error) {
		root.Send(self, proposed{r, step.Follow, results, err})
	})
}

// proposed looks again: at once where something has changed or another step may follow, and
// after a pause where the step failed.
func (r *reconciler) proposed(ctx actor.Context, m proposed) {
	r.inFlight = false
	failed := m.err != nil
	for _, result := range m.results {
		if refusal := result.GetRefusal(); refusal != nil {
			failed = true
			r.cfg.Logger.Debug("step rejected", "code", refusal.GetCode(), "reason", refusal.GetMessage())
		}
	}
	switch {
	case r.dirty || !failed && m.follow:
		r.look(ctx)
	case failed:
		r.lookAfter(ctx, r.cfg.RetryAfter)
	}
}

func (r *reconciler) lookAfter(ctx actor.Context, d time.Duration) {
	r.stopTimer()
	self, root := ctx.Self(), ctx.ActorSystem().Root
	r.timer = time.AfterFunc(max(d, 0), func() { root.Send(self, Look{}) })
}

func (r *reconciler) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

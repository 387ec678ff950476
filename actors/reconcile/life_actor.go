package reconcile

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// Body is the behaviour of an actor in one of its lives. Its methods are called one at a time.
type Body interface {
	// Start is called first.
	Start()
	// Take handles a message, and reports whether the actor knows it.
	Take(message any) (known bool)
	// Stop is called last.
	Stop()
}

// Life is one life of an actor: it begins when the actor is spawned, and when it is restarted after
// a failure. Callbacks of one life never run in the next one, which begins from the current state.
type Life struct {
	ctx    actor.Context
	timers []*Timer
}

// Live returns the producer of an actor. `born` makes the Body of each life of the actor.
func Live(logger *slog.Logger, born func(*Life) Body) actor.Producer {
	return func() actor.Actor {
		life := new(Life)
		return &living{life: life, body: born(life), log: logger}
	}
}

// turn is a function to run in the life that it belongs to.
type turn struct {
	of *Life
	do func()
}

type living struct {
	life *Life
	body Body
	log  *slog.Logger
}

// Receive implements actor.Actor.
func (l *living) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		l.life.ctx = ctx
		l.body.Start()
	case turn:
		if m.of == l.life {
			m.do()
		}
	case *actor.Stopping, *actor.Restarting:
		for _, timer := range l.life.timers {
			timer.Stop()
		}
		l.body.Stop()
	case actor.SystemMessage, actor.AutoReceiveMessage:
		// The other life-cycle messages need no work here.
	default:
		if !l.body.Take(m) {
			l.log.Warn("unexpected message", "type", fmt.Sprintf("%T", m))
		}
	}
}

// Do runs a function in the actor's goroutine, after the messages that are already queued. It may
// be called from any goroutine, once the life has started.
func (l *Life) Do(do func()) { l.ctx.ActorSystem().Root.Send(l.ctx.Self(), turn{l, do}) }

// Context returns the actor's context, for use in its own goroutine only.
func (l *Life) Context() actor.Context { return l.ctx }

// Timer runs a function in one life after a delay.
type Timer struct {
	timer   *time.Timer
	pending bool
}

// After sets the timer to run a function after d. It replaces the function that was set before.
func (l *Life) After(timer *Timer, d time.Duration, do func()) {
	if timer.timer == nil {
		l.timers = append(l.timers, timer)
	}
	timer.Stop()
	timer.pending = true
	timer.timer = time.AfterFunc(max(d, 0), func() {
		l.Do(func() {
			timer.pending = false
			do()
		})
	})
}

// Pending reports whether the timer's function is still to come.
func (t *Timer) Pending() bool { return t.pending }

// Stop stops the timer, unless its function is already queued.
func (t *Timer) Stop() {
	t.pending = false
	if t.timer != nil {
		t.timer.Stop()
	}
}

// Log proposes commands. done is called once, off the caller's goroutine.
type Log interface {
	ProposeAsync(commands []proto.Message, done func([]*commandpb.Result, error))
}

// Propose proposes commands, and calls done with the outcome in the actor's goroutine.
func (l *Life) Propose(log Log, done func([]*commandpb.Result, error), commands ...proto.Message) {
	log.ProposeAsync(commands, func(results []*commandpb.Result, err error) {
		l.Do(func() { done(results, err) })
	})
}

// Refusal returns the first refusal among results; nil if all commands were applied.
func Refusal(results []*commandpb.Result) *commandpb.Refusal {
	for _, result := range results {
		if refusal := result.GetRefusal(); refusal != nil {
			return refusal
		}
	}
	return nil
}

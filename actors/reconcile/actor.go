// Package reconcile is the common part of actors that bring the replicated state in line with a
// rule. They read the state, propose commands, and read it again.
//
// New makes an actor that applies a rule and handles no other messages. It proposes one step at a
// time, and looks again when the state may have changed, when a proposal was not committed, and
// when the rule asks for it. Live is the frame of an actor with messages of its own: its lives,
// timers and proposals.
package reconcile

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
)

// Step is the decision of a rule.
type Step struct {
	// Propose are the commands to propose now, if any.
	Propose []proto.Message
	// Again is when to decide again even if nothing changes; zero for never.
	Again time.Time
	// Follow means that another step may follow at once when this one has been committed.
	Follow bool
}

// Config is the configuration of the actor.
type Config struct {
	// Decide returns the step for the current state.
	Decide func(now time.Time) Step
	Log    Log
	// RetryAfter is the pause after a step that was refused or not committed. A step is refused if
	// the rule saw an older state than that of the log.
	RetryAfter time.Duration
	Now        func() time.Time
	// Logger has the attributes of the actor's subject.
	Logger *slog.Logger
}

// Look tells an actor that the state may have changed. One Look in its mailbox is enough.
type Look struct{}

// New returns the producer of an actor.
func New(cfg Config) actor.Producer {
	return Live(cfg.Logger, func(life *Life) Body { return &reconciler{cfg: cfg, life: life} })
}

type reconciler struct {
	cfg  Config
	life *Life
	// inFlight means that a step is proposed and has no outcome yet.
	inFlight bool
	// dirty means that a Look came while a step was in flight.
	dirty bool
	again Timer
}

// Start implements Body.
func (r *reconciler) Start() { r.look() }

// Take implements Body.
func (r *reconciler) Take(message any) bool {
	_, look := message.(Look)
	if look {
		r.look()
	}
	return look
}

// Stop implements Body.
func (r *reconciler) Stop() {}

func (r *reconciler) look() {
	if r.inFlight {
		r.dirty = true
		return
	}
	r.dirty = false
	r.again.Stop()
	now := r.cfg.Now()
	step := r.cfg.Decide(now)
	if !step.Again.IsZero() {
		r.life.After(&r.again, step.Again.Sub(now), r.look)
	}
	if len(step.Propose) == 0 {
		return
	}
	r.inFlight = true
	r.life.Propose(r.cfg.Log, func(results []*commandpb.Result, err error) {
		r.inFlight = false
		r.proposed(Refusal(results), err, step.Follow)
	}, step.Propose...)
}

// proposed looks again: at once if something has changed or another step may follow, and after a
// pause if the step failed.
func (r *reconciler) proposed(refusal *commandpb.Refusal, err error, follow bool) {
	if refusal != nil {
		r.cfg.Logger.Debug("step rejected", "code", refusal.GetCode(), "reason", refusal.GetMessage())
	}
	failed := refusal != nil || err != nil
	switch {
	case r.dirty || !failed && follow:
		r.look()
	case failed:
		r.life.After(&r.again, r.cfg.RetryAfter, r.look)
	}
}

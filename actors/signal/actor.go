package signal

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

type (
	// Interrupt announces a signal of this replica.
	Interrupt = hearsay.Say[*actorpb.InterruptionSignal]
	// Learn brings signals that every replica has from its own log.
	Learn = hearsay.Learn[*actorpb.InterruptionSignal]
	// Heard brings a signal, or the whole of what another replica knows.
	Heard = hearsay.Heard
)

// Config is what a signal actor works with.
type Config struct {
	// Self says who sends.
	Self   hearsay.Speaker
	Gossip hearsay.Gossip
	// News is told of the operation of each signal that is new, or forgotten, on the
	// actor's goroutine.
	News func(operation string)
	// ExpireEvery is the period in which old signals are forgotten.
	ExpireEvery time.Duration
	Logger      *slog.Logger
}

// New returns the producer of a replica's signal actor, which writes to signals.
func New(cfg Config, signals *Signals) actor.Producer {
	return hearsay.New(hearsay.Config[*actorpb.InterruptionSignal]{
		Self: cfg.Self, Gossip: cfg.Gossip, Logger: cfg.Logger,
		News: func(s *actorpb.InterruptionSignal) { cfg.News(s.GetOperationId()) },
		Expire: func() {
			for _, operation := range signals.expire() {
				cfg.News(operation)
			}
		},
		ExpireEvery: cfg.ExpireEvery,
	}, signals.Known)
}

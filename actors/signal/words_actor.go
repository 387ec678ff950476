package signal

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// Tell announces a word that was told to this replica.
type Tell = hearsay.Say[*actorpb.InstanceWord]

// WordConfig is what an actor of words works with.
type WordConfig struct {
	Self   hearsay.Speaker
	Gossip hearsay.Gossip
	// News is told of the operation of each word that is new, on the actor's goroutine.
	News func(operation string)
	// Runs tells whether a job runs, as far as is known here.
	Runs        func(job string) bool
	ExpireEvery time.Duration
	Logger      *slog.Logger
}

// NewWordActor returns the producer of a replica's actor of words, which writes to words.
func NewWordActor(cfg WordConfig, words *Words) actor.Producer {
	return hearsay.New(hearsay.Config[*actorpb.InstanceWord]{
		Self: cfg.Self, Gossip: cfg.Gossip, Logger: cfg.Logger,
		News: func(w *actorpb.InstanceWord) { cfg.News(w.GetOperationId()) },
		Expire: func() {
			words.Change(func(table *WordTable, now time.Time) { table.Expire(now, cfg.Runs) })
		},
		ExpireEvery: cfg.ExpireEvery,
	}, words.Known)
}

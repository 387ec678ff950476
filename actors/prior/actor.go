package prior

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

type (
	// Share announces what a controller of this replica has learned.
	Share = hearsay.Say[*actorpb.MemoryPrior]
	// Heard brings what was learned elsewhere, or the whole of what another replica knows.
	Heard = hearsay.Heard
)

// Config is what a prior actor works with.
type Config struct {
	// Self tells the messages of one life of a replica from others.
	Self   hearsay.Speaker
	Gossip hearsay.Gossip
	Logger *slog.Logger
}

// New returns the producer of a replica's prior actor, which writes to priors.
func New(cfg Config, priors *Priors) actor.Producer {
	return hearsay.New(hearsay.Config[*actorpb.MemoryPrior]{Self: cfg.Self, Gossip: cfg.Gossip, Logger: cfg.Logger}, priors.Known)
}

package signal

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// TellNode announces whether a node is heard.
type TellNode = hearsay.Say[*actorpb.NodeWord]

// NodeConfig is what an actor of nodes works with.
type NodeConfig struct {
	Self   hearsay.Speaker
	Gossip hearsay.Gossip
	// News is called with each node of which there is news, on the actor's goroutine.
	News        func(node string)
	ExpireEvery time.Duration
	Logger      *slog.Logger
}

// NewNodeActor returns the producer of a replica's actor of nodes, which writes to nodes.
func NewNodeActor(cfg NodeConfig, nodes *Nodes) actor.Producer {
	return hearsay.New(hearsay.Config[*actorpb.NodeWord]{
		Self: cfg.Self, Gossip: cfg.Gossip, Logger: cfg.Logger,
		News: func(w *actorpb.NodeWord) { cfg.News(w.GetNode()) },
		Expire: func() {
			var unheard []string
			nodes.Change(func(table *NodeTable, now time.Time) { unheard = table.Expire(now) })
			for _, node := range unheard {
				cfg.News(node)
			}
		},
		ExpireEvery: cfg.ExpireEvery,
	}, nodes.Known)
}

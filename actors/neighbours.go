package actors

import (
	"log/slog"

	"weir/cluster"
	"weir/scheduling"
)

// streams is the part of *remote.Remote that neighbours uses.
type streams interface {
	Connect(peer string) error
	Disconnect(peer string)
}

// neighbours maintains streams to the other replicas. Only one goroutine may use it.
type neighbours struct {
	self    scheduling.ReplicaID
	streams streams
	log     *slog.Logger
	known   map[scheduling.ReplicaID]bool
}

// observe connects to the replicas of view, and disconnects from those that are no longer in the
// view, because they have been removed.
func (n *neighbours) observe(view *cluster.View) {
	before := n.known
	n.known = map[scheduling.ReplicaID]bool{}
	for _, other := range view.Replicas {
		if other.ID == n.self {
			continue
		}
		n.known[other.ID] = true
		if err := n.streams.Connect(peerOf(string(other.ID))); err != nil {
			n.log.Warn("cannot connect to replica", "replica", other.ID, "error", err)
		}
	}
	for id := range before {
		if !n.known[id] {
			n.streams.Disconnect(peerOf(string(id)))
		}
	}
}

package actors

import (
	"log/slog"

	"weir/cluster"
	"weir/scheduling"
)

// streams is what neighbours need of a *remote.Remote.
type streams interface {
	Connect(peer string) error
	Disconnect(peer string)
}

// neighbours keeps streams to the other replicas. One goroutine uses it.
type neighbours struct {
	self    scheduling.ReplicaID
	streams streams
	log     *slog.Logger
	known   map[scheduling.ReplicaID]bool
}

// observe connects with the replicas of view, and gives up those that were in an
// earlier one only: they have been removed.
func (n *neighbours) observe(view *cluster.View) {
	before := n.known
	n.known = map[scheduling.ReplicaID]bool{}
	for _, other := range view.Replicas {
		if other.ID == n.self {
			continue
		}
		n.known[other.ID] = true
		if err := n.streams.Connect(peerOf(string(other.ID))); err != nil {
			n.log.Warn("connect to replica", "replica", other.ID, "error", err)
		}
	}
	for id := range before {
		if !n.known[id] {
			n.streams.Disconnect(peerOf(string(id)))
		}
	}
}

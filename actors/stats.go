package actors

import (
	"weir/actors/gateway"
	"weir/actors/remote"
	"weir/actors/scheduler"
)

// Stats is what a replica's actors have done since Start, and how they stand.
type Stats struct {
	// Leading is set while this replica's leader actor lives.
	Leading bool
	Remote  remote.Stats
	Gateway gateway.Stats
	// Scheduler counts the terms that were led here.
	Scheduler scheduler.Stats
	// Controllers is how many operations have their controller here.
	Controllers int
	// HeartbeatsDropped counts heartbeats whose place a newer one took before the
	// node's actor came to them.
	HeartbeatsDropped uint64
}

// Stats returns a snapshot.
func (r *Replica) Stats() Stats {
	return Stats{
		Leading: r.leader.Load() != nil, Remote: r.remote.Stats(), Gateway: r.gatewayFigures.Stats(), Scheduler: r.schedulerFigures.Stats(),
		Controllers: len(r.controllers.all()), HeartbeatsDropped: r.heartbeatsDropped.Load(),
	}
}

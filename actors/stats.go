package actors

import (
	"weir/actors/gateway"
	"weir/actors/remote"
	"weir/actors/scheduler"
	"weir/cluster/clock"
	"weir/messages/actorpb"
)

// Stats is the work of a replica's actors since Start, and their current state.
type Stats struct {
	// Leading is set while this replica's leader actor runs.
	Leading bool
	Gateway gateway.Stats
	// Scheduler counts over all terms that this replica led.
	Scheduler scheduler.Stats
	// Clock is what this replica knows of its clock.
	Clock clock.Report
	// Controllers is how many operations have their controller here.
	Controllers int
	// HeartbeatsDropped counts heartbeats that were replaced by a newer one before the node's
	// actor handled them.
	HeartbeatsDropped uint64
}

// Credentials returns what the agents hold of the cluster's certificates, by node, as far as they have
// told this replica as their leader.
func (r *Replica) Credentials() map[string]*actorpb.HeldCredentials { return r.board.credentials() }

// Streams returns a snapshot of the streams with other processes, of which there may be thousands.
func (r *Replica) Streams() remote.Stats { return r.remote.Stats() }

// Stats returns a snapshot.
func (r *Replica) Stats() Stats {
	return Stats{
		Leading: r.leader.Load() != nil, Gateway: r.gatewayFigures.Stats(), Scheduler: r.schedulerFigures.Stats(),
		Clock:       r.cfg.Clock.Report(),
		Controllers: len(r.controllers.all()), HeartbeatsDropped: r.heartbeatsDropped.Load(),
	}
}

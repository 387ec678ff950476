package node

import (
	"fmt"
	"time"

	"weir/messages/statepb"
)

// Pace is how often agents send heartbeats, and how long an agent may run its jobs after it sent the
// last heartbeat that was acknowledged.
type Pace struct{ Heartbeat, Lease time.Duration }

// Pacer knows the pace of agents in a term. It may be called from any goroutine.
type Pacer interface {
	// Tell returns the pace that agents are told now. Its lease is no longer than that of Bound.
	Tell() Pace
	// Bound returns the pace with the longest lease that any agent may have been told.
	Bound() Pace
}

// Tell implements the Pacer of a pace that never changes.
func (p Pace) Tell() Pace { return p }

// Bound implements the Pacer of a pace that never changes.
func (p Pace) Bound() Pace { return p }

// PaceOf reads a pace from the replicated state.
func PaceOf(p *statepb.Pace) Pace {
	return Pace{Heartbeat: time.Duration(p.GetHeartbeatMillis()) * time.Millisecond, Lease: time.Duration(p.GetLeaseMillis()) * time.Millisecond}
}

// Record returns the pace for the replicated state.
func (p Pace) Record() *statepb.Pace {
	return &statepb.Pace{HeartbeatMillis: p.Heartbeat.Milliseconds(), LeaseMillis: p.Lease.Milliseconds()}
}

const (
	// nodesPerBeat is how many nodes may send heartbeats in a base period: 2,000 a second take 0.4 of
	// a core of the leader.
	nodesPerBeat = 2000
	// slowest is the longest period, in base periods: the jobs of a lost node have to wait for five
	// times as long before they run elsewhere.
	slowest = 5
	// spare is the part by which the nodes have to become fewer before the period becomes shorter, so
	// that it does not change with each node that comes and goes.
	spare = 0.2
)

// Pace returns the pace of agents in a cluster with so many nodes online, where it has been `now` so far.
// If the period follows the size, it is the base period up to 2,000 nodes and five of them from
// 10,000 on, in steps of half a base period; the lease grows in the same ratio.
func (t Timing) Pace(nodes int, now Pace) Pace {
	base := t.Base()
	if !t.Follow {
		return base
	}
	least, most := base.times(halves(nodes)), base.times(halves(int(float64(nodes)/(1-spare))))
	switch {
	case now.Heartbeat < least.Heartbeat:
		return least
	case now.Heartbeat > most.Heartbeat:
		return most
	default:
		return base.times(int(2 * now.Heartbeat / base.Heartbeat))
	}
}

// Base returns the pace of agents that does not follow the size of the cluster.
func (t Timing) Base() Pace { return Pace{Heartbeat: t.Heartbeat, Lease: t.Lease} }

// halves returns the period for so many nodes, in half base periods.
func halves(nodes int) int { return max(2, min(2*slowest, (2*nodes+nodesPerBeat-1)/nodesPerBeat)) }

// times returns the pace that is so many halves of p.
func (p Pace) times(halves int) Pace {
	n := time.Duration(halves)
	return Pace{Heartbeat: p.Heartbeat * n / 2, Lease: p.Lease * n / 2}
}

// killPart determines how long an agent may take to end its jobs after its lease: the lease divided
// by killPart, but at least Timing.Kill. A longer lease is for slower machines, where the jobs'
// processes may have to wait for a processor.
const killPart = 10

// Wait is how long after a node's last heartbeat the leader gives up the node's jobs: longer than the
// agent's own lease.
func (t Timing) Wait(p Pace) time.Duration {
	return time.Duration(float64(p.Lease)*(1+t.Drift)) + max(t.Kill, p.Lease/killPart)
}

// silence is the time without a heartbeat after which a node counts as unheard: one heartbeat
// period before its agent may end its jobs, but at least one and a half periods, so that a slightly
// late heartbeat does not count. Validate ensures that it is within the lease.
func (p Pace) silence() time.Duration { return max(p.Lease-p.Heartbeat, p.Heartbeat*3/2) }

// String returns the pace in words.
func (p Pace) String() string {
	return fmt.Sprintf("a heartbeat each %s, a lease of %s", p.Heartbeat, p.Lease)
}
